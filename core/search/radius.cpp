#include "search/radius.hpp"

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

bool RadiusSearch::grow(Rival& rival, const Objective& objective, double last,
                        const Stopwatch& stopwatch) {
    const bool counts = attacker_.norm == 0;
    while (rival.upper == infinity && rival.lower < infinity) {
        const double budget = std::min(rival.next, last);
        const Trial trial = attempt(objective, budget, stopwatch);
        if (trial.verdict == Verdict::undecided)
            return false;
        if (trial.verdict == Verdict::wins) {
            rival.upper = trial.distance;
        } else {
            rival.lower = budget;
            if (budget >= last || (!counts && budget > farthest_) ||
                (counts && budget >= ensemble_.n_features))
                rival.lower = infinity;
            rival.next = counts ? budget + 1 : budget * 2;
        }
    }
    return true;
}

bool RadiusSearch::close_in(Rival& rival, const Objective& objective, double upper,
                            const Stopwatch& stopwatch) {
    const bool counts = attacker_.norm == 0;
    if (rival.lower >= upper)
        return true;
    if (!grow(rival, objective, std::min(attacker_.budget, upper), stopwatch))
        return false;
    // By halves, and by trying just below what is known.
    while (rival.lower < std::min(rival.upper, upper)) {
        const double end = std::min(rival.upper, upper);
        const double below = counts ? end - 1 : std::nextafter(end, 0.0);
        if (below <= rival.lower) {
            rival.lower = end;
            break;
        }
        const double middle = rival.lower + (end - rival.lower) / 2;
        const bool wide = end - rival.lower > 0.02 * end;
        const bool halve =
            !counts && wide && rival.trials++ % 4 != 3 && middle > rival.lower && middle < below;
        const double budget = halve ? middle : below;
        const Trial trial = attempt(objective, budget, stopwatch);
        if (trial.verdict == Verdict::undecided)
            return false;
        if (trial.verdict == Verdict::wins && trial.distance > budget)
            return true; // products of budget and scale underflow: limits are too coarse to go on
        if (trial.verdict == Verdict::wins)
            rival.upper = trial.distance;
        else
            rival.lower = budget;
    }
    return true;
}

RadiusBounds RadiusSearch::solve(int label, const Stopwatch& stopwatch) {
    std::vector<std::int32_t> leaves;
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
        leaves.push_back(ensemble_.leaf_of(tree, instance_.routed));
    measure();
    std::vector<Rival> rivals;
    for (int rival = 0; rival < objectives_.classes(); ++rival) {
        if (rival == label)
            continue;
        const ExactSum total = objectives_(label, rival).total(leaves);
        if (objectives_(label, rival).wins(total.sign()))
            return {0, 0};
        const bool counts = attacker_.norm == 0;
        const double first = counts ? 1 : std::max(nearest_, 1e-100) * 1.5;
        // What crosses no threshold changes nothing.
        // (Subnormal numbers round absolutely: they bound nothing.)
        const bool near = !counts && 1e-290 < nearest_ && nearest_ < infinity;
        const double lower = near ? nearest_ * (1 - 8 * unit_roundoff) : 0;
        rivals.push_back({rival, total.to_double(), lower, infinity, first, 0});
    }
    std::ranges::sort(rivals, {}, &Rival::margin); // the most dangerous first
    // Every rival gets its share of the time that is left; who is not done goes on with what the
    // others leave over, from where it stood. `upper` is what matters: nobody needs to look further
    // than the best attack known.
    double upper = infinity;
    std::vector<Rival*> open;
    for (Rival& rival : rivals)
        open.push_back(&rival);
    while (!open.empty() && !stopwatch.expired()) {
        std::vector<Rival*> late;
        for (std::size_t i = 0; i < open.size(); ++i) {
            const Stopwatch limit = stopwatch.share(open.size() - i);
            const bool done = close_in(*open[i], objectives_(label, open[i]->id), upper, limit);
            if (!done && limit.expired()) // otherwise it is too large to search, however long
                late.push_back(open[i]);
            upper = std::min(upper, open[i]->upper);
        }
        open = std::move(late);
    }
    RadiusBounds bounds{infinity, upper};
    for (const Rival& rival : rivals)
        bounds.lower = std::min(bounds.lower, rival.lower);
    bounds.lower = std::min(bounds.lower, bounds.upper);
    return bounds;
}

} // namespace carve
