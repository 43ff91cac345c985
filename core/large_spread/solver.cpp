#include "large_spread/solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
} // namespace

LargeSpreadSolver::LargeSpreadSolver(const Ensemble& ensemble, const Attacker& attacker, int grid,
                                     double seconds, const std::atomic<bool>& cancelled)
    : ensemble_(ensemble), attacker_(attacker), cancelled_(cancelled), seconds_(seconds),
      stopwatch_(seconds, cancelled), costs_(ensemble, attacker), instance_(ensemble, attacker),
      reach_(ensemble, costs_), home_(static_cast<std::size_t>(ensemble.n_trees())), leaf_(home_),
      move_of_(static_cast<std::size_t>(ensemble.n_features), -1),
      stack_(static_cast<std::size_t>(ensemble.depth) + 1),
      routed_(static_cast<std::size_t>(ensemble.n_features)) {
    if (grid >= 0 && attacker.norm > 0)
        grid_cells_ = std::pow(attacker.budget, attacker.norm) * std::pow(10.0, grid);
}

bool LargeSpreadSolver::is_large_spread() {
    reach_.release();
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
        if (!reach_.walk(tree, instance_, true, [](std::int32_t, double) {}))
            return false;
    return true;
}

Outcome LargeSpreadSolver::attack(const Objective& objective) {
    return attacker_.norm == norm_inf ? attack_by_limits(objective) : attack_by_cost(objective);
}

Outcome LargeSpreadSolver::conclude(const Objective& objective, const LongSum& margin,
                                    const LongSum& worst) const {
    Outcome outcome;
    outcome.margin = objective.rounded(margin, home_);
    outcome.worst = objective.enclose(worst, leaf_);
    outcome.holds = !objective.wins(objective.sign(margin, home_));
    outcome.wins = objective.wins(objective.sign(worst, leaf_));
    return outcome;
}

// L-infinity: the limits of the features are independent, so every tree takes its best leaf.
Outcome LargeSpreadSolver::attack_by_limits(const Objective& objective) {
    const Node* const nodes = ensemble_.nodes.data();
    const double* const routed = instance_.routed;
    LongSum margin = objective.start();
    LongSum worst = margin;
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree) {
        const auto t = static_cast<std::size_t>(tree);
        std::int32_t home = -1;
        std::int32_t best = -1;
        const auto visit = [&](std::int32_t leaf, double) {
            if (home < 0)
                home = best = leaf;
            else if (objective.less(leaf, best))
                best = leaf;
        };
        if (instance_.has_missing || ensemble_.tangled[t] != 0) {
            reach_.walk(tree, instance_, false, visit);
        } else {
            // As Reach::walk, without costs.
            std::int32_t* top = stack_.data();
            std::int32_t here = ensemble_.roots[t];
            for (;;) {
                const Node& node = nodes[here];
                if (node.is_leaf()) {
                    visit(here, 0);
                    if (top == stack_.data())
                        break;
                    here = *--top;
                    continue;
                }
                const bool home_left = routed[node.feature] <= node.threshold;
                if (instance_.may_cross(node.feature, node.threshold) &&
                    crosses(instance_.limits(node.feature), node.threshold))
                    *top++ = home_left ? node.right : here + 1;
                here = home_left ? here + 1 : node.right;
            }
        }
        home_[t] = home;
        leaf_[t] = best;
        objective.add(margin, home);
        objective.add(worst, best);
    }
    return conclude(objective, margin, worst);
}

LongSum LargeSpreadSolver::collect(const Objective& objective) {
    // A leaf's cost, and the difference of two leaves' values, are off by at most this. Subnormal
    // numbers round absolutely; a slack that is never that small covers them.
    const double gain_slack = 8 * unit_roundoff * std::max(ensemble_.magnitude, 1e-280);
    knapsack_.clear({grid_cells_ > 0 ? 0 : costs_.slack(), gain_slack});
    option_leaves_.clear();
    const SameGain same = [&](std::int32_t a, std::int32_t b) {
        return !objective.less(a, b) && !objective.less(b, a);
    };
    LongSum margin = objective.start();
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree) {
        std::int32_t home = -1;
        double home_value = 0;
        options_.clear();
        reach_.walk(tree, instance_, false, [&](std::int32_t leaf, double cost) {
            const double value = objective.value(leaf);
            if (home < 0) {
                home = leaf;
                home_value = value;
            } else if (value < home_value ||
                       (!objective.single_output() && objective.less(leaf, home))) {
                options_.push_back({cost, home_value - value, leaf});
            }
        });
        home_[static_cast<std::size_t>(tree)] = home;
        objective.add(margin, home);
        if (options_.empty())
            continue;
        for (Option& option : options_) {
            option_leaves_.push_back(option.leaf);
            if (grid_cells_ > 0)
                option.cost = std::floor(std::max(0.0, option.cost - costs_.slack()) * grid_cells_);
        }
        knapsack_.add_group(tree, options_, same);
    }
    return margin;
}

