#include "training/reach_by_limits.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <utility>

#include "model/states.hpp"
#include "numbers/units.hpp"

namespace carve {

Cuts::Cuts(const Ensemble& ensemble) : splits(ensemble.nodes.size()) {
    std::vector<std::pair<std::int32_t, double>> asked;
    for (const Node& node : ensemble.nodes) {
        if (node.is_by_set())
            finite.push_back(node.axis());
        else if (!node.is_leaf())
            asked.emplace_back(node.feature, node.threshold);
    }
    std::ranges::sort(finite);
    finite.erase(std::ranges::unique(finite).begin(), finite.end());
    std::ranges::sort(asked);
    asked.erase(std::ranges::unique(asked).begin(), asked.end());
    for (const auto& [feature, threshold] : asked) {
        const std::int32_t place = units::index(thresholds.size());
        if (features.empty() || features.back().feature != feature)
            features.push_back({feature, place, place});
        thresholds.push_back(threshold);
        features.back().end = place + 1;
    }
    for (std::size_t here = 0; here < splits.size(); ++here) {
        const Node& node = ensemble.nodes[here];
        if (node.is_by_set()) {
            const auto place = std::ranges::lower_bound(finite, node.axis()) - finite.begin();
            splits[here] = {0, static_cast<std::int32_t>(place), false, false};
            continue;
        }
        if (node.is_leaf())
            continue;
        const auto feature =
            std::ranges::lower_bound(features, node.feature, {}, &Feature::feature);
        const auto first = thresholds.begin() + feature->begin;
        const auto cut = std::lower_bound(first, thresholds.begin() + feature->end, node.threshold);
        splits[here] = {static_cast<std::int32_t>(cut - thresholds.begin()),
                        static_cast<std::int32_t>(feature - features.begin()), false, false};
    }
    for (int tree = 0; tree < ensemble.n_trees(); ++tree)
        if (ensemble.tangled[static_cast<std::size_t>(tree)] != 0)
            close_ways(ensemble, tree);
}

void Cuts::close_ways(const Ensemble& ensemble, int tree) {
    const auto root = ensemble.roots[static_cast<std::size_t>(tree)];
    const auto end = ensemble.roots[static_cast<std::size_t>(tree) + 1];
    for (std::int32_t here = root; here < end; ++here) {
        const Node& node = ensemble.nodes[static_cast<std::size_t>(here)];
        if (node.is_leaf() || node.is_by_set())
            continue;
        double low = -std::numeric_limits<double>::infinity(); // the way allows (low, high]
        double high = std::numeric_limits<double>::infinity();
        for (std::int32_t child = here, above = ensemble.parent[static_cast<std::size_t>(here)];
             above >= 0; child = above, above = ensemble.parent[static_cast<std::size_t>(above)]) {
            const Node& split = ensemble.nodes[static_cast<std::size_t>(above)];
            if (split.feature != node.feature)
                continue;
            if (child == above + 1)
                high = std::min(high, split.threshold);
            else
                low = std::max(low, split.threshold);
        }
        Split& split = splits[static_cast<std::size_t>(here)];
        split.left_closed = !(low < node.threshold);
        split.right_closed = !(node.threshold < high);
    }
}

ReachByLimits::ReachByLimits(const Ensemble& ensemble, const Attacker& attacker,
                             const LeafNumbers& numbers, const Cuts& cuts)
    : ensemble_(ensemble), numbers_(numbers), cuts_(cuts), instance_(ensemble, attacker),
      left_(cuts.thresholds.size()), right_(cuts.thresholds.size()), missing_(cuts.features.size()),
      known_(cuts.features.size()), states_(cuts.finite.size()), stateless_(cuts.finite.size()) {}

void ReachByLimits::find(const Rows& rows, std::span<const std::int64_t> chosen, Reached& reached) {
    reached.clear();
    if (chosen.empty())
        return;
    find_sides(rows, chosen);
    const Bits all = ~Bits{0} >> (most_rows - static_cast<std::int64_t>(chosen.size()));
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree) {
        find_leaves(tree, all);
        if (numbers_.narrow())
            store(chosen.size(), reached.narrow);
        else
            store(chosen.size(), reached.wide);
    }
}

void ReachByLimits::find_sides(const Rows& rows, std::span<const std::int64_t> chosen) {
    std::ranges::fill(left_, 0);
    std::ranges::fill(right_, 0);
    std::ranges::fill(missing_, 0);
    std::ranges::fill(stateless_, 0);
    for (auto& of_feature : states_)
        of_feature.clear();
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        with_row(rows, chosen[i], [&](const auto* values) { instance_.load(values); });
        const Bits bit = Bits{1} << i;
        for (std::size_t place = 0; place < cuts_.features.size(); ++place) {
            const auto& [feature, begin, end] = cuts_.features[place];
            const double value = instance_.routed[feature];
            if (value != value) {
                missing_[place] |= bit;
                continue;
            }
            // What is known of one row's value holds for the next row's, if it is the same.
            Known& known = known_[place];
            if (known.value != instance_.x[feature])
                known = look_up(cuts_.features[place], instance_.x[feature]);
            if (known.left < end)
                left_[static_cast<std::size_t>(known.left)] |= bit;
            if (known.right >= begin)
                right_[static_cast<std::size_t>(known.right)] |= bit;
        }
        find_states(bit);
    }
    // Who can be left of a threshold can be left of larger ones; right, of smaller ones.
    for (const auto& [feature, begin, end] : cuts_.features) {
        for (auto cut = static_cast<std::size_t>(begin) + 1; cut < static_cast<std::size_t>(end);
             ++cut)
            left_[cut] |= left_[cut - 1];
        for (auto cut = static_cast<std::size_t>(end) - 1; cut > static_cast<std::size_t>(begin);
             --cut)
            right_[cut - 1] |= right_[cut];
    }
}

