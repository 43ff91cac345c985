// How to decide: one set of options for all questions; each takes what concerns it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/rows.hpp"
#include "verdict/decisions.hpp"

namespace carve {

struct Options {
    Engine solver = Engine::none; // none: what can be said without an attack
    std::vector<double> seconds;  // per row; may be infinite
    int threads = 0;              // 0: all cores
    bool witness = false;         // find witnesses and their distances …
    // … any of them, where it takes longer to find the best, at the distance of the budget: no more
    // is known
    bool any_witness = false;
    bool exact_margin = false; // search: find the worst margin itself, not only its sign
    // Large-spread: check the condition for every instance, and leave those unknown for which it
    // does not hold; otherwise the caller answers for it.
    bool per_instance = false;
    bool basic = false; // large-spread: build every attack and predict on it as well
    int grid = -1;      // large-spread: >= 0: the paper's conservative mode, units of 10^-grid
    // Bounds of every row, instead of the attacker's own; so many numbers each.
    RowBounds bounds{};
    std::int64_t bounded = 0;
};

} // namespace carve
