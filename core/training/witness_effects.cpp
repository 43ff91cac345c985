// What moving one feature would change, from where a finder stands.
#include <algorithm>
#include <bit>

#include "training/witness_finder.hpp"

namespace carve {

void WitnessFinder::add_effect(const Pending& leaf, double change) {
    const auto f = static_cast<std::size_t>(leaf.feature);
    if (is_touched_[f] == 0) {
        is_touched_[f] = 1;
        touched_.push_back(leaf.feature);
    }
    double* const effect = effect_.data() + trees_.first_cell(leaf.feature);
    if (is_finite(leaf.feature)) {
        for (std::int32_t i = leaf.low; i < leaf.high; ++i) {
            const std::int32_t cell = listed_states_[static_cast<std::size_t>(i)] + 1;
            effect[cell] += change;
            effect[cell + 1] -= change;
        }
        return;
    }
    effect[leaf.low] += change;
    effect[leaf.high + 1] -= change;
}

// Every leaf that one feature alone can move its tree to: what that changes, for the cells that do.
void WitnessFinder::find_effects() {
    touched_.clear();
    for (std::size_t t = 0; t < leaves_.size(); ++t) {
        if (const std::int32_t only = trees_.output[t]; outputs_ > 1 && only >= 0 &&
                                                        only != static_cast<std::int32_t>(plus_) &&
                                                        only != static_cast<std::int32_t>(minus_))
            continue;
        const double here = value(leaves_[t]);
        listed_states_.clear();
        pending_.push_back({ensemble_.roots[t], -1, 0, 0});
        while (!pending_.empty()) {
            const Pending step = pending_.back();
            pending_.pop_back();
            find_effects_below(step, here);
        }
    }
}

void WitnessFinder::find_effects_below(Pending step, double here) {
    for (;;) {
        const auto& node = trees_.nodes[static_cast<std::size_t>(step.node)];
        if (node.feature < 0) {
            if (step.feature >= 0)
                if (const double change = value(node.right) - here; change != 0)
                    add_effect(step, change);
            return;
        }
        const std::int32_t left = step.node + 1;
        if (step.feature >= 0 && step.feature != node.feature) {
            step.node = goes_left(node) ? left : node.right;
        } else if (node.by_set) {
            step.node = step_by_set(step);
        } else if (step.feature < 0) {
            const bool goes = goes_left(node);
            const Range& reach = range(node.feature);
            const std::int32_t low = goes ? std::max(reach.low, node.place + 1) : reach.low;
            const std::int32_t high = goes ? reach.high : std::min(reach.high, node.place);
            if (low <= high && reach.low < reach.high)
                pending_.push_back({goes ? node.right : left, node.feature, low, high});
            step.node = goes ? left : node.right;
        } else if (step.high <= node.place) {
            step.node = left;
        } else if (step.low > node.place) {
            step.node = node.right;
        } else {
            pending_.push_back({node.right, step.feature, node.place + 1, step.high});
            step.high = node.place;
            step.node = left;
        }
    }
}

std::int32_t WitnessFinder::step_by_set(Pending& step) {
    const auto& node = trees_.nodes[static_cast<std::size_t>(step.node)];
    const std::int32_t left = step.node + 1;
    const auto listed = [this] { return static_cast<std::int32_t>(listed_states_.size()); };
    const std::int32_t begin = listed();
    if (step.feature < 0) {
        const bool goes = goes_left(node);
        if (range(node.feature).low < range(node.feature).high)
            list_others(node.feature, node, goes);
        if (listed() > begin)
            pending_.push_back({goes ? node.right : left, node.feature, begin, listed()});
        return goes ? left : node.right;
    }
    // Those that go right are put aside, then those that go left are gone on with.
    std::int32_t middle = begin;
    for (const bool goes : {false, true}) {
        for (std::int32_t i = step.low; i < step.high; ++i)
            if (const auto state = listed_states_[static_cast<std::size_t>(i)];
                lists(node, state) == goes)
                listed_states_.push_back(state);
        if (!goes)
            middle = listed();
    }
    if (middle == begin)
        return left;
    if (middle == listed())
        return node.right;
    pending_.push_back({node.right, step.feature, begin, middle});
    step.low = middle;
    step.high = listed();
    return left;
}

// The states that the feature may have and that go the other way.
void WitnessFinder::list_others(std::int32_t feature, const CutTrees::Node& split, bool goes) {
    const double home = instance_.routed[feature];
    const std::int32_t home_cell = range(feature).home;
    if (lists(split, home) != goes)
        listed_states_.push_back(home_cell - 1);
    const auto allowed = instance_.states_of(feature);
    for (std::size_t word = 0; word < allowed.size(); ++word)
        for (std::uint64_t rest = allowed[word]; rest != 0; rest &= rest - 1) {
            const auto state = static_cast<std::int32_t>(64 * word) + std::countr_zero(rest);
            if (state + 1 != home_cell && lists(split, state) != goes)
                listed_states_.push_back(state);
        }
}

} // namespace carve
