// The smallest budget that flips one instance, whichever way a rival's budget is measured.
#pragma once

#include <vector>

#include "model/problem.hpp"
#include "model/solver.hpp"
#include "running/stopwatch.hpp"
#include "running/turns.hpp"
#include "verdict/rivals.hpp"

namespace carve {

// One per thread.
class RadiusFinder {
  public:
    RadiusFinder(const Problem& problem, RadiusSolver& solver);

    // Both bounds are 0 where the instance is wrong already.
    RadiusBounds find(const Instance& instance, int label, const Stopwatch& stopwatch);

  private:
    const Problem& problem_;
    RadiusSolver& solver_;
    Rivals rivals_;
    Turns turns_;
    std::vector<RadiusBounds> known_; // in the order of rivals_
};

} // namespace carve
