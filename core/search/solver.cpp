#include "search/solver.hpp"

#include <algorithm>

namespace carve {

Outcome SearchSolver::attack(const Objective& objective, Goal goal, const Stopwatch& limit) {
    smaller_.reset();
    Outcome outcome = search_.run(*instance_, objective, goal, limit);
    if (outcome.has_attack || !search_.too_large())
        return outcome;
    constexpr int most_tries = 6;
    Attacker shrunk = attacker_;
    for (int tries = 0; tries < most_tries && !limit.expired(); ++tries) {
        shrunk.budget = attacker_.norm == 0 ? shrunk.budget - 1 : shrunk.budget / 2;
        if (!(shrunk.budget > 0))
            break;
        auto smaller = std::make_unique<Smaller>(ensemble_, shrunk);
        smaller->instance.load(*instance_);
        const Outcome found =
            smaller->search.run(smaller->instance, objective, Goal::decide, limit);
        outcome.least.upper = std::min(outcome.least.upper, found.least.upper);
        if (found.has_attack) {
            outcome.has_attack = true;
            outcome.verdict = Verdict::wins;
            smaller_ = std::move(smaller);
            break;
        }
        if (!smaller->search.too_large())
            break; // none with this budget, and so none with less
    }
    return outcome;
}

} // namespace carve
