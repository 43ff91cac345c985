#include "large_spread/solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

LargeSpreadSolver::LargeSpreadSolver(const Ensemble& ensemble, const Attacker& attacker,
                                     const Mode& mode)
    : ensemble_(ensemble), attacker_(attacker), per_instance_(mode.per_instance),
      costs_(ensemble, attacker), fine_costs_(attacker),
      scores_(ensemble.scores, 2 * ensemble.roots.size()), reach_(ensemble, costs_),
      first_look_(ensemble, costs_), changes_(ensemble, attacker, scores_),
      home_(static_cast<std::size_t>(ensemble.n_trees())), leaf_(home_), demands_(ensemble),
      stack_(static_cast<std::size_t>(ensemble.depth) + 1),
      routed_(static_cast<std::size_t>(ensemble.n_features)) {
    if (mode.grid >= 0 && attacker.norm > 0)
        grid_cells_ = std::pow(attacker.budget, attacker.norm) * std::pow(10.0, mode.grid);
}

bool LargeSpreadSolver::load(Instance& instance) {
    instance_ = &instance;
    return !per_instance_ || is_large_spread();
}

bool LargeSpreadSolver::is_large_spread() {
    reach_.release();
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
        if (!reach_.walk(tree, *instance_, true, [](std::int32_t, double) {}))
            return false;
    return true;
}

Outcome LargeSpreadSolver::attack(const Objective& objective, Goal goal, const Stopwatch& limit) {
    if (attacker_.norm == norm_inf)
        return attack_by_limits(objective);
    if (changes_.apply(*instance_, objective))
        return attack_by_changes(objective);
    Outcome outcome;
    const bool may_do = goal == Goal::decide && attacker_.norm > 0 && grid_cells_ == 0;
    if (may_do && decide_at_first_look(objective, outcome))
        return outcome;
    return attack_by_cost(objective, limit);
}

bool LargeSpreadSolver::decide_at_first_look(const Objective& objective, Outcome& outcome) {
    const LongSum margin = first_look_.walk(reach_, *instance_, objective, home_);
    outcome = give_up(objective, margin, first_look_.most_gain().gain);
    if (outcome.least.lower > 0)
        outcome.verdict = Verdict::never;
    else if (first_look_.choose(leaf_))
        believe(objective, total_of(objective, leaf_), outcome);
    return outcome.verdict != Verdict::undecided;
}

Outcome LargeSpreadSolver::attack_by_changes(const Objective& objective) {
    changes_.attack(*instance_, objective, home_, leaf_);
    return conclude(objective, total_of(objective, home_), total_of(objective, leaf_));
}

Outcome LargeSpreadSolver::conclude(const Objective& objective, const LongSum& margin,
                                    const LongSum& worst) const {
    Outcome outcome;
    outcome.margin = objective.rounded(margin, home_);
    outcome.holds = !objective.wins(objective.sign(margin, home_));
    outcome.least = objective.enclose(worst, leaf_);
    outcome.has_attack = objective.wins(objective.sign(worst, leaf_));
    outcome.verdict = outcome.has_attack ? Verdict::wins : Verdict::never;
    return outcome;
}