LongSum LargeSpreadSolver::total_of_picks(const Objective& objective) {
    leaf_ = home_;
    for (const auto& [tree, leaf] : knapsack_.picks)
        leaf_[static_cast<std::size_t>(tree)] = leaf;
    LongSum total = objective.start();
    for (const auto leaf : leaf_)
        objective.add(total, leaf);
    return total;
}

bool LargeSpreadSolver::picks_fit() {
    std::vector<std::int32_t> features;
    for (const auto& [tree, leaf] : knapsack_.picks) {
        demands_of(leaf);
        for (const Move& move : moves_) {
            features.push_back(move.feature);
            routed_[static_cast<std::size_t>(move.feature)] = target(move);
        }
    }
    return attacker_.affords(features, instance_.x, routed_.data());
}

Outcome LargeSpreadSolver::attack_by_cost(const Objective& objective) {
    const LongSum margin = collect(objective);
    if (grid_cells_ > 0)
        return attack_on_grid(objective, margin);
    // With the capacity widened by the slack, no affordable choice gains more than what is found,
    // rounding of gains aside. If the choice found is affordable itself, and no other comes as
    // close to it as rounding, it is the best one.
    const auto totals = knapsack_.maximise(costs_.capacity() + costs_.slack(), stopwatch_);
    const LongSum worst = total_of_picks(objective);
    const bool fits = totals.cost <= costs_.capacity() - costs_.slack() || picks_fit();
    if (fits && !knapsack_.gave_up() && knapsack_.is_certain())
        return conclude(objective, margin, worst);
    const std::vector<std::int32_t> reached = leaf_;
    if (!knapsack_.gave_up()) {
        const ExactCosts costs = exact_costs();
        knapsack_.maximise_exactly(
            costs_.capacity(), costs.of_budget(attacker_.budget),
            [&](int tree, std::int32_t leaf) { return exact_option(objective, costs, tree, leaf); },
            stopwatch_);
        if (!knapsack_.gave_up())
            return conclude(objective, margin, total_of_picks(objective));
    }
    // What was found may be enough all the same.
    Outcome outcome = give_up(objective, margin, knapsack_.most_gain());
    if (fits) {
        leaf_ = reached;
        outcome.worst.upper = std::min(outcome.worst.upper, objective.enclose(worst, leaf_).upper);
        outcome.wins = outcome.decided = objective.wins(objective.sign(worst, leaf_));
    }
    return outcome;
}

// Costs are rounded down and the budget up: what is found bounds the true attack from below.
Outcome LargeSpreadSolver::attack_on_grid(const Objective& objective, const LongSum& margin) {
    const double cells = std::ceil(grid_cells_ * (1 + costs_.slack()));
    knapsack_.maximise(cells, stopwatch_);
    Outcome outcome = give_up(objective, margin, knapsack_.most_gain());
    const LongSum worst = total_of_picks(objective);
    outcome.decided = !knapsack_.gave_up();
    outcome.wins = outcome.worst.lower <= 0;
    outcome.proven = !outcome.wins;
    if (picks_fit()) {
        outcome.worst.upper = std::min(outcome.worst.upper, objective.enclose(worst, leaf_).upper);
        outcome.proven = objective.wins(objective.sign(worst, leaf_)) || !outcome.wins;
    }
    return outcome;
}

Outcome LargeSpreadSolver::give_up(const Objective& objective, const LongSum& margin, double gain) {
    leaf_ = home_;
    Outcome outcome = conclude(objective, margin, margin);
    const double lower = margin.rounded() - gain - objective.rounding_error();
    outcome.worst.lower = std::isfinite(lower)
                              ? std::min(outcome.worst.lower, next_down(lower / ensemble_.average))
                              : -infinity;
    outcome.wins = false;
    outcome.decided = false;
    outcome.is_best = false;
    return outcome;
}

void LargeSpreadSolver::demands_of(std::int32_t leaf) {
    moves_.clear();
    for (std::int32_t here = leaf; ensemble_.parent[static_cast<std::size_t>(here)] >= 0;) {
        const std::int32_t above = ensemble_.parent[static_cast<std::size_t>(here)];
        const Node& split = ensemble_.nodes[static_cast<std::size_t>(above)];
        const double value = instance_.routed[split.feature];
        if (value == value) {
            std::int32_t& position = move_of_[static_cast<std::size_t>(split.feature)];
            if (position < 0) {
                position = static_cast<std::int32_t>(moves_.size());
                moves_.push_back({split.feature, -infinity, infinity});
            }
            Move& move = moves_[static_cast<std::size_t>(position)];
            if (here == above + 1)
                move.high = std::min(move.high, split.threshold);
            else
                move.low = std::max(move.low, split.threshold);
        }
        here = above;
    }
    for (const Move& move : moves_)
        move_of_[static_cast<std::size_t>(move.feature)] = -1;
    std::erase_if(moves_, [&](const Move& move) {
        const double value = instance_.routed[move.feature];
        return move.low < value && value <= move.high;
    });
}

