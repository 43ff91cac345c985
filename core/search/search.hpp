// Any ensemble: relax, conflict, branch. The best attack on one instance by branch and bound.
//
// search.cpp       one question, from the instance to the answer
// aim.cpp          what is looked for, and the best found
// reduction.cpp    the trees pruned to the reach (numbering.cpp: cells; compaction.cpp: less)
// descent.hpp      the tree of domains
#pragma once

#include <cstdint>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "model/solver.hpp"
#include "running/stopwatch.hpp"
#include "search/aim.hpp"
#include "search/descent.hpp"
#include "search/reduction.hpp"

namespace carve {

class Search {
  public:
    Search(const Ensemble& ensemble, const Attacker& attacker);

    // With `others`, an attack must win against all of them as well to count (Goal::decide only).
    Outcome run(Instance& instance, const Objective& objective, Goal goal,
                const Stopwatch& stopwatch, const std::vector<const Objective*>& others = {});
    // Writes the best attack found over z, which holds the instance, and lists what it changes.
    void perturb(double* z, std::vector<std::int32_t>& changed) const;
    // Make a reduction of every domain that lost a leaf, not only where that pays: for tests.
    void compact_always() { aim_.compacts_always = true; }
    std::int64_t nodes() const { return aim_.nodes; }
    // Was the last run given up for the size of what is in reach, not for time?
    bool too_large() const { return too_large_; }

  private:
    bool turn_to_rivals(); // false iff what they are does not fit, or time is up
    // The search proper, for attacks whose total is below the cutoff; false iff interrupted.
    bool descend(std::int64_t cutoff);
    // Search again, for attacks that units are too coarse to tell from the best; true iff the best
    // is the best in truth.
    bool settle();
    double lower_bound(std::int64_t units) const; // as a raw score

    const Ensemble& ensemble_;
    Reduction reduction_;
    Aim aim_;
    Descent descent_;
    bool too_large_ = false;
};

} // namespace carve
