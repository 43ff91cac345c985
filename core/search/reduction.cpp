#include "search/reduction.hpp"

#include <algorithm>
#include <cmath>

#include "model/states.hpp"

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tiny = 1e-150;

Attacker lifted(Attacker attacker, double lift) {
    attacker.budget *= lift;
    return attacker;
}
} // namespace

FixedPoint::FixedPoint(const Ensemble& ensemble) : is_finite_(std::isfinite(ensemble.magnitude)) {
    if (is_finite_ && ensemble.magnitude > 0)
        shift_ = units::bits_of_values(ensemble.used_features.size()) - 1 -
                 std::ilogb(ensemble.magnitude);
}

bool FixedPoint::holds(double constant) const {
    return is_finite_ &&
           std::fabs(std::ldexp(constant, shift_)) < static_cast<double>(units::most_constant);
}

std::int64_t FixedPoint::floor(double value, bool& exact) const {
    const double scaled = std::ldexp(value, shift_);
    double units = std::floor(scaled);
    if (value < 0 && units == 0) // scaled underflowed
        units = -1;
    exact = exact && units == scaled && std::ldexp(units, -shift_) == value;
    return static_cast<std::int64_t>(units);
}

double FixedPoint::lower(std::int64_t units) const {
    auto rounded = static_cast<double>(units);
    if (static_cast<std::int64_t>(rounded) > units)
        rounded = next_down(rounded);
    const double found = std::ldexp(rounded, -shift_);
    return std::ldexp(found, shift_) > rounded ? next_down(found) : found; // rounded if subnormal
}

Reduction::Reduction(const Ensemble& ensemble, const Attacker& attacker, std::size_t most_demands)
    : home(ensemble.n_trees()), fixed(ensemble), ensemble_(ensemble), attacker_(attacker),
      most_demands_(most_demands), lift_(attacker.budget < tiny ? 0x1p600 : 1),
      costs_(ensemble, lifted(attacker, lift_)), spent_(ensemble.n_features, 0.0),
      interval_(ensemble.n_features), local_(ensemble.n_features, -1) {
    // A cell's cost is off by at most 6 p u of itself; costs are summed over the features.
    if (attacker.norm > 0)
        slack_ =
            std::max(costs_.slack(),
                     unit_roundoff * (8.0 * (attacker.norm + 8) +
                                      8.0 * static_cast<double>(ensemble.used_features.size())));
}

double Reduction::price(const Instance& instance, std::int32_t feature,
                        const Interval& interval) const {
    const double here = instance.routed[feature];
    const double x = instance.x[feature];
    if (here <= interval.low)
        return costs_.of(feature, (ensemble_.next_above(feature, interval.low) - x) * lift_);
    if (here > interval.high)
        return costs_.of(feature, (interval.high - x) * lift_);
    return 0;
}

void Reduction::enter(const Pending& step) {
    trail_.push_back({step.feature, spent_[step.feature], interval_[step.feature]});
    Interval& interval = interval_[step.feature];
    if (step.is_by_set)
        ; // the way itself says which states are open
    else if (step.is_left)
        interval.high = std::min(interval.high, step.threshold);
    else
        interval.low = std::max(interval.low, step.threshold);
    spent_[step.feature] = step.spent;
}