ExactCosts LargeSpreadSolver::exact_costs() {
    std::vector<std::int32_t> features;
    if (!attacker_.scale.empty()) {
        for (const auto leaf : option_leaves_) {
            demands_of(leaf);
            for (const Move& move : moves_)
                features.push_back(move.feature);
        }
    } else if (ensemble_.n_features > 0) {
        features.push_back(0); // all scales are 1
    }
    return {attacker_, features};
}

ExactOption LargeSpreadSolver::exact_option(const Objective& objective, const ExactCosts& costs,
                                            int tree, std::int32_t leaf) {
    ExactOption option;
    demands_of(leaf);
    for (const Move& move : moves_)
        option.cost = option.cost + costs.of(move.feature, instance_.x[move.feature], target(move));
    option.gain = objective.difference(home_[static_cast<std::size_t>(tree)], leaf);
    return option;
}

void LargeSpreadSolver::perturb(double* z) {
    changed_.clear();
    for (std::size_t tree = 0; tree < leaf_.size(); ++tree) {
        if (leaf_[tree] == home_[tree])
            continue;
        demands_of(leaf_[tree]);
        for (const Move& move : moves_) {
            z[move.feature] = target(move);
            changed_.push_back(move.feature);
        }
    }
}

ExactSum LargeSpreadSolver::predict(const Objective& objective, const double* z) {
    routed_.assign(instance_.routed, instance_.routed + routed_.size());
    for (const auto feature : changed_)
        routed_[static_cast<std::size_t>(feature)] = z[feature];
    std::vector<std::int32_t> leaves;
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
        leaves.push_back(ensemble_.leaf_of(tree, routed_.data()));
    return objective.total(leaves);
}

double LargeSpreadSolver::radius(const Objective& objective) {
    return attacker_.norm == norm_inf ? radius_by_limits(objective) : radius_by_cost(objective);
}

double LargeSpreadSolver::radius_by_cost(const Objective& objective) {
    collect(objective);
    const ExactSum margin = objective.total(home_);
    if (objective.wins(margin.sign()))
        return 0;
    if (stopwatch_.expired())
        return undecided;
    const ExactCosts costs = exact_costs();
    Dyadic cheapest;
    const bool found = knapsack_.minimise_exactly(
        costs_.capacity(), costs.of_budget(attacker_.budget), margin.magnitude(),
        !objective.tie_wins(),
        [&](int tree, std::int32_t leaf) { return exact_option(objective, costs, tree, leaf); },
        cheapest, stopwatch_);
    if (knapsack_.gave_up())
        return undecided;
    return found ? costs.smallest_budget(cheapest) : nan;
}

double LargeSpreadSolver::critical_budget(std::int32_t leaf) {
    demands_of(leaf);
    double budget = 0;
    for (const Move& move : moves_) {
        const double x = instance_.x[move.feature];
        const double z = target(move);
        if (attacker_.scale.empty()) {
            const auto gap = z > x ? two_sum(z, -x) : two_sum(x, -z);
            budget = std::max(budget, gap.error > 0 ? std::nextafter(gap.sum, infinity) : gap.sum);
        } else {
            const ExactCosts costs(attacker_, {&move.feature, 1});
            budget = std::max(budget, costs.smallest_budget(costs.of(move.feature, x, z)));
        }
    }
    return budget;
}

// L-infinity: let the budget grow; at the critical budgets, leaves come into reach.
double LargeSpreadSolver::radius_by_limits(const Objective& objective) {
    events_.clear();
    double total = objective.constant();
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree) {
        std::int32_t home = -1;
        reach_.walk(tree, instance_, false, [&](std::int32_t leaf, double) {
            if (home < 0)
                home = leaf;
            else if (objective.less(leaf, home))
                events_.push_back({0, tree, leaf});
        });
        home_[static_cast<std::size_t>(tree)] = home;
        total += objective.value(home);
    }
    leaf_ = home_;
    for (Event& event : events_)
        event.budget = critical_budget(event.leaf);
    std::ranges::sort(events_, {}, &Event::budget);
    const double error = objective.rounding_error() + 4 * unit_roundoff *
                                                          static_cast<double>(events_.size()) *
                                                          ensemble_.magnitude;
    const auto wins = [&] {
        return std::fabs(total) > error ? total < 0 : objective.wins(objective.total(leaf_).sign());
    };
    if (wins())
        return 0;
    for (std::size_t i = 0; i < events_.size(); ++i) {
        std::int32_t& leaf = leaf_[static_cast<std::size_t>(events_[i].tree)];
        if (objective.less(events_[i].leaf, leaf)) {
            total += objective.value(events_[i].leaf) - objective.value(leaf);
            leaf = events_[i].leaf;
        }
        const bool last_at_budget =
            i + 1 == events_.size() || events_[i].budget < events_[i + 1].budget;
        if (last_at_budget && wins())
            return events_[i].budget;
    }
    return nan;
}

} // namespace carve
