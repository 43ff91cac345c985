// Trees by cells: the thresholds of a feature cut it into cells; the cells of a finite feature are
// its states: state s is cell s + 1, whatever is no state that anybody knows cell 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"

namespace carve {

// The output whose scores in the tree are not all 0.
inline constexpr std::int32_t no_output = -1;
inline constexpr std::int32_t several_outputs = -2;
std::int32_t only_output(const Ensemble& ensemble, int tree);

// An ensemble whose splits know the place of their threshold among those of the feature.
class CutTrees {
  public:
    // The attacker says which states there are beside those that splits list.
    CutTrees(const Ensemble& ensemble, const Attacker& attacker);

    struct Node {             // as in Ensemble, depth-first
        double threshold;     // NaN where the split is by a set
        std::int32_t feature; // -1 at a leaf
        std::int32_t right;   // at a leaf: its row in the scores
        std::int32_t place;   // of the threshold; or the number of the set
        bool missing_left;
        bool by_set;
    };
    static_assert(sizeof(Node) == 24);

    // Number of thresholds below the value: the cell that it is in.
    std::int32_t cell_of(std::int32_t feature, double value) const;
    std::span<const double> cuts(std::int32_t feature) const {
        const auto f = static_cast<std::size_t>(feature);
        return {cuts_.data() + first_[f], static_cast<std::size_t>(first_[f + 1] - first_[f])};
    }
    // Where the feature's cuts begin in an array of all cuts.
    std::size_t first_cut(std::int32_t feature) const {
        return static_cast<std::size_t>(first_[static_cast<std::size_t>(feature)]);
    }
    std::size_t cut_count() const { return cuts_.size(); }
    // Where the feature's cells begin in arrays that have one more place than cells per feature.
    std::size_t first_cell(std::int32_t feature) const {
        return static_cast<std::size_t>(first_[static_cast<std::size_t>(feature)]) +
               2 * static_cast<std::size_t>(feature);
    }
    std::size_t cell_places() const { return cuts_.size() + 2 * first_.size(); }

    std::vector<Node> nodes;
    std::vector<std::int32_t> output; // per tree: the only one it counts for, or no_output

  private:
    std::vector<double> cuts_;
    std::vector<std::int32_t> first_; // per feature: of its cuts
};

} // namespace carve
