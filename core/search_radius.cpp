#include "search_radius.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

void RadiusSearch::measure() {
    nearest_ = infinity;
    std::vector<double> reach(ensemble_.n_features, 0.0);
    for (const Node& node : ensemble_.nodes) {
        if (node.is_leaf() || !attacker_.may_change(node.feature))
            continue;
        // What it takes to cross: from the left, up to the next number of the grid.
        const double x = instance_.x[node.feature];
        const double distance = instance_.routed[node.feature] <= node.threshold
                                    ? ensemble_.next_above(node.threshold) - x
                                    : x - node.threshold;
        const double gap = distance / attacker_.scale_of(node.feature);
        if (!std::isfinite(gap))
            continue;
        if (gap < nearest_)
            nearest_ = gap;
        if (gap > reach[node.feature])
            reach[node.feature] = gap;
    }
    farthest_ = 0;
    for (const double gap : reach)
        farthest_ = attacker_.norm == norm_inf ? std::max(farthest_, gap) : farthest_ + gap;
    farthest_ *= 1.001; // beyond all roundings
}

RadiusSearch::Trial RadiusSearch::attempt(const Objective& objective, double budget,
                                          const Stopwatch& stopwatch) {
    Attacker attacker = attacker_;
    attacker.budget = budget;
    Instance instance(ensemble_, attacker);
    instance.load(row_.data());
    Search search(ensemble_, attacker);
    const SearchOutcome outcome = search.run(instance, objective, Goal::decide, stopwatch);
    if (!outcome.has_attack)
        return {outcome.verdict, infinity};
    z_ = row_;
    search.perturb(z_.data(), changed_);
    return {Verdict::wins, attacker.distance(changed_, instance_.x, z_.data())};
}

RadiusBounds RadiusSearch::against(const Objective& objective, double upper,
                                   const Stopwatch& stopwatch) {
    RadiusBounds bounds{0, infinity};
    const double last = std::min(attacker_.budget, std::isfinite(upper) ? upper : infinity);
    const bool counts = attacker_.norm == 0;
    // Grow until an attack is found.
    double budget = counts ? 1 : std::max(nearest_, 1e-100) * 1.5;
    while (bounds.upper == infinity) {
        budget = std::min(budget, last);
        const Trial trial = attempt(objective, budget, stopwatch);
        if (trial.verdict == Verdict::undecided)
            return bounds;
        if (trial.verdict == Verdict::wins) {
            bounds.upper = trial.distance;
            break;
        }
        bounds.lower = budget;
        if (budget >= last || (!counts && budget > farthest_) ||
            (counts && budget >= ensemble_.n_features))
            return {infinity, infinity};
        budget = counts ? budget + 1 : budget * 2;
    }
    // Then close in, by halves and by trying just below what is known.
    for (int i = 0;; ++i) {
        const double below = counts ? bounds.upper - 1 : std::nextafter(bounds.upper, 0.0);
        if (below <= bounds.lower)
            return {bounds.upper, bounds.upper};
        const double middle = bounds.lower + (bounds.upper - bounds.lower) / 2;
        const bool wide = bounds.upper - bounds.lower > 0.02 * bounds.upper;
        const bool halve = !counts && wide && i % 4 != 3 && middle > bounds.lower && middle < below;
        const double trial_budget = halve ? middle : below;
        const Trial trial = attempt(objective, trial_budget, stopwatch);
        // Where products of budget and scale underflow, limits are too coarse to go on.
        if (trial.verdict == Verdict::undecided ||
            (trial.verdict == Verdict::wins && trial.distance > trial_budget))
            return bounds;
        if (trial.verdict == Verdict::wins)
            bounds.upper = trial.distance;
        else
            bounds.lower = trial_budget;
    }
}

RadiusBounds RadiusSearch::solve(int label, const Stopwatch& stopwatch) {
    std::vector<std::int32_t> leaves;
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
        leaves.push_back(ensemble_.leaf_of(tree, instance_.routed));
    std::vector<std::pair<double, int>> rivals;
    for (int rival = 0; rival < objectives_.classes(); ++rival) {
        if (rival == label)
            continue;
        const ExactSum total = objectives_(label, rival).total(leaves);
        if (objectives_(label, rival).wins(total.sign()))
            return {0, 0};
        rivals.emplace_back(total.to_double(), rival);
    }
    std::ranges::sort(rivals);
    measure();
    RadiusBounds bounds{infinity, infinity};
    for (const auto& [margin, rival] : rivals) {
        const RadiusBounds found = against(objectives_(label, rival), bounds.upper, stopwatch);
        bounds.lower = std::min(bounds.lower, found.lower);
        bounds.upper = std::min(bounds.upper, found.upper);
    }
    bounds.lower = std::min(bounds.lower, bounds.upper);
    return bounds;
}

} // namespace carve
