// Attacks on a block of rows where every leaf within reach can be had for nothing (norm inf): each
// tree picks its own worst leaf. All these picks can be had at once if the ensemble is
// large-spread, and totals are then exact; else they are lower bounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "training/margin_terms.hpp"
#include "training/reached.hpp"

namespace carve {

// One per thread.
class AttackByLimits {
  public:
    // output[t] is the one that tree t counts for, leaves have one score each; but by rival
    // leaves have `width` scores, and `output` is not looked at.
    AttackByLimits(const LeafNumbers& numbers, std::span<const std::int32_t> output,
                   std::size_t width)
        : numbers_(numbers), output_(output), width_(width) {}

    // Adds to the totals; `scores` are in the order of the leaves' numbers.
    void attack(const double* scores, const Reached& reached, MarginTerms& terms);
    // Adds the forces on the block attacked last to the slopes.
    void descend(const MarginTerms& terms, std::int64_t* slope);

  private:
    template <class Leaf>
    void attack_as(const double* scores, const Leaf* leaves, MarginTerms& terms);
    // Calls visit(tree, term) in the order of picks_, which has a row's worth for each.
    template <class Visit> void each(const MarginTerms& terms, Visit&& visit) const;

    const LeafNumbers& numbers_;
    std::span<const std::int32_t> output_; // per tree
    std::size_t width_;
    std::vector<std::int32_t> picks_; // numbers of leaves
    std::vector<std::int64_t> whole_; // forces, rounded
};

} // namespace carve
