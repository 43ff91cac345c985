#include "search/domain.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

void Domain::reset() {
    const auto& r = reduction_;
    box_.clear();
    open_.assign(r.slots.size(), {});
    dirty_.assign(r.trees.size(), 1);
    for (const auto& feature : r.features) {
        box_.emplace_back();
        set_box(static_cast<std::int32_t>(box_.size()) - 1, feature.open);
    }
    order_.resize(r.leaves.size());
    std::iota(order_.begin(), order_.end(), 0);
    count_.clear();
    for (const auto& tree : r.trees)
        count_.push_back(tree.leaf_end - tree.leaf_begin);
    users_ = r.users;
    user_place_.resize(r.entries.size());
    for (std::size_t i = 0; i < users_.size(); ++i)
        user_place_[users_[i].entry] = static_cast<std::int32_t>(i);
    user_count_.clear();
    for (const auto& slot : r.slots)
        user_count_.push_back(slot.user_end - slot.user_begin);
    all_alive_ = static_cast<std::int64_t>(r.leaves.size());
    settled_remaining_ = infinity;
    boxes_.clear();
    counts_.clear();
}

void Domain::set_box(std::int32_t feature, const Range& cells) {
    box_[feature] = cells;
    const auto& f = reduction_.features[feature];
    for (std::int32_t i = f.slot_begin; i < f.slot_end; ++i) {
        const std::int32_t s = reduction_.slots_of_feature[i];
        const auto& slot = reduction_.slots[s];
        const Range open = reduction_.segments_of(slot, cells);
        if (open.low != open_[s].low || open.high != open_[s].high)
            dirty_[slot.tree] = 1;
        open_[s] = open;
    }
}

void Domain::restrict(std::int32_t feature, std::int32_t low, std::int32_t high) {
    const Range before = box_[feature];
    const Range after{std::max(low, before.low), std::min(high, before.high)};
    if (after.low == before.low && after.high == before.high)
        return;
    boxes_.push_back({feature, before});
    set_box(feature, after);
}

void Domain::kill(std::int32_t tree, std::int32_t i) {
    counts_.push_back({tree, count_[tree]});
    std::int32_t* const order = order_.data() + reduction_.trees[tree].leaf_begin;
    const std::int32_t last = --count_[tree];
    std::swap(order[i], order[last]);
    leave_slots(order[last]);
    --all_alive_;
    dirty_[tree] = 1;
}

void Domain::leave_slots(std::int32_t leaf) {
    const auto& demands = reduction_.leaves[leaf];
    for (std::int32_t e = demands.entry_begin; e < demands.entry_end; ++e) {
        const std::int32_t s = reduction_.entries[e].slot;
        const std::int32_t from = user_place_[e];
        const std::int32_t to = reduction_.slots[s].user_begin + --user_count_[s];
        std::swap(users_[from], users_[to]);
        user_place_[users_[from].entry] = from;
        user_place_[e] = to;
    }
}

// Those who left last return first: they are next in line.
void Domain::return_to_slots(std::int32_t leaf) {
    const auto& demands = reduction_.leaves[leaf];
    for (std::int32_t e = demands.entry_begin; e < demands.entry_end; ++e)
        ++user_count_[reduction_.entries[e].slot];
}

void Domain::undo(const Mark& mark) {
    while (boxes_.size() > mark.boxes) {
        set_box(boxes_.back().feature, boxes_.back().cells);
        boxes_.pop_back();
    }
    while (counts_.size() > mark.counts) {
        const auto [tree, count] = counts_.back();
        for (; count_[tree] < count; ++count_[tree], ++all_alive_)
            return_to_slots(alive(tree, count_[tree]));
        counts_.pop_back();
    }
    settled_remaining_ = infinity;
}

Reduction::Range Domain::cells_of(const Reduction::Slot& slot, const Range& segments) const {
    const Range cells = reduction_.cells_of(slot, segments);
    const Range& box = box_[slot.feature];
    return {std::max(cells.low, box.low), std::min(cells.high, box.high)};
}

