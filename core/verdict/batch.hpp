// The four questions over many instances: threads over rows, an entry per row in `Decisions`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/problem.hpp"
#include "model/rows.hpp"
#include "running/parallel.hpp"
#include "verdict/decisions.hpp"

namespace carve {

struct Options {
    Engine solver = Engine::none; // none: what can be said without an attack
    std::vector<double> seconds;  // per row; may be infinite
    int threads = 0;              // 0: all cores
    bool witness = false;         // find witnesses and their distances
    bool exact_margin = false;    // search: find the worst margin itself, not only its sign
    // Large-spread: check the condition for every instance, and leave those unknown for which it
    // does not hold; otherwise the caller answers for it.
    bool per_instance = false;
    bool basic = false; // large-spread: build every attack and predict on it as well
    int grid = -1;      // large-spread: >= 0: the paper's conservative mode, units of 10^-grid
};

// One call of a question: `decisions` are those of the rows, with no columns but the first three.
// All functions return false iff `watch` cancelled; `label` is a class index per row.
struct Batch {
    const Problem& problem;
    const Rows& rows;
    const Options& options;
    const WatchFunction& watch;
    Decisions& decisions;

    bool decide(const std::int32_t* label) const;
    bool radius(const std::int32_t* label) const;
    bool output_range() const;
    // Does no attack change the raw score times `average` by more than `limit`, a sum of doubles?
    bool stays_within(std::span<const double> limit) const;
};

} // namespace carve
