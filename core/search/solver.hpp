// The search as a solver: any ensemble, any norm.
#pragma once

#include <vector>

#include "model/solver.hpp"
#include "search/search.hpp"

namespace carve {

class SearchSolver final : public Solver {
  public:
    SearchSolver(const Ensemble& ensemble, const Attacker& attacker)
        : search_(ensemble, attacker) {}

    bool load(Instance& instance) override {
        instance_ = &instance;
        return true;
    }
    Outcome attack(const Objective& objective, Goal goal, const Stopwatch& limit) override {
        return search_.run(*instance_, objective, goal, limit);
    }
    void perturb(double* z, std::vector<std::int32_t>& changed) override {
        search_.perturb(z, changed);
    }
    bool attacks_jointly() const override { return true; }
    Outcome attack_jointly(const Objective& objective, const std::vector<const Objective*>& others,
                           const Stopwatch& limit) override {
        return search_.run(*instance_, objective, Goal::decide, limit, others);
    }

  private:
    Search search_;
    Instance* instance_ = nullptr;
};

} // namespace carve