// L-infinity: the limits of the features are independent, so every tree takes its best leaf.
Outcome LargeSpreadSolver::attack_by_limits(const Objective& objective) {
    const Node* const nodes = ensemble_.nodes.data();
    Instance& instance = *instance_;
    const double* const routed = instance.routed;
    const Instance::Spans spans = instance.spans();
    std::int32_t* const bottom = stack_.data();
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
        if (instance.has_missing || ensemble_.tangled[t] != 0) {
            reach_.walk(tree, instance, false, visit);
        } else {
            // As Reach::walk, without costs.
            std::int32_t* top = bottom;
            std::int32_t here = ensemble_.roots[t];
            for (;;) {
                const Node& node = nodes[here];
                if (node.is_leaf()) {
                    visit(here, 0);
                    if (top == bottom)
                        break;
                    here = *--top;
                    continue;
                }
                const bool home_left = routed[node.feature] <= node.threshold;
                if (spans.may_cross(node.feature, node.threshold) &&
                    instance.can_cross(node.feature, node.threshold,
                                       home_left
                                           ? ensemble_.next_above(node.feature, node.threshold)
                                           : node.threshold))
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
    struct Visitor {
        const Objective& objective;
        LargeSpreadSolver& self;
        const SameGain& same;
        LongSum margin;
        std::int32_t home = -1;
        double home_value = 0;
        double least = 0;    // the smallest value of an option so far …
        double cheapest = 0; // … and its cost

        void begin(int tree, std::int32_t leaf) {
            self.home_[static_cast<std::size_t>(tree)] = home = leaf;
            home_value = objective.value(leaf);
            objective.add(margin, leaf);
            self.options_.clear();
            least = home_value;
            cheapest = 0;
        }
        bool worth(std::int32_t node, double cost) const {
            const double below = objective.least(node);
            return below < least || (below < home_value && cost <= cheapest + self.costs_.slack());
        }
        void visit(std::int32_t leaf, double cost) {
            const double value = objective.value(leaf);
            if (value < home_value || (!objective.single_output() && objective.less(leaf, home))) {
                self.options_.push_back({cost, home_value - value, leaf});
                if (value < least) {
                    least = value;
                    cheapest = cost;
                }
            }
        }
        void end(int tree) {
            if (!self.options_.empty())
                self.add_group(tree, same);
        }
    };
    Visitor visitor{objective, *this, same, objective.start()};
    reach_.walk_all(*instance_, visitor);
    return visitor.margin;
}

void LargeSpreadSolver::add_group(int tree, const SameGain& same) {
    for (Option& option : options_) {
        option_leaves_.push_back(option.leaf);
        if (grid_cells_ > 0)
            option.cost = std::floor(std::max(0.0, option.cost - costs_.slack()) * grid_cells_);
    }
    knapsack_.add_group(tree, options_, same);
}

LongSum LargeSpreadSolver::total_of_picks(const Objective& objective) {
    leaf_ = home_;
    for (const auto& [tree, leaf] : knapsack_.picks)
        leaf_[static_cast<std::size_t>(tree)] = leaf;
    return total_of(objective, leaf_);
}

LongSum LargeSpreadSolver::total_of(const Objective& objective,
                                    const std::vector<std::int32_t>& leaves) {
    LongSum total = objective.start();
    for (const auto leaf : leaves)
        objective.add(total, leaf);
    return total;
}

bool LargeSpreadSolver::picks_fit() {
    std::vector<std::int32_t> features;
    for (const auto& [tree, leaf] : knapsack_.picks) {
        for (const Move& move : demands_.of(leaf, *instance_)) {
            features.push_back(move.feature);
            routed_[static_cast<std::size_t>(move.feature)] = move.to;
        }
    }
    return attacker_.affords(features, instance_->x, routed_.data());
}

Outcome LargeSpreadSolver::attack_by_cost(const Objective& objective, const Stopwatch& limit) {
    const LongSum margin = collect(objective);
    if (grid_cells_ > 0)
        return attack_on_grid(objective, margin, limit);
    if (Outcome outcome; fine_costs_.apply() && scores_.fits() &&
                         attack_by_fine_costs(objective, margin, limit, outcome))
        return outcome;
    // With the capacity widened by the slack, no affordable choice gains more than what is found,
    // rounding of gains aside. If the choice found is affordable itself, and no other comes as
    // close to it as rounding, it is the best one.
    const auto totals = knapsack_.maximise(costs_.capacity() + costs_.slack(), limit);
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
            limit);
        if (!knapsack_.gave_up())
            return conclude(objective, margin, total_of_picks(objective));
    }
    // What was found may be enough all the same.
    Outcome outcome = give_up(objective, margin, knapsack_.most_gain());
    if (fits) {
        leaf_ = reached;
        believe(objective, worst, outcome);
    }
    return outcome;
}

// Of all choices that do not cost more than the budget, their costs rounded down, the best one is
// found. If it is affordable, it is the best of all that are.
bool LargeSpreadSolver::attack_by_fine_costs(const Objective& objective, const LongSum& margin,
                                             const Stopwatch& limit, Outcome& outcome) {
    const std::optional<Wide> cost = knapsack_.maximise_whole(
        costs_.capacity(), fine_costs_.capacity(),
        [&](int tree, std::int32_t leaf) { return whole_option(objective, tree, leaf); }, limit);
    if (!cost && !knapsack_.gave_up())
        return false;
    const LongSum worst = total_of_picks(objective);
    const Wide doubt =
        Wide{FineCosts::error} * Wide{static_cast<std::uint64_t>(ensemble_.depth) * home_.size()};
    const bool fits = (cost && *cost + doubt < fine_costs_.capacity()) || picks_fit();
    if (cost && fits)
        outcome = conclude(objective, margin, worst);
    if (cost)
        return fits;
    const std::vector<std::int32_t> reached = leaf_;
    outcome = give_up(objective, margin, knapsack_.most_gain());
    if (fits) {
        leaf_ = reached;
        believe(objective, worst, outcome);
    }
    return true;
}

