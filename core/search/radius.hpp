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
#include "running/stopwatch.hpp"
#include "search/search.hpp"
#include "verdict/row_tools.hpp"

namespace carve {

class RadiusSearch {
  public:
    RadiusSearch(const Ensemble& ensemble, const Attacker& attacker, const Objectives& objectives)
        : ensemble_(ensemble), attacker_(attacker), objectives_(objectives),
          instance_(ensemble, attacker), row_(ensemble.n_features) {}

    template <class Number>
    RadiusBounds run(const Number* row, int label, const Stopwatch& stopwatch) {
        row_.assign(row, row + ensemble_.n_features);
        instance_.load(row_.data());
        return solve(label, stopwatch);
    }

  private:
    struct Trial {
        Verdict verdict;
        double distance; // of the attack found
    };
    // A class that may take over, and what is known of the budget it needs: no budget up to `lower`
    // is enough, `upper` is.
    struct Rival {
        int id;
        double margin;
        double lower = 0;
        double upper;
        double next = 0; // the budget to try next, while none is known to be enough
        int trials = 0;
    };
    RadiusBounds solve(int label, const Stopwatch& stopwatch);
    // Improves the rival's bounds, as far as they matter below `upper`; false iff time ran out.
    bool close_in(Rival& rival, const Objective& objective, double upper,
                  const Stopwatch& stopwatch);
    // The same while no budget is known to be enough.
    bool grow(Rival& rival, const Objective& objective, double last, const Stopwatch& stopwatch);
    Trial attempt(const Objective& objective, double budget, const Stopwatch& stopwatch);
    void measure();

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    const Objectives& objectives_;
    Instance instance_;
    double nearest_ = 0;  // about the distance of the nearest threshold
    double farthest_ = 0; // no attack needs more than this
    std::vector<double> row_;
    std::vector<double> z_;
    std::vector<std::int32_t> changed_;
};

} // namespace carve
