// A reduction of what a domain of another one has left.
#include <algorithm>

#include "search/domain.hpp"
#include "search/reduction.hpp"

namespace carve {

Reduction::Reduction(const Reduction& whole, Compact)
    : Reduction(whole.ensemble_, whole.attacker_, whole.most_demands_) {}

void Reduction::compact(const Reduction& whole, const Domain& domain, Origin& origin) {
    x_ = whole.x_;
    home = whole.home;
    settled = whole.settled;
    constant = whole.constant;
    least = 0;
    doubt = whole.doubt;
    trees.clear();
    leaves.clear();
    entries.clear();
    slots.clear();
    ranges.clear();
    segment_begin.clear();
    join_cells(whole, domain, origin);
    origin.tree.clear();
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(whole.trees.size()); ++t) {
        const Leaf& leaf = whole.leaves[domain.alive(t, 0)];
        home[whole.trees[t].id] = leaf.node;
        if (domain.alive_count(t) > 1) {
            origin.tree.push_back(t);
            add_alive(whole, domain, t, origin);
        } else { // all of the domain is in its leaf
            settled.push_back(leaf.node);
            constant += leaf.value;
        }
    }
    least += constant;
    index_slots();
}

// Of a feature, cells remain that leaves alive tell apart, and on either side one for all that is
// closed. A feature that costs nothing and is asked nothing is left out.
void Reduction::join_cells(const Reduction& whole, const Domain& domain, Origin& origin) {
    features.clear();
    cuts.clear();
    cost.clear();
    origin.feature.clear();
    origin.cell.clear();
    origin.joined.assign(whole.cost.size(), 0);
    origin.feature_of.assign(whole.features.size(), -1);
    std::vector<std::uint8_t> begins; // per cell of the whole: does one begin here?
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(whole.features.size()); ++f) {
        const Feature& from = whole.features[f];
        const Range box{domain.low(f), domain.high(f)};
        begins.assign(from.count + 1, 0);
        bool asked = false;
        for (std::int32_t i = from.slot_begin; i < from.slot_end; ++i) {
            const std::int32_t s = whole.slots_of_feature[i];
            for (const User& user : domain.users(s)) {
                const Range cells = domain.cells_of(whole.slots[s], whole.ranges[user.range]);
                begins[cells.low] = begins[cells.high + 1] = 1;
                asked = asked || cells.low > box.low || cells.high < box.high;
            }
        }
        if (!asked && box.low <= from.home && from.home <= box.high)
            continue;
        begins[0] = begins[box.low] = begins[box.high + 1] = 1;
        Feature to = from;
        to.first = static_cast<std::int32_t>(cost.size());
        to.first_cut = static_cast<std::int32_t>(cuts.size());
        to.slot_begin = to.slot_end = 0;
        to.count = 0;
        for (std::int32_t cell = 0; cell < from.count;) {
            std::int32_t last = cell;
            while (last + 1 < from.count && begins[last + 1] == 0)
                ++last;
            // The nearest of them to the instance stands for all.
            const std::int32_t nearest = std::clamp(from.home, cell, last);
            cost.push_back(whole.cost[from.first + nearest]);
            if (from.finite)
                cuts.push_back(whole.cuts[from.first_cut + nearest]);
            else if (last + 1 < from.count)
                cuts.push_back(whole.cuts[from.first_cut + last]);
            for (std::int32_t i = cell; i <= last; ++i)
                origin.joined[from.first + i] = to.count;
            origin.cell.push_back(cell);
            ++to.count;
            cell = last + 1;
        }
        to.home = origin.joined[from.first + from.home];
        to.open = {origin.joined[from.first + box.low], origin.joined[from.first + box.high]};
        to.start = std::clamp(to.home, to.open.low, to.open.high);
        origin.feature_of[f] = static_cast<std::int32_t>(features.size());
        origin.feature.push_back(f);
        features.push_back(to);
    }
}

void Reduction::add_alive(const Reduction& whole, const Domain& domain, std::int32_t t,
                          const Origin& origin) {
    asks_.clear();
    Tree tree{whole.trees[t].id, static_cast<std::int32_t>(leaves.size()), 0, 0, 0, 0};
    std::int64_t low = whole.leaves[domain.alive(t, 0)].value;
    std::int64_t high = low;
    for (std::int32_t i = 0; i < domain.alive_count(t); ++i) {
        Leaf leaf = whole.leaves[domain.alive(t, i)];
        low = std::min(low, leaf.value);
        high = std::max(high, leaf.value);
        const Range demands{leaf.entry_begin, leaf.entry_end};
        leaf.entry_begin = static_cast<std::int32_t>(entries.size());
        for (std::int32_t e = demands.low; e < demands.high; ++e) {
            const Slot& slot = whole.slots[whole.entries[e].slot];
            const std::int32_t f = origin.feature_of[slot.feature];
            if (f < 0)
                continue;
            const Range cells = domain.cells_of(slot, whole.ranges[whole.entries[e].range]);
            const std::int32_t* const joined =
                origin.joined.data() + whole.features[slot.feature].first;
            const Range now{joined[cells.low], joined[cells.high]};
            if (now.low == features[f].open.low && now.high == features[f].open.high)
                continue; // asks nothing
            asks_.push_back({f, now, static_cast<std::int32_t>(entries.size())});
            entries.emplace_back();
        }
        leaf.entry_end = static_cast<std::int32_t>(entries.size());
        leaves.push_back(leaf);
    }
    tree.leaf_end = static_cast<std::int32_t>(leaves.size());
    tree.spread = high - low;
    least += low;
    trees.push_back(tree);
    add_slots(trees.back());
}

} // namespace carve