WholeOption LargeSpreadSolver::whole_option(const Objective& objective, int tree,
                                            std::int32_t leaf) {
    WholeOption option{0,
                       objective.difference(home_[static_cast<std::size_t>(tree)], leaf, scores_)};
    if (reach_.is_plain(tree, *instance_)) {
        // Every split that the path turns round is a move of its own.
        for (std::int32_t here = leaf; here != ensemble_.roots[static_cast<std::size_t>(tree)];) {
            const std::int32_t above = ensemble_.parent[static_cast<std::size_t>(here)];
            const Node& split = ensemble_.nodes[static_cast<std::size_t>(above)];
            const bool is_left = here < split.right;
            if ((instance_->routed[split.feature] <= split.threshold) != is_left)
                option.cost +=
                    fine_costs_.of(instance_->x[split.feature],
                                   is_left ? split.threshold
                                           : ensemble_.next_above(split.feature, split.threshold));
            here = above;
        }
        return option;
    }
    for (const Move& move : demands_.of(leaf, *instance_))
        option.cost += fine_costs_.of(instance_->x[move.feature], move.to);
    return option;
}

// Costs are rounded down and the budget up: what is found bounds the true attack from below.
Outcome LargeSpreadSolver::attack_on_grid(const Objective& objective, const LongSum& margin,
                                          const Stopwatch& limit) {
    const double cells = std::ceil(grid_cells_ * (1 + costs_.slack()));
    knapsack_.maximise(cells, limit);
    Outcome outcome = give_up(objective, margin, knapsack_.most_gain());
    const LongSum worst = total_of_picks(objective);
    if (picks_fit())
        believe(objective, worst, outcome);
    if (!outcome.has_attack && !knapsack_.gave_up() && outcome.least.lower > 0)
        outcome.verdict = Verdict::never;
    return outcome;
}

void LargeSpreadSolver::believe(const Objective& objective, const LongSum& worst,
                                Outcome& outcome) const {
    outcome.least.upper = std::min(outcome.least.upper, objective.enclose(worst, leaf_).upper);
    outcome.has_attack = objective.wins(objective.sign(worst, leaf_));
    if (outcome.has_attack)
        outcome.verdict = Verdict::wins;
}

Outcome LargeSpreadSolver::give_up(const Objective& objective, const LongSum& margin, double gain) {
    leaf_ = home_;
    Outcome outcome = conclude(objective, margin, margin);
    const double lower = margin.rounded() - gain - objective.rounding_error();
    outcome.least.lower = std::isfinite(lower)
                              ? std::min(outcome.least.lower, next_down(lower / ensemble_.average))
                              : -infinity;
    outcome.has_attack = false;
    outcome.verdict = Verdict::undecided;
    return outcome;
}

ExactCosts LargeSpreadSolver::exact_costs() {
    std::vector<std::int32_t> features;
    if (!attacker_.has_one_unit()) {
        for (const auto leaf : option_leaves_)
            for (const Move& move : demands_.of(leaf, *instance_))
                features.push_back(move.feature);
    } else if (ensemble_.n_features > 0) {
        features.push_back(0); // all scales are 1
    }
    return {attacker_, features};
}

ExactOption LargeSpreadSolver::exact_option(const Objective& objective, const ExactCosts& costs,
                                            int tree, std::int32_t leaf) {
    ExactOption option;
    for (const Move& move : demands_.of(leaf, *instance_))
        option.cost = option.cost + costs.of(move.feature, instance_->x[move.feature], move.to);
    option.gain = objective.difference(home_[static_cast<std::size_t>(tree)], leaf);
    return option;
}

void LargeSpreadSolver::perturb(double* z, std::vector<std::int32_t>& changed) {
    changed.clear();
    for (std::size_t tree = 0; tree < leaf_.size(); ++tree) {
        if (leaf_[tree] == home_[tree])
            continue;
        for (const Move& move : demands_.of(leaf_[tree], *instance_)) {
            z[move.feature] = move.to;
            changed.push_back(move.feature);
        }
    }
}

} // namespace carve
