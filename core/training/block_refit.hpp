// New leaf values for fixed trees, and bounds on the scores that an attacker can reach.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "running/parallel.hpp"
#include "training/block_forest.hpp"
#include "training/block_objective.hpp"

namespace carve {

struct RefitOptions {
    int steps = 100;
    int blocks_per_batch = 64;
    double rate = 0.02; // of the first step; it falls linearly to 0
    double l2 = 0;
    std::uint64_t seed = 0;
};

// Minimises  mean loss + l2 / 2 * |values|^2  over the leaf values of all trees, by Adam
// with the gradients of batches of blocks that hold the groups of rows in even proportions. With
// fixed trees the worst score of a row is a minimum (or maximum) of linear functions of the values,
// so the loss is convex. Returns the average of the iterates, in the order of the forest's leaves.
// If `go_on` returns false, the result is that of the steps so far.
std::vector<double> refit_leaves(const RowBlocks& rows, const BlockObjective& objective,
                                 BlockForest forest, std::span<const double> values,
                                 std::span<const double> bias, const RefitOptions& options,
                                 int threads, const std::function<bool()>& go_on);

// bias + the sum over the trees of an output of the lowest (highest) leaf value in reach, in double
// precision, for every row of X and output; rows that were not encoded are left alone. With an
// objective, only the worse of both is found and written to `low`. False iff `watch` cancelled.
bool find_score_bounds(const RowBlocks& rows, const BlockForest& forest,
                       std::span<const double> values, std::span<const double> bias,
                       const BlockObjective* objective, double* low, double* high, int threads,
                       const WatchFunction& watch);

} // namespace carve
