// The smallest budget that flips an instance of a large-spread ensemble, exactly.
//
// For norms 1, 2, … the budget grows by factors of four from the nearest threshold on, so that
// costs stay well scaled: one solver per level of the budget, kept from instance to instance.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "large_spread/solver.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/solver.hpp"

namespace carve {

class LargeSpreadRadius final : public RadiusSolver {
  public:
    // per_instance: give up on instances for which the ensemble is not large-spread at the budget
    // that is looked at; otherwise the caller answers for it.
    LargeSpreadRadius(const Ensemble& ensemble, const Attacker& attacker, bool per_instance);

    void load(const Instance& instance) override;
    bool close_in(const Objective& objective, double enough, const Stopwatch& limit,
                  RadiusBounds& known) override;
    bool is_thorough() const override { return !per_instance_; }

  private:
    struct Level {
        Level(const Ensemble& ensemble, const Attacker& grown, const LargeSpreadSolver::Mode& mode)
            : attacker(grown), instance(ensemble, attacker), solver(ensemble, attacker, mode) {}
        Attacker attacker;
        Instance instance;
        LargeSpreadSolver solver;
        std::int64_t number = 0; // of the instance that was loaded last
        bool applies = false;
    };
    double budget_of(int level) const; // the last level has that of the attacker
    Level& at(int level);              // the instance loaded

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    bool per_instance_;
    int last_;
    int first_ = 0; // for the instance at hand
    const Instance* instance_ = nullptr;
    std::int64_t number_ = 0;
    std::map<int, std::unique_ptr<Level>> levels_;
};

} // namespace carve
