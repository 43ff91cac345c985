// What proofs call the axes and cells of the core's ensemble.
//
// The core may have translated features: whole numbers for multiples of a step, states for
// categories and one-hot groups. A proof speaks of the model as it was given.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace carve {

struct ProofNames {
    std::vector<std::int32_t> axes; // per feature
    // Of feature f: the thresholds [threshold_starts[f], threshold_starts[f + 1]), ascending, and
    // for each the last cell that goes left of it.
    std::vector<std::int32_t> threshold_starts;
    std::vector<double> thresholds;
    std::vector<std::int32_t> last_cells;
    // Of a finite feature f: what its states are called, from state_starts[f] on.
    std::vector<std::int32_t> state_starts;
    std::vector<std::int32_t> states;

    std::int32_t last_cell(std::int32_t feature, double threshold) const {
        const auto f = static_cast<std::size_t>(feature);
        const auto begin = thresholds.begin() + threshold_starts[f];
        const auto end = thresholds.begin() + threshold_starts[f + 1];
        const auto found = std::lower_bound(begin, end, threshold) - thresholds.begin();
        return last_cells[static_cast<std::size_t>(found)];
    }
    // A category that the model does not know is a state without a name.
    bool has_state(std::int32_t feature, std::int32_t state) const {
        const auto f = static_cast<std::size_t>(feature);
        return 0 <= state && state < state_starts[f + 1] - state_starts[f];
    }
    std::int32_t state(std::int32_t feature, std::int32_t state) const {
        return states[static_cast<std::size_t>(state_starts[static_cast<std::size_t>(feature)] +
                                               state)];
    }
};

} // namespace carve
