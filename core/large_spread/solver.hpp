// The best attack on one instance of a large-spread ensemble: margin, worst margin, verdict,
// witness, radius. One solver per worker thread.
//
// Rests on: no feature the attacker can use in one tree can be used in another, so that any choice
// of one leaf in reach per tree is an attack, and costs add up.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "large_spread/knapsack.hpp"
#include "large_spread/reach.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "running/stopwatch.hpp"

namespace carve {

struct Outcome {         // totals are given as raw scores, that is, divided by `average`
    double margin = 0;   // total value of the objective on the instance itself, rounded
    Enclosure worst{};   // of the smallest total value the attacker can reach
    bool holds = false;  // the instance itself is on the objective's side
    bool wins = false;   // the attacker can bring it to the other side
    bool proven = true;  // false, in grid mode only: `wins` is an alarm, not a proof
    bool decided = true; // false: ran out of time or memory; `wins` says nothing
    bool is_best = true; // false: ran out of time or memory; `worst` is no more than bounded
};

class LargeSpreadSolver {
  public:
    // grid < 0: exact. Otherwise the paper's conservative mode with costs in units of 10^-grid.
    // Norms 0, 1, 2, … are NP-hard even so: an instance may take `seconds`.
    LargeSpreadSolver(const Ensemble& ensemble, const Attacker& attacker, int grid, double seconds,
                      const std::atomic<bool>& cancelled);

    // The row must stay where it is while the instance is in use.
    template <class Number> void load(const Number* row) {
        load(row, Stopwatch(seconds_, cancelled_));
    }
    template <class Number> void load(const Number* row, const Stopwatch& stopwatch) {
        instance_.load(row);
        limit(stopwatch);
    }
    // From here on, the instance may take this long.
    void limit(const Stopwatch& stopwatch) { stopwatch_ = stopwatch; }
    const Stopwatch& stopwatch() const { return stopwatch_; }
    // Is the ensemble large-spread as far as this instance is concerned? All below rests on it.
    bool is_large_spread();

    Outcome attack(const Objective& objective);

    // The smallest budget, up to the attacker's, at which the attack wins; NaN if there is none,
    // `undecided` if time or memory ran out.
    static constexpr double undecided = -1;
    double radius(const Objective& objective);

    // Writes the attack found last over z, which holds the instance.
    void perturb(double* z);
    // The features that `perturb` changed.
    const std::vector<std::int32_t>& changed() const { return changed_; }
    // The objective's total value at z, by prediction.
    ExactSum predict(const Objective& objective, const double* z);
    // The smallest budget that affords what `perturb` did.
    double distance(const double* z) const { return attacker_.distance(changed_, instance_.x, z); }
    const Instance& instance() const { return instance_; }
    // Makes `perturb` and `predict` start from the unchanged instance.
    void forget_attack() { changed_.clear(); }
    bool affords(const double* z) const { return attacker_.affords(changed_, instance_.x, z); }

  private:
    struct Move { // a path's demand on one feature: low < z <= high
        std::int32_t feature;
        double low;
        double high;
    };
    struct Event { // from `budget` on, `leaf` of `tree` is in reach
        double budget;
        std::int32_t tree;
        std::int32_t leaf;
    };

    Outcome attack_by_limits(const Objective& objective);
    Outcome attack_by_cost(const Objective& objective);
    // Reach of all trees, as a knapsack; fills home_ and returns the total of the instance itself.
    LongSum collect(const Objective& objective);
    // The outcome if the best attack is that in leaf_, whose total is `worst`.
    Outcome conclude(const Objective& objective, const LongSum& margin, const LongSum& worst) const;
    // The outcome if all that is known of the best attack is that it gains at most `gain`.
    Outcome give_up(const Objective& objective, const LongSum& margin, double gain);
    Outcome attack_on_grid(const Objective& objective, const LongSum& margin);
    LongSum total_of_picks(const Objective& objective); // fills leaf_
    // Does the choice in leaf_ fit the budget, exactly?
    bool picks_fit();
    double radius_by_limits(const Objective& objective);
    double radius_by_cost(const Objective& objective);
    double critical_budget(std::int32_t leaf);
    ExactCosts exact_costs();
    ExactOption exact_option(const Objective& objective, const ExactCosts& costs, int tree,
                             std::int32_t leaf);
    void demands_of(std::int32_t leaf); // fills moves_ with those the instance does not meet
    double target(const Move& move) const {
        return instance_.routed[move.feature] <= move.low ? ensemble_.next_above(move.low)
                                                          : move.high;
    }

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    const std::atomic<bool>& cancelled_;
    double seconds_;
    Stopwatch stopwatch_;
    RoundedCosts costs_;
    double grid_cells_ = 0; // the budget in grid cells; 0: no grid
    Instance instance_;
    Reach reach_;
    Knapsack knapsack_;
    std::vector<Option> options_;
    std::vector<std::int32_t> option_leaves_; // of all groups in the knapsack
    std::vector<std::int32_t> home_;          // per tree: the leaf the instance falls into
    std::vector<std::int32_t> leaf_;          // per tree: the leaf of the best attack
    std::vector<std::int32_t> changed_;
    std::vector<Move> moves_;
    std::vector<std::int32_t> move_of_; // per feature: its position in moves_, or -1
    std::vector<std::int32_t> stack_;
    std::vector<Event> events_;
    std::vector<double> routed_;
};

} // namespace carve
