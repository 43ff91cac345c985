// Worst margins as functions of the leaf scores: what a robust refit descends on.
//
// With the trees fixed, so are the leaves within reach of an instance and what they cost; only the
// scores change from step to step. The worst margin of an instance against a rival class is
//
//   min over attacks of  constant + sum over trees of value(picked leaf),
//
// a minimum of linear functions of the scores. Attacks are those of the large-spread algorithms,
// with the knapsack of norms 0, 1, 2, … in its linear relaxation: at most one leaf is picked in
// part, so that the margin is a lower bound on the true one, and still a minimum of linear
// functions. Training needs no more; verdicts come from elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "large_spread/knapsack.hpp"
#include "large_spread/reach.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "running/parallel.hpp"

namespace carve {

class WorstCases {
  public:
    WorstCases(const Ensemble& ensemble, const Attacker& attacker, const std::int32_t* label,
               std::int64_t count);

    // Finds what is within reach of every row; to be called once. False iff `watch` cancelled.
    bool collect(const Rows& rows, int threads, const WatchFunction& watch);

    // The logistic loss of worst margins: sum of weight * log(1 + exp(-steepness * margin)).
    struct Loss {
        const double* weight; // per row, in [0, 1]; nullptr: 1
        double steepness;
    };
    // margin[i] of every row for `scores` (a row per leaf, a column per output), against the worst
    // rival; negative where it is a tie that goes to the rival. Unless it is nullptr, `slope`
    // receives the derivative of the loss by every score; its rounding does not depend on the
    // number of threads. False iff `watch` cancelled.
    bool evaluate(const double* scores, const Loss& loss, double* margin, double* slope,
                  int threads, const WatchFunction& watch) const;

    std::int64_t rows() const { return static_cast<std::int64_t>(label_.size()); }
    std::size_t score_count() const { return ensemble_.scores.size(); }
    // Bytes that `collect` stored.
    std::size_t memory() const;

  private:
    static constexpr std::int64_t block_size = 64;

    struct Contest {       // a tree with several leaves within reach
        std::int32_t tree; //
        std::int32_t end;  // of its entries in `leaf` and `cost`
    };
    struct Block {                      // of consecutive rows
        std::vector<std::int32_t> home; // per row and tree: the leaf the row falls into
        std::vector<std::int32_t> end;  // per row: of its contests
        std::vector<Contest> contests;
        std::vector<std::int32_t> leaf; // other leaves within reach, by increasing cost
        std::vector<float> cost;        // empty for norm inf
    };
    class Worker;

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    RoundedCosts costs_;
    std::vector<std::int32_t> label_;
    double slope_unit_; // slopes are added up in whole multiples of this, in any order
    std::vector<Block> blocks_;
};

} // namespace carve