// Of the instance that is loaded.
void ReachByLimits::find_states(Bits bit) {
    for (std::size_t place = 0; place < cuts_.finite.size(); ++place) {
        const std::int32_t feature = cuts_.finite[place];
        const double state = instance_.routed[feature];
        if (state != state) {
            stateless_[place] |= bit;
            continue;
        }
        auto& known = states_[place];
        const auto same = std::ranges::find(known, state, &OfState::state);
        if (same == known.end())
            known.push_back({state, instance_.may_switch(feature), bit});
        else
            same->rows |= bit;
    }
}

ReachByLimits::Ways ReachByLimits::ways_at(std::int32_t split, Bits rows) const {
    const auto node = static_cast<std::size_t>(split);
    const Cuts::Split& asked = cuts_.splits[node];
    const auto cut = static_cast<std::size_t>(asked.cut);
    const Bits missing = rows & missing_[static_cast<std::size_t>(asked.place)];
    const bool goes_left = ensemble_.missing[node] == Missing::left;
    return {(asked.left_closed ? 0 : rows & left_[cut]) | (goes_left ? missing : 0),
            (asked.right_closed ? 0 : rows & right_[cut]) | (goes_left ? 0 : missing)};
}

ReachByLimits::Ways ReachByLimits::ways_by_set(std::int32_t split, Bits rows) const {
    const auto node = static_cast<std::size_t>(split);
    const auto place = static_cast<std::size_t>(cuts_.splits[node].place);
    const Bits missing = rows & stateless_[place];
    const bool goes_left = ensemble_.missing[node] == Missing::left;
    Ways ways{goes_left ? missing : 0, goes_left ? 0 : missing};
    for (const auto& [state, may_switch, those] : states_[place]) {
        const Bits own = rows & those;
        if (own == 0)
            continue;
        const bool home = ensemble_.lists(ensemble_.nodes[node], state);
        const Sides sides =
            may_switch ? sides_of(ensemble_, instance_, split, state) : Sides{true, home, !home};
        ways.left |= sides.left ? own : 0;
        ways.right |= sides.right ? own : 0;
    }
    return ways;
}

ReachByLimits::Known ReachByLimits::look_up(const Cuts::Feature& of, double value) {
    const Limits& limits = instance_.limits(of.feature);
    const auto first = cuts_.thresholds.begin() + of.begin;
    const auto last = cuts_.thresholds.begin() + of.end;
    const auto left = std::lower_bound(first, last, limits.low);
    const auto right = std::lower_bound(first, last, limits.high);
    return {value, static_cast<std::int32_t>(left - cuts_.thresholds.begin()),
            static_cast<std::int32_t>(right - cuts_.thresholds.begin()) - 1};
}

void ReachByLimits::find_leaves(int tree, Bits all) {
    found_.clear();
    pending_.clear();
    std::int32_t here = ensemble_.roots[static_cast<std::size_t>(tree)];
    Bits rows = all;
    for (;;) {
        const Node& node = ensemble_.nodes[static_cast<std::size_t>(here)];
        if (!node.is_leaf()) {
            const auto [left, right] =
                node.is_by_set() ? ways_by_set(here, rows) : ways_at(here, rows);
            if (right != 0)
                pending_.push_back({node.right, right});
            if (left != 0) {
                ++here;
                rows = left;
                continue;
            }
        } else {
            found_.push_back({numbers_.of(here) - numbers_.first(tree), rows});
        }
        if (pending_.empty())
            return;
        here = pending_.back().node;
        rows = pending_.back().rows;
        pending_.pop_back();
    }
}

template <class Leaf> void ReachByLimits::store(std::size_t rows, std::vector<Leaf>& leaves) const {
    std::array<std::size_t, most_rows> place{};
    for (const Found& found : found_)
        for (Bits rest = found.rows; rest != 0; rest &= rest - 1)
            ++place[static_cast<std::size_t>(std::countr_zero(rest))];
    std::size_t at = leaves.size();
    std::size_t total = 0;
    for (std::size_t row = 0; row < rows; ++row)
        total += place[row] + 1;
    leaves.resize(at + total);
    for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t count = place[row];
        leaves[at] = static_cast<Leaf>(count - 1);
        place[row] = at + 1;
        at += count + 1;
    }
    for (const Found& found : found_)
        for (Bits rest = found.rows; rest != 0; rest &= rest - 1)
            leaves[place[static_cast<std::size_t>(std::countr_zero(rest))]++] =
                static_cast<Leaf>(found.leaf);
}

} // namespace carve
