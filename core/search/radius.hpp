// The smallest budget that flips an instance of any ensemble, by searches at trial budgets.
//
// A search that finds an attack brings the upper bound down to what the attack costs, exactly; one
// that finds none brings the lower bound up. Done once none is found one double below the upper
// bound: costs are finitely many, so that this ends.
#pragma once

#include <cstdint>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "model/solver.hpp"
#include "running/stopwatch.hpp"
#include "search/search.hpp"

namespace carve {

class RadiusSearch final : public RadiusSolver {
  public:
    RadiusSearch(const Ensemble& ensemble, const Attacker& attacker)
        : ensemble_(ensemble), attacker_(attacker) {}

    void load(const Instance& instance) override;
    bool close_in(const Objective& objective, double enough, const Stopwatch& limit,
                  RadiusBounds& known) override;

  private:
    struct Attempt {
        Verdict verdict;
        double distance; // of the attack found
    };
    // As close_in, while no budget is known to be enough; `last` is the largest of interest.
    bool grow(const Objective& objective, double last, const Stopwatch& limit, RadiusBounds& known);
    Attempt attempt(const Objective& objective, double budget, const Stopwatch& limit);

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    const Instance* instance_ = nullptr;
    double farthest_ = 0; // no attack needs more than this
    double first_ = 0;    // the budget to try first
    double harmless_ = 0; // no budget up to this changes anything
    std::vector<double> z_;
    std::vector<std::int32_t> changed_;
};

} // namespace carve