// Appends the leaves in reach, the leaf of the instance first, with the demands of their paths;
// false iff interrupted.
bool Reduction::walk(std::int32_t tree, Instance& instance, const Stopwatch& stopwatch) {
    const double affordable = costs_.capacity() + slack_;
    std::int32_t here = ensemble_.roots[tree];
    double cost = 0;
    pending_.clear();
    const auto unwind = [this](std::size_t size) {
        while (trail_.size() > size) {
            spent_[trail_.back().feature] = trail_.back().spent;
            interval_[trail_.back().feature] = trail_.back().interval;
            trail_.pop_back();
        }
    };
    std::size_t work = 0;
    for (;;) {
        const Node& node = ensemble_.nodes[here];
        if (node.is_leaf()) {
            const std::size_t words = masks_.size();
            ask(here, instance);
            if (pending_.empty())
                break;
            // A path of 100,000 splits has as many demands; one of ten has few.
            work += trail_.size() + 1 + (masks_.size() - words);
            if (work > 65'536) {
                if (stopwatch.expired() || is_too_large()) {
                    unwind(0);
                    return false;
                }
                work = 0;
            }
            const Pending next = pending_.back();
            pending_.pop_back();
            unwind(next.trail);
            enter(next);
            here = next.node;
            cost = next.cost;
            continue;
        }
        if (node.is_by_set()) {
            here = fork(here, cost, instance);
            continue;
        }
        const std::int32_t f = node.feature;
        const double value = instance.routed[f];
        if (value != value) {
            here = ensemble_.missing[here] == Missing::left ? here + 1 : node.right;
            continue;
        }
        const bool home_left = value <= node.threshold;
        if (!instance.may_cross(f, node.threshold) ||
            !crosses(instance.limits(f), node.threshold)) {
            here = home_left ? here + 1 : node.right;
            continue;
        }
        // The path may leave one side only, and that need not be the home side.
        const Interval& known = interval_[f];
        const bool left = known.low < node.threshold;
        const bool right = node.threshold < known.high;
        if (!(left && right)) {
            here = left ? here + 1 : node.right;
            continue;
        }
        crossed_.emplace_back(f, node.threshold);
        const auto step = [&](bool to_left) {
            Interval narrowed = known;
            (to_left ? narrowed.high : narrowed.low) = node.threshold;
            const double spent = attacker_.norm == norm_inf ? 0 : price(instance, f, narrowed);
            return Pending{to_left ? here + 1 : node.right,
                           f,
                           node.threshold,
                           cost + (spent - spent_[f]),
                           spent,
                           trail_.size(),
                           to_left,
                           false};
        };
        const Pending away = step(!home_left);
        if (away.cost <= affordable)
            pending_.push_back(away);
        const Pending next = step(home_left);
        enter(next);
        here = next.node;
        cost = next.cost;
    }
    unwind(0);
    return true;
}

// At a split by a set: the node to go on to, at no more cost; another one in reach is pending.
std::int32_t Reduction::fork(std::int32_t split, double cost, const Instance& instance) {
    const Node& node = ensemble_.nodes[split];
    const std::int32_t f = node.axis();
    const double state = instance.routed[f];
    if (!instance.may_switch(f)) {
        const bool left = state != state ? ensemble_.missing[split] == Missing::left
                                         : ensemble_.lists(node, state);
        return left ? split + 1 : node.right;
    }
    const Sides sides = sides_of(ensemble_, instance, split, state);
    const bool on_left = sides.home ? ensemble_.lists(node, state) : sides.left;
    const std::int32_t on = on_left ? split + 1 : node.right;
    if (!(sides.left && sides.right))
        return on;
    // Where the way is not that of the instance's own state, the change is paid already.
    const double spent = sides.home && attacker_.norm != norm_inf ? costs_.of(f, lift_) : spent_[f];
    const double away = cost + (spent - spent_[f]);
    crossed_.emplace_back(f, 0);
    if (away <= costs_.capacity() + slack_)
        pending_.push_back(
            {on_left ? node.right : split + 1, f, 0, away, spent, trail_.size(), !on_left, true});
    enter({on, f, 0, cost, spent_[f], trail_.size(), on_left, true});
    return on;
}

// Appends a leaf, with what its way asks for.
void Reduction::ask(std::int32_t leaf, const Instance& instance) {
    const auto begin = static_cast<std::int32_t>(demands_.size());
    for (const Undo& undo : trail_) {
        const std::int32_t f = undo.feature;
        if (ensemble_.grid_of(f) != Grid::finite) {
            if (undo.interval.low == -infinity && undo.interval.high == infinity)
                demands_.push_back({f, interval_[f], -1});
            continue;
        }
        if (std::any_of(demands_.begin() + begin, demands_.end(),
                        [&](const Demand& demand) { return demand.feature == f; }))
            continue;
        demands_.push_back({f, {}, static_cast<std::int64_t>(masks_.size())});
        for (std::size_t word = 0; word < instance.states_of(f).size(); ++word)
            masks_.push_back(open_states(ensemble_, instance, leaf, f, word));
        masks_.push_back(leaves_open(ensemble_, leaf, f, instance.routed[f]) ? 1 : 0);
    }
    leaves.push_back({0, leaf, 0, begin, static_cast<std::int32_t>(demands_.size())});
}

