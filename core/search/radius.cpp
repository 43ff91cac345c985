#include "search/radius.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

void RadiusSearch::load(const Instance& instance) {
    instance_ = &instance;
    double nearest = infinity; // about the distance of the nearest threshold
    std::vector<double> reach(ensemble_.n_features, 0.0);
    for (const Node& node : ensemble_.nodes) {
        if (node.is_leaf() || !attacker_.may_change(node.axis()))
            continue;
        // What it takes to cross: from the left, up to the next number of the grid.
        const std::int32_t f = node.axis();
        const double x = instance_->x[f];
        const bool up = instance_->routed[f] <= node.threshold;
        const double to = up ? ensemble_.next_above(f, node.threshold) : node.threshold;
        const double move = node.is_by_set() ? 1 : to - x;
        const auto [scale, numerator, denominator] = attacker_.unit_of(f, move > 0);
        const double gap = std::fabs(move) * numerator / (scale * denominator);
        if (!std::isfinite(gap))
            continue;
        if (gap < nearest)
            nearest = gap;
        if (gap > reach[f])
            reach[f] = gap;
    }
    farthest_ = 0;
    for (const double gap : reach)
        farthest_ = attacker_.norm == norm_inf ? std::max(farthest_, gap) : farthest_ + gap;
    farthest_ *= 1.001; // beyond all roundings
    const bool counts = attacker_.norm == 0;
    first_ = counts ? 1 : std::max(nearest, 1e-100) * 1.5;
    // What crosses no threshold changes nothing. (Subnormal numbers round absolutely: they bound
    // nothing.)
    const bool near = !counts && 1e-290 < nearest && nearest < infinity;
    harmless_ = near ? nearest * (1 - 8 * unit_roundoff) : 0;
}

RadiusSearch::Attempt RadiusSearch::attempt(const Objective& objective, double budget,
                                            const Stopwatch& limit) {
    Attacker attacker = attacker_;
    attacker.budget = budget;
    Instance instance(ensemble_, attacker);
    instance.load(*instance_);
    Search search(ensemble_, attacker);
    const Outcome outcome = search.run(instance, objective, Goal::decide, limit);
    if (!outcome.has_attack)
        return {outcome.verdict, infinity};
    z_.assign(instance_->x, instance_->x + ensemble_.n_features);
    search.perturb(z_.data(), changed_);
    return {Verdict::wins, attacker.distance(changed_, instance_->x, z_.data())};
}

bool RadiusSearch::grow(const Objective& objective, double last, const Stopwatch& limit,
                        RadiusBounds& known) {
    const bool counts = attacker_.norm == 0;
    const double all = counts ? ensemble_.n_features : farthest_;
    while (known.upper == infinity && known.lower < last) {
        const double next = known.lower < first_ ? first_ : known.lower * 2;
        const double budget = std::min(counts ? known.lower + 1 : next, last);
        const Attempt tried = attempt(objective, budget, limit);
        if (tried.verdict == Verdict::undecided)
            return false;
        if (tried.verdict == Verdict::wins)
            known.upper = tried.distance;
        else
            known.lower = budget < all ? budget : infinity;
    }
    if (known.upper == infinity && known.lower >= attacker_.budget)
        known.lower = infinity;
    return true;
}

bool RadiusSearch::close_in(const Objective& objective, double enough, const Stopwatch& limit,
                            RadiusBounds& known) {
    const bool counts = attacker_.norm == 0;
    known.lower = std::max(known.lower, harmless_);
    if (known.lower >= enough)
        return true;
    if (!grow(objective, std::min(attacker_.budget, enough), limit, known))
        return false;
    // By halves, and by trying just below what is known.
    for (int trials = 0; known.lower < std::min(known.upper, enough);) {
        const double end = std::min(known.upper, enough);
        const double below = counts ? end - 1 : std::nextafter(end, 0.0);
        if (below <= known.lower) {
            known.lower = end;
            break;
        }
        const double middle = known.lower + (end - known.lower) / 2;
        const bool wide = end - known.lower > 0.02 * end;
        const bool halve =
            !counts && wide && trials++ % 4 != 3 && middle > known.lower && middle < below;
        const double budget = halve ? middle : below;
        const Attempt tried = attempt(objective, budget, limit);
        if (tried.verdict == Verdict::undecided)
            return false;
        if (tried.verdict == Verdict::wins && tried.distance > budget)
            return true; // products of budget and scale underflow: limits are too coarse to go on
        if (tried.verdict == Verdict::wins)
            known.upper = tried.distance;
        else
            known.lower = budget;
    }
    return true;
}

} // namespace carve