bool Domain::tighten_by_cost() {
    remaining_ = reduction_.capacity() + reduction_.slack();
    const auto count = static_cast<std::int32_t>(box_.size());
    for (std::int32_t f = 0; f < count; ++f) {
        if (box_[f].low > box_[f].high)
            return false;
        remaining_ -= committed(f);
    }
    if (!reduction_.has_costs())
        return true;
    // Sums and differences of numbers up to the capacity: covered twice over.
    const double allowed = remaining_ + reduction_.slack();
    if (allowed < 0)
        return false;
    if (reduction_.slack() > 0 && allowed <= 4 * reduction_.slack()) {
        // Too close to call: does the budget pay for what is committed, exactly?
        nearest_.clear();
        double cost = 0;
        for (std::int32_t f = 0; f < count; ++f) {
            nearest_.push_back(std::clamp(reduction_.features[f].home, box_[f].low, box_[f].high));
            cost += committed(f);
        }
        if (!reduction_.affordable(nearest_, cost))
            return false;
    }
    for (std::int32_t f = 0; f < count; ++f) {
        const double* const cost = reduction_.cost.data() + reduction_.features[f].first;
        const double limit = committed(f) + allowed;
        Range cells = box_[f];
        while (cells.low < cells.high && cost[cells.low] > limit)
            ++cells.low;
        while (cells.low < cells.high && cost[cells.high] > limit)
            --cells.high;
        restrict(f, cells.low, cells.high);
    }
    return true;
}

// Kills the leaves that are out of reach, and closes the cells that no leaf alive allows.
bool Domain::propagate_tree(std::int32_t t) {
    const auto& tree = reduction_.trees[t];
    const std::int32_t first_range =
        tree.slot_begin < tree.slot_end ? reduction_.slots[tree.slot_begin].range_begin : 0;
    extra_.clear();
    for (std::int32_t s = tree.slot_begin; s < tree.slot_end; ++s) {
        const auto& slot = reduction_.slots[s];
        const double paid = committed(slot.feature);
        for (std::int32_t i = slot.range_begin; i < slot.range_end; ++i) {
            const Range meet{std::max(reduction_.ranges[i].low, open_[s].low),
                             std::min(reduction_.ranges[i].high, open_[s].high)};
            extra_.push_back(meet.low > meet.high
                                 ? infinity
                                 : least_cost(slot.feature, cells_of(slot, meet)) - paid);
        }
    }
    const double allowed = remaining_ + reduction_.slack();
    for (std::int32_t i = count_[t]; i-- > 0;) {
        const auto& leaf = reduction_.leaves[alive(t, i)];
        double extra = 0;
        for (std::int32_t e = leaf.entry_begin; e < leaf.entry_end; ++e)
            extra += extra_[reduction_.entries[e].range - first_range];
        if (extra > allowed)
            kill(t, i);
    }
    if (count_[t] == 0)
        return false;
    if (conclusions_ == Conclusions::reach) {
        dirty_[t] = 0;
        return true;
    }
    const std::int32_t slots = tree.slot_end - tree.slot_begin;
    hull_.assign(slots, {std::numeric_limits<std::int32_t>::max(), -1});
    asked_.assign(slots, 0);
    for (std::int32_t i = 0; i < count_[t]; ++i) {
        const auto& leaf = reduction_.leaves[alive(t, i)];
        for (std::int32_t e = leaf.entry_begin; e < leaf.entry_end; ++e) {
            const std::int32_t s = reduction_.entries[e].slot - tree.slot_begin;
            const Range& range = reduction_.ranges[reduction_.entries[e].range];
            hull_[s] = {std::min(hull_[s].low, range.low), std::max(hull_[s].high, range.high)};
            ++asked_[s];
        }
    }
    dirty_[t] = 0;
    for (std::int32_t s = 0; s < slots; ++s) {
        if (asked_[s] < count_[t])
            continue;
        const auto& slot = reduction_.slots[tree.slot_begin + s];
        const Range cells = cells_of(slot, hull_[s]);
        restrict(slot.feature, cells.low, cells.high);
    }
    return true;
}

bool Domain::propagate(const Stopwatch& stopwatch) {
    std::uint32_t looked_at = 0;
    for (;;) {
        if (!tighten_by_cost())
            return false;
        const bool all = remaining_ < settled_remaining_;
        bool changed = false;
        for (std::int32_t t = 0; t < static_cast<std::int32_t>(count_.size()); ++t) {
            if (!all && dirty_[t] == 0)
                continue;
            const std::size_t before = boxes_.size();
            if ((++looked_at % 64 == 0 && stopwatch.expired()) || !propagate_tree(t))
                return false;
            changed = changed || boxes_.size() > before;
        }
        settled_remaining_ = std::min(settled_remaining_, remaining_);
        if (!changed)
            return true;
    }
}

} // namespace carve
