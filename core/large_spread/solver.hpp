// The best attack on one instance of a large-spread ensemble: margin, worst margin, verdict,
// witness, radius.
//
// Rests on: no feature the attacker can use in one tree can be used in another, so that any choice
// of one leaf in reach per tree is an attack, and costs add up.
#pragma once

#include <cstdint>
#include <vector>

#include "large_spread/changes.hpp"
#include "large_spread/demands.hpp"
#include "large_spread/fine_costs.hpp"
#include "large_spread/first_look.hpp"
#include "large_spread/knapsack.hpp"
#include "large_spread/reach.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "model/solver.hpp"
#include "numbers/multiples.hpp"
#include "running/stopwatch.hpp"

namespace carve {

class LargeSpreadSolver final : public Solver {
  public:
    struct Mode {
        int grid = -1; // < 0: exact. Otherwise the paper's conservative one, units of 10^-grid
        // Take up those instances only for which the ensemble is large-spread; otherwise the
        // caller answers for it.
        bool per_instance = false;
    };
    LargeSpreadSolver(const Ensemble& ensemble, const Attacker& attacker, const Mode& mode);

    bool load(Instance& instance) override;
    // Norms 1, 2, … are NP-hard even so; they, and norm 0 in large trees, may be undecided. On the
    // grid, where costs are rounded down and the budget up, an alarm that is not backed by an
    // attack is undecided.
    Outcome attack(const Objective& objective, Goal goal, const Stopwatch& limit) override;
    void perturb(double* z, std::vector<std::int32_t>& changed) override;
    bool is_thorough() const override { return true; }

    // The smallest budget, up to the attacker's, at which the attack wins; NaN if there is none,
    // `undecided` if time or memory ran out.
    static constexpr double undecided = -1;
    double radius(const Objective& objective, const Stopwatch& limit);

  private:
    struct Event { // from `budget` on, `leaf` of `tree` is in reach
        double budget;
        std::int32_t tree;
        std::int32_t leaf;
    };

    // Is the ensemble large-spread as far as this instance is concerned?
    bool is_large_spread();
    Outcome attack_by_limits(const Objective& objective);
    Outcome attack_by_changes(const Objective& objective);
    // Without the worst margin; false if it takes a closer look.
    bool decide_at_first_look(const Objective& objective, Outcome& outcome);
    Outcome attack_by_cost(const Objective& objective, const Stopwatch& limit);
    // Reach of all trees, as a knapsack; fills home_ and returns the total of the instance itself.
    LongSum collect(const Objective& objective);
    void add_group(int tree, const SameGain& same); // of options_
    // The outcome if the best attack is that in leaf_, whose total is `worst`.
    Outcome conclude(const Objective& objective, const LongSum& margin, const LongSum& worst) const;
    // The outcome if all that is known of the best attack is that it gains at most `gain`.
    Outcome give_up(const Objective& objective, const LongSum& margin, double gain);
    Outcome attack_on_grid(const Objective& objective, const LongSum& margin,
                           const Stopwatch& limit);
    // An attack in leaf_ is within the budget; its total is `worst`.
    void believe(const Objective& objective, const LongSum& worst, Outcome& outcome) const;
    LongSum total_of_picks(const Objective& objective); // fills leaf_
    static LongSum total_of(const Objective& objective, const std::vector<std::int32_t>& leaves);
    // Does the choice in leaf_ fit the budget, exactly?
    bool picks_fit();
    double radius_by_limits(const Objective& objective);
    double radius_by_cost(const Objective& objective, const Stopwatch& limit);
    double critical_budget(std::int32_t leaf);
    // The same by whole numbers, where they apply; false if they leave a doubt.
    bool attack_by_fine_costs(const Objective& objective, const LongSum& margin,
                              const Stopwatch& limit, Outcome& outcome);
    WholeOption whole_option(const Objective& objective, int tree, std::int32_t leaf);
    ExactCosts exact_costs();
    ExactOption exact_option(const Objective& objective, const ExactCosts& costs, int tree,
                             std::int32_t leaf);

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    bool per_instance_;
    RoundedCosts costs_;
    FineCosts fine_costs_;
    Multiples scores_;      // all of the ensemble's
    double grid_cells_ = 0; // the budget in grid cells; 0: no grid
    Instance* instance_ = nullptr;
    Reach reach_;
    FirstLook first_look_;
    Changes changes_;
    Knapsack knapsack_;
    std::vector<Option> options_;
    std::vector<std::int32_t> option_leaves_; // of all groups in the knapsack
    std::vector<std::int32_t> home_;          // per tree: the leaf the instance falls into
    std::vector<std::int32_t> leaf_;          // per tree: the leaf of the best attack
    Demands demands_;
    std::vector<std::int32_t> stack_;
    std::vector<Event> events_;
    std::vector<double> routed_;
};

} // namespace carve
