// What a search looks for, and the best that it has found.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "model/solver.hpp"
#include "running/stopwatch.hpp"
#include "search/reduction.hpp"

namespace carve {

class Aim {
  public:
    Aim(const Ensemble& ensemble, const Reduction& whole) : ensemble(ensemble), whole_(whole) {}
    // A new question; the leaves of the instance are in the reduction.
    void set(const Instance& instance, const Objective& objective, Goal goal,
             const Stopwatch& stopwatch, const std::vector<const Objective*>& others);

    bool closes(std::int64_t bound) const { return bound >= cutoff; }
    // There is nothing of interest below this bound; a lower one may have been closed before.
    void close_at(std::int64_t bound) { closed_at = std::min(closed_at, bound); }
    bool found() const { return goal == Goal::decide && wins; }
    bool late() const { return stopwatch->expired() || nodes > most_nodes; }
    // Takes an affordable attack (cells of any reduction of the instance) if it is better. `total`
    // is what it is thought to reach.
    void keep(const Reduction& reduction, const std::vector<std::int32_t>& cells,
              std::int64_t total);
    bool wins_everywhere(const std::vector<std::int32_t>& leaves) const;

    const Ensemble& ensemble;
    const Instance* instance = nullptr;
    const Objective* objective = nullptr;
    const Stopwatch* stopwatch = nullptr;
    std::vector<const Objective*> rivals; // that an attack must all win against; none: `objective`
    Goal goal = Goal::decide;
    bool exactly = false; // compare exact totals, not units
    bool compacts_always = false;

    std::int64_t cutoff = 0;    // attacks whose total is not below this are of no interest
    std::int64_t need = 0;      // totals below this (and only such) can win
    std::int64_t closed_at = 0; // the least bound at which anything was closed
    std::int64_t nodes = 0;
    std::int64_t most_nodes = std::numeric_limits<std::int64_t>::max();

    std::int64_t best = 0; // total of the best attack found
    ExactSum best_total;
    bool wins = false;
    std::vector<std::int32_t> best_features;
    std::vector<double> best_values;

  private:
    const Reduction& whole_;
    std::vector<double> routed_;
};

} // namespace carve
