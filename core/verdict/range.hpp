// Raw scores within reach of one instance, whichever solver attacks: their range, and whether they
// stay within a limit. Ensembles with one output.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/problem.hpp"
#include "model/solver.hpp"
#include "running/stopwatch.hpp"
#include "running/turns.hpp"
#include "verdict/decisions.hpp"

namespace carve {

struct Range {
    Enclosure lowest;  // of the lowest raw score in reach; the columns of `Decisions` say more
    Enclosure highest; // of the highest
    bool is_known;     // both, to the last rounding
};

// One per thread.
class RangeFinder {
  public:
    RangeFinder(const Problem& problem, Solver& solver);

    Range range(Instance& instance, const Stopwatch& stopwatch);
    // Does no attack change the raw score times `average` by more than `limit`, a sum of doubles?
    // robust, fragile or unknown.
    Status stays_within(Instance& instance, std::span<const double> limit,
                        const Stopwatch& stopwatch);

  private:
    void predict(const Instance& instance); // fills home_

    const Ensemble& ensemble_;
    Solver& solver_;
    Objective ends_[2]; // to be brought down: the output, its negative
    Turns turns_;
    std::vector<std::int32_t> home_; // per tree: the leaf the instance falls into
};

} // namespace carve
