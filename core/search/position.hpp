// A point of the search, one cell per feature, and the total there; what moving one feature does.
//
// Every leaf counts the demands of its own that the point does not meet; the leaf that counts none
// is its tree's. (Leaves out of reach are not there: where the budget does not go, or nothing of
// interest is, a tree may have none, and counts as its first leaf.)
#pragma once

#include <cstdint>
#include <vector>

#include "search/reduction.hpp"

namespace carve {

class Position {
  public:
    explicit Position(const Reduction& reduction) : reduction_(reduction) {}
    // The reduction has changed: go to the start, the instance or what is nearest to it.
    void reset() { is_set_ = false; }
    void move(std::int32_t feature, std::int32_t cell);

    std::int64_t total() {
        set();
        return total_;
    }
    // Per cell of the feature: what moving there would add to the total; valid until the next call.
    const std::vector<std::int64_t>& profile(std::int32_t feature);

  private:
    // Most resets are never followed by a move: what follows from one waits for it.
    void set() {
        if (!is_set_)
            start();
        is_set_ = true;
    }
    void start();
    // What a leaf adds to the total, compared with the first of its tree.
    std::int64_t change(const Reduction::Slot& slot, std::int32_t leaf) const {
        const auto& tree = reduction_.trees[slot.tree];
        return reduction_.leaves[leaf].value - reduction_.leaves[tree.leaf_begin].value;
    }

    const Reduction& reduction_;
    bool is_set_ = false;
    std::vector<std::int32_t> cell_;        // per feature
    std::vector<std::int32_t> missed_;      // per leaf: how many of its demands are not met
    std::vector<Reduction::Range> allowed_; // per range: its cells
    std::int64_t total_ = 0;
    std::vector<std::int64_t> profile_;
};

} // namespace carve
