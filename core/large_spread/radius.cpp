#include "large_spread/radius.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr int lowest_level = -160;

// The first level whose budget, 4^level, is at least about the one given.
int level_of(double budget) {
    return std::max(lowest_level, budget > 0 ? std::ilogb(budget) / 2 + 1 : lowest_level);
}

// About the budget that the nearest split takes to go the other way.
double nearest_split(const Ensemble& ensemble, const Attacker& attacker, const double* x) {
    double nearest = infinity;
    for (const Node& node : ensemble.nodes) {
        if (node.is_leaf() || !attacker.may_change(node.axis()))
            continue;
        const double move = node.is_by_set() ? 1 : node.threshold - x[node.feature];
        const auto [scale, numerator, denominator] = attacker.unit_of(node.axis(), move >= 0);
        const double distance = std::fabs(move) * numerator / (scale * denominator);
        if (0 < distance && distance < nearest)
            nearest = distance;
    }
    return nearest;
}

} // namespace

// ── levels of the budget ────────────────────────────────────────────────────────────────────────

LargeSpreadRadius::LargeSpreadRadius(const Ensemble& ensemble, const Attacker& attacker,
                                     bool per_instance)
    : ensemble_(ensemble), attacker_(attacker), per_instance_(per_instance),
      last_(level_of(attacker.budget)) {}

void LargeSpreadRadius::load(const Instance& instance) {
    instance_ = &instance;
    ++number_;
    first_ = attacker_.norm > 0
                 ? std::min(last_, level_of(nearest_split(ensemble_, attacker_, instance.x)))
                 : last_;
}

double LargeSpreadRadius::budget_of(int level) const {
    return level < last_ ? std::min(attacker_.budget, std::ldexp(1.0, 2 * level))
                         : attacker_.budget;
}

LargeSpreadRadius::Level& LargeSpreadRadius::at(int level) {
    auto& slot = levels_[level];
    if (!slot) {
        Attacker grown = attacker_;
        grown.budget = budget_of(level);
        slot = std::make_unique<Level>(ensemble_, grown,
                                       LargeSpreadSolver::Mode{.per_instance = per_instance_});
    }
    if (slot->number != number_) {
        slot->number = number_;
        slot->instance.load(*instance_);
        slot->applies = slot->solver.load(slot->instance);
    }
    return *slot;
}

bool LargeSpreadRadius::close_in(const Objective& objective, double enough, const Stopwatch& limit,
                                 RadiusBounds& known) {
    for (int level = first_; known.lower < std::min(known.upper, enough); ++level) {
        const double budget = budget_of(level);
        if (level < last_ && budget <= known.lower)
            continue;
        Level& here = at(level);
        const double found =
            here.applies ? here.solver.radius(objective, limit) : LargeSpreadSolver::undecided;
        if (found == LargeSpreadSolver::undecided)
            return false;
        if (!std::isnan(found))
            known = {found, found};
        else
            known.lower = budget < attacker_.budget ? budget : infinity;
    }
    return true;
}

// ── one level ───────────────────────────────────────────────────────────────────────────────────

double LargeSpreadSolver::radius(const Objective& objective, const Stopwatch& limit) {
    return attacker_.norm == norm_inf ? radius_by_limits(objective)
                                      : radius_by_cost(objective, limit);
}

double LargeSpreadSolver::radius_by_cost(const Objective& objective, const Stopwatch& limit) {
    collect(objective);
    const ExactSum margin = objective.total(home_);
    if (objective.wins(margin.sign()))
        return 0;
    if (limit.expired())
        return undecided;
    const ExactCosts costs = exact_costs();
    const Dyadic needed = margin.magnitude();
    Dyadic cheapest;
    const bool found = knapsack_.minimise_exactly(
        costs_.capacity(), costs.of_budget(attacker_.budget), {&needed, !objective.tie_wins()},
        [&](int tree, std::int32_t leaf) { return exact_option(objective, costs, tree, leaf); },
        cheapest, limit);
    if (knapsack_.gave_up())
        return undecided;
    return found ? costs.smallest_budget(cheapest) : nan;
}

double LargeSpreadSolver::critical_budget(std::int32_t leaf) {
    double budget = 0;
    for (const auto& [feature, z] : demands_.of(leaf, *instance_)) {
        const double x = instance_->x[feature];
        if (attacker_.has_one_unit() && attacker_.states.empty()) {
            const auto gap = z > x ? two_sum(z, -x) : two_sum(x, -z);
            budget = std::max(budget, gap.error > 0 ? std::nextafter(gap.sum, infinity) : gap.sum);
        } else {
            const ExactCosts costs(attacker_, {&feature, 1});
            budget = std::max(budget, costs.smallest_budget(costs.of(feature, x, z)));
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
        reach_.walk(tree, *instance_, false, [&](std::int32_t leaf, double) {
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