// Values and ranks of the leaves just walked; a tree whose values are all equal is a constant.
void Reduction::settle(std::int32_t tree, const Objective& objective, bool keep,
                       const Sizes& before) {
    const std::int32_t begin = trees.empty() ? 0 : trees.back().leaf_end;
    const auto end = static_cast<std::int32_t>(leaves.size());
    home[tree] = leaves[begin].node;
    bool exact = true;
    for (std::int32_t i = begin; i < end; ++i)
        leaves[i].value = blend_.value(leaves[i].node, fixed, exact);
    if (!exact)
        doubt += 2;
    std::vector<std::int32_t> order(end - begin);
    for (std::int32_t i = begin; i < end; ++i)
        order[i - begin] = i;
    std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
        return objective.less(leaves[a].node, leaves[b].node);
    });
    std::int32_t rank = 0;
    std::int64_t low = leaves[begin].value;
    std::int64_t high = low;
    for (std::size_t i = 0; i < order.size(); ++i) {
        if (i > 0 && objective.less(leaves[order[i - 1]].node, leaves[order[i]].node))
            ++rank;
        leaves[order[i]].rank = rank;
        low = std::min(low, leaves[order[i]].value);
        high = std::max(high, leaves[order[i]].value);
    }
    least += low;
    if (rank == 0 && !keep) {
        constant += low;
        demands_.resize(leaves[begin].entry_begin);
        leaves.resize(begin);
        crossed_.resize(before.crossed);
        masks_.resize(before.masks);
        return;
    }
    is_rounded = is_rounded || !exact;
    trees.push_back({tree, begin, end, 0, 0, high - low});
}

Reduction::Built Reduction::prune(Instance& instance, const Objective& objective, bool keep_all,
                                  const Stopwatch& stopwatch) {
    numbered_ = false;
    trees.clear();
    leaves.clear();
    settled.clear();
    demands_.clear();
    masks_.clear();
    crossed_.clear();
    bool exact = true;
    blend_ = Blend(objective);
    if (!blend_.is_held_by(fixed))
        return Built::too_large;
    constant = blend_.constant(fixed, exact);
    doubt = exact ? 0 : 3;
    is_rounded = false;
    least = constant;
    for (std::int32_t tree = 0; tree < ensemble_.n_trees(); ++tree) {
        const Sizes before{crossed_.size(), masks_.size()};
        const bool whole = walk(tree, instance, stopwatch);
        if (is_too_large())
            return Built::too_large;
        if (!whole)
            return Built::interrupted;
        settle(tree, objective, keep_all, before);
        if ((tree & 15) == 0 && stopwatch.expired())
            return Built::interrupted;
    }
    return Built::whole;
}

Reduction::Built Reduction::turn_to(const Blend& blend, const Stopwatch& stopwatch) {
    if (!blend.is_held_by(fixed))
        return Built::too_large;
    blend_ = blend;
    bool exact = true;
    constant = blend_.constant(fixed, exact);
    doubt = exact ? 0 : 3;
    least = constant;
    for (Tree& tree : trees) {
        if ((tree.id & 15) == 0 && stopwatch.expired())
            return Built::interrupted;
        std::int64_t low = units::unbounded;
        std::int64_t high = -units::unbounded;
        exact = true;
        for (std::int32_t i = tree.leaf_begin; i < tree.leaf_end; ++i) {
            leaves[i].value = blend_.value(leaves[i].node, fixed, exact);
            low = std::min(low, leaves[i].value);
            high = std::max(high, leaves[i].value);
        }
        tree.spread = high - low;
        least += low;
        doubt += exact ? 0 : 3;
    }
    if (numbered_)
        find_step();
    return Built::whole;
}

} // namespace carve
