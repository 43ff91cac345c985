// Attacks on rows where moves share a budget (norms 0, 1, 2, …), on large-spread ensembles: one
// leaf per tree, as a multiple-choice knapsack in its linear relaxation. At most one leaf is picked
// in part, so that a total is a lower bound on the true one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "large_spread/knapsack.hpp"
#include "training/margin_terms.hpp"
#include "training/reached.hpp"

namespace carve {

// One per thread.
class AttackByCosts {
  public:
    // output[t] is the one that tree t counts for, if leaves have one score each (width 1).
    AttackByCosts(const LeafNumbers& numbers, std::span<const std::int32_t> output,
                  std::size_t width, double capacity)
        : numbers_(numbers), output_(output), width_(width), capacity_(capacity) {}

    // Adds to the totals; `scores` are in the order of the leaves' numbers.
    void attack(const double* scores, const Reached& reached, MarginTerms& terms);
    // Adds the forces on the block attacked last to the slopes.
    void descend(const MarginTerms& terms, std::int64_t* slope) const;

  private:
    struct Part { // of one tree's pick: `share` of it is `to` instead of `from`
        std::int32_t tree = 0;
        std::int32_t from = 0;
        std::int32_t to = 0;
        double share = 0;
    };
    void attack_row(const double* scores, const Reached& reached, MarginTerms& terms, int term,
                    std::size_t row);
    double value(const double* scores, const MarginTerm& term, std::size_t tree,
                 std::int32_t leaf) const;
    double relaxed_gain(std::int32_t* picks, Part& part);

    const LeafNumbers& numbers_;
    std::span<const std::int32_t> output_;
    std::size_t width_;
    double capacity_;
    std::vector<std::int32_t> picks_; // term by term, row by row, tree by tree: numbers of leaves
    std::vector<Part> parts_;         // term by term, row by row
    Knapsack knapsack_;
    std::vector<Option> options_;
};

} // namespace carve
