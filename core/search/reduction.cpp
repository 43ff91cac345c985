#include "search/reduction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tiny = 1e-150;

Attacker lifted(const Attacker& attacker, double lift) {
    Attacker copy{attacker.norm, attacker.budget * lift, attacker.scale, {}, {}, {}};
    return copy;
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

Reduction::Reduction(const Ensemble& ensemble, const Attacker& attacker)
    : home(ensemble.n_trees()), fixed(ensemble), ensemble_(ensemble), attacker_(attacker),
      lift_(attacker.budget < tiny ? 0x1p600 : 1), costs_(ensemble, lifted(attacker, lift_)),
      spent_(ensemble.n_features, 0.0), interval_(ensemble.n_features),
      local_(ensemble.n_features, -1) {
    // A cell's cost is off by at most (p + 6) u of itself; costs are summed over the features.
    if (attacker.norm > 0)
        slack_ =
            std::max(costs_.slack(),
                     unit_roundoff * (8.0 * (attacker.norm + 8) +
                                      8.0 * static_cast<double>(ensemble.used_features.size())));
}

double Reduction::price(const Instance& instance, std::int32_t feature,
                        const Interval& interval) const {
    const double here = instance.routed[feature];
    if (here <= interval.low)
        return costs_.of(
            feature, (ensemble_.next_above(feature, interval.low) - instance.x[feature]) * lift_);
    if (here > interval.high)
        return costs_.of(feature, (instance.x[feature] - interval.high) * lift_);
    return 0;
}

void Reduction::enter(const Pending& step) {
    trail_.push_back({step.feature, spent_[step.feature], interval_[step.feature]});
    Interval& interval = interval_[step.feature];
    if (step.is_left)
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
            const auto begin = static_cast<std::int32_t>(demands_.size());
            for (const Undo& undo : trail_)
                if (undo.interval.low == -infinity && undo.interval.high == infinity)
                    demands_.push_back({undo.feature, interval_[undo.feature]});
            leaves.push_back({0, here, 0, begin, static_cast<std::int32_t>(demands_.size())});
            if (pending_.empty())
                break;
            // A path of 100,000 splits has as many demands; one of ten has few.
            work += trail_.size() + 1;
            if (work > 65'536) {
                if (stopwatch.expired() || demands_.size() > units::most_demands) {
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
                           to_left};
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

// Values and ranks of the leaves just walked; a tree whose values are all equal is a constant.
void Reduction::settle(std::int32_t tree, const Objective& objective, bool keep,
                       std::size_t crossed_before) {
    const std::int32_t begin = trees.empty() ? 0 : trees.back().leaf_end;
    const auto end = static_cast<std::int32_t>(leaves.size());
    home[tree] = leaves[begin].node;
    bool exact = true;
    for (std::int32_t i = begin; i < end; ++i)
        leaves[i].value = fixed.floor(objective.exact_value(leaves[i].node), exact);
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
        crossed_.resize(crossed_before);
        return;
    }
    trees.push_back({tree, begin, end, 0, 0, high - low});
}

Reduction::Built Reduction::prune(Instance& instance, const Objective& objective, bool keep_all,
                                  const Stopwatch& stopwatch) {
    trees.clear();
    leaves.clear();
    demands_.clear();
    crossed_.clear();
    bool exact = true;
    ExactSum rest = objective.total({});
    rest.subtract(objective.constant());
    if (!fixed.holds(objective.constant()))
        return Built::too_large;
    constant = fixed.floor(objective.constant(), exact);
    if (rest.sign() != 0)
        constant += fixed.floor(next_down(rest.to_double()), exact);
    doubt = exact ? 0 : 3;
    least = constant;
    for (std::int32_t tree = 0; tree < ensemble_.n_trees(); ++tree) {
        const std::size_t crossed_before = crossed_.size();
        const bool whole = walk(tree, instance, stopwatch);
        if (demands_.size() > units::most_demands)
            return Built::too_large;
        if (!whole)
            return Built::interrupted;
        settle(tree, objective, keep_all, crossed_before);
        if ((tree & 15) == 0 && stopwatch.expired())
            return Built::interrupted;
    }
    return Built::whole;
}

std::int32_t Reduction::cell_above(const Feature& feature, double threshold) const {
    const auto begin = cuts.begin() + feature.first_cut;
    const auto found = std::lower_bound(begin, begin + (feature.count - 1), threshold);
    return static_cast<std::int32_t>(found - begin) + 1;
}

bool Reduction::number(const Instance& instance, const Stopwatch& stopwatch) {
    x_ = instance.x;
    features.clear();
    cuts.clear();
    cost.clear();
    slots.clear();
    ranges.clear();
    segment_begin.clear();
    std::ranges::sort(crossed_);
    crossed_.erase(std::ranges::unique(crossed_).begin(), crossed_.end());
    for (std::size_t i = 0; i < crossed_.size();) {
        const std::int32_t id = crossed_[i].first;
        Feature feature{id,
                        0,
                        static_cast<std::int32_t>(cost.size()),
                        1,
                        static_cast<std::int32_t>(cuts.size()),
                        0,
                        0};
        for (; i < crossed_.size() && crossed_[i].first == id; ++i) {
            feature.home += crossed_[i].second < instance.routed[id];
            cuts.push_back(crossed_[i].second);
            ++feature.count;
        }
        local_[id] = static_cast<std::int32_t>(features.size());
        for (std::int32_t cell = 0; cell < feature.count; ++cell) {
            const bool moves = has_costs() && cell != feature.home;
            const double gap = moves ? std::fabs(value(feature, cell) - instance.x[id]) : 0;
            cost.push_back(moves ? costs_.of(id, gap * lift_) : 0);
        }
        features.push_back(feature);
    }
    entries.resize(demands_.size());
    for (Tree& tree : trees) {
        if (stopwatch.expired()) {
            for (const Feature& feature : features)
                local_[feature.id] = -1;
            return false;
        }
        add_slots(tree);
    }
    // Leaves by slot.
    for (const Entry& entry : entries)
        ++slots[entry.slot].user_end;
    std::int32_t used = 0;
    for (Slot& slot : slots) {
        slot.user_begin = used;
        used += slot.user_end;
        slot.user_end = slot.user_begin;
    }
    users.resize(entries.size());
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
        for (std::int32_t e = leaves[leaf].entry_begin; e < leaves[leaf].entry_end; ++e)
            users[slots[entries[e].slot].user_end++] = {static_cast<std::int32_t>(leaf),
                                                        entries[e].range};
    // Slots by feature.
    for (const Slot& slot : slots)
        ++features[slot.feature].slot_end;
    std::int32_t total = 0;
    for (Feature& feature : features) {
        feature.slot_begin = total;
        total += feature.slot_end;
        feature.slot_end = feature.slot_begin;
    }
    slots_of_feature.resize(slots.size());
    for (std::size_t slot = 0; slot < slots.size(); ++slot)
        slots_of_feature[features[slots[slot].feature].slot_end++] =
            static_cast<std::int32_t>(slot);
    for (const Feature& feature : features)
        local_[feature.id] = -1;
    return true;
}

// The slots of one tree, and the ranges its leaves ask for.
void Reduction::add_slots(Tree& tree) {
    struct Ask {
        std::int32_t feature;
        std::int32_t low;  // first cell
        std::int32_t high; // last cell
        std::int32_t entry;
    };
    std::vector<Ask> asks;
    for (std::int32_t i = leaves[tree.leaf_begin].entry_begin;
         i < leaves[tree.leaf_end - 1].entry_end; ++i) {
        const std::int32_t f = local_[demands_[i].feature];
        const Interval& interval = demands_[i].interval;
        asks.push_back({f, interval.low == -infinity ? 0 : cell_above(features[f], interval.low),
                        interval.high == infinity ? features[f].count - 1
                                                  : cell_above(features[f], interval.high) - 1,
                        i});
    }
    std::ranges::sort(asks, [](const Ask& a, const Ask& b) {
        if (a.feature != b.feature)
            return a.feature < b.feature;
        return a.low != b.low ? a.low < b.low : a.high < b.high;
    });
    tree.slot_begin = static_cast<std::int32_t>(slots.size());
    for (std::size_t i = 0; i < asks.size();) {
        const std::int32_t f = asks[i].feature;
        std::size_t end = i;
        const auto first = static_cast<std::int32_t>(segment_begin.size());
        segment_begin.push_back(0);
        for (; end < asks.size() && asks[end].feature == f; ++end) {
            segment_begin.push_back(asks[end].low);
            if (asks[end].high + 1 < features[f].count)
                segment_begin.push_back(asks[end].high + 1);
        }
        const auto begin = segment_begin.begin() + first;
        std::sort(begin, segment_begin.end());
        segment_begin.erase(std::unique(begin, segment_begin.end()), segment_begin.end());
        const auto segment = [&](std::int32_t cell) {
            const auto from = segment_begin.begin() + first;
            return static_cast<std::int32_t>(std::upper_bound(from, segment_begin.end(), cell) -
                                             from) -
                   1;
        };
        const auto slot = static_cast<std::int32_t>(slots.size());
        const auto range_begin = static_cast<std::int32_t>(ranges.size());
        for (std::size_t a = i; a < end; ++a) {
            if (a == i || asks[a].low != asks[a - 1].low || asks[a].high != asks[a - 1].high)
                ranges.push_back({segment(asks[a].low), segment(asks[a].high)});
            entries[asks[a].entry] = {slot, static_cast<std::int32_t>(ranges.size()) - 1};
        }
        slots.push_back({tree.id, f, first, static_cast<std::int32_t>(segment_begin.size()) - first,
                         range_begin, static_cast<std::int32_t>(ranges.size()), 0, 0});
        slots.back().tree = static_cast<std::int32_t>(&tree - trees.data());
        i = end;
    }
    tree.slot_end = static_cast<std::int32_t>(slots.size());
}

bool Reduction::affordable(const std::vector<std::int32_t>& cells, double total) const {
    if (!has_costs() || total <= capacity() - slack_)
        return true;
    if (total > capacity() + slack_)
        return false;
    if (attacker_.norm == 0)
        return true;
    std::vector<std::int32_t> changed;
    std::vector<double> z(x_, x_ + ensemble_.n_features);
    for (std::size_t f = 0; f < cells.size(); ++f)
        if (cells[f] != features[f].home) {
            changed.push_back(features[f].id);
            z[features[f].id] = value(features[f], cells[f]);
        }
    return attacker_.affords(changed, x_, z.data());
}

double Reduction::value(const Feature& feature, std::int32_t cell) const {
    return cell < feature.home
               ? cuts[feature.first_cut + cell]
               : ensemble_.next_above(feature.id, cuts[feature.first_cut + cell - 1]);
}

} // namespace carve
