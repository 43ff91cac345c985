// The search as a solver: any ensemble, any norm.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/solver.hpp"
#include "search/search.hpp"

namespace carve {

class SearchSolver final : public Solver {
  public:
    SearchSolver(const Ensemble& ensemble, const Attacker& attacker)
        : ensemble_(ensemble), attacker_(attacker), search_(ensemble, attacker) {}

    bool load(Instance& instance) override {
        instance_ = &instance;
        return true;
    }
    // Where too much is in reach to look at all of it, an attack with less of the budget is one
    // all the same.
    Outcome attack(const Objective& objective, Goal goal, const Stopwatch& limit) override;
    void perturb(double* z, std::vector<std::int32_t>& changed) override {
        (smaller_ ? smaller_->search : search_).perturb(z, changed);
    }
    bool attacks_jointly() const override { return true; }
    Outcome attack_jointly(const Objective& objective, const std::vector<const Objective*>& others,
                           const Stopwatch& limit) override {
        smaller_.reset();
        return search_.run(*instance_, objective, Goal::decide, limit, others);
    }

  private:
    struct Smaller { // a search with a smaller budget
        Smaller(const Ensemble& ensemble, const Attacker& shrunk)
            : attacker(shrunk), instance(ensemble, attacker), search(ensemble, attacker) {}
        Attacker attacker;
        Instance instance;
        Search search;
    };

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    Search search_;
    std::unique_ptr<Smaller> smaller_; // if it found the last attack
    Instance* instance_ = nullptr;
};

} // namespace carve
