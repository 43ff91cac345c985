// The reduction's cells, slots and ranges: what prune found, numbered.
#include <algorithm>
#include <numeric>
#include <utility>

#include "search/reduction.hpp"

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// From counts, in `end`, to ranges [begin, end) that follow each other: empty ones, with room for
// as many as were counted.
template <class Owner>
void lay_out(std::vector<Owner>& owners, std::int32_t Owner::* begin, std::int32_t Owner::* end) {
    std::int32_t total = 0;
    for (Owner& owner : owners) {
        owner.*begin = total;
        total += owner.*end;
        owner.*end = owner.*begin;
    }
}

} // namespace

std::int64_t Reduction::total_of(const std::vector<std::int32_t>& nodes) const {
    std::int64_t total = constant;
    bool exact = true;
    for (const Tree& tree : trees)
        total += blend_.value(nodes[tree.id], fixed, exact);
    return total;
}

std::vector<std::pair<std::int32_t, std::int32_t>>
Reduction::states_of(std::int32_t feature, const Instance& instance) const {
    std::vector<std::pair<std::int32_t, std::int32_t>> found;
    for (const auto& [place, cell] : cells_[feature]->members())
        found.emplace_back(found.empty()
                               ? static_cast<std::int32_t>(instance.routed[features[feature].id])
                               : static_cast<std::int32_t>(place),
                           cell);
    return found;
}

std::int32_t Reduction::cell_above(const Feature& feature, double threshold) const {
    const auto begin = cuts.begin() + feature.first_cut;
    const auto found = std::lower_bound(begin, begin + (feature.count - 1), threshold);
    return static_cast<std::int32_t>(found - begin) + 1;
}

void Reduction::add_feature(std::size_t& crossed, const Instance& instance) {
    const std::int32_t id = crossed_[crossed].first;
    Feature feature{id,
                    0,
                    static_cast<std::int32_t>(cost.size()),
                    1,
                    static_cast<std::int32_t>(cuts.size()),
                    0,
                    0,
                    false,
                    {},
                    0};
    for (; crossed < crossed_.size() && crossed_[crossed].first == id; ++crossed) {
        feature.home += crossed_[crossed].second < instance.routed[id];
        cuts.push_back(crossed_[crossed].second);
        ++feature.count;
    }
    for (std::int32_t cell = 0; cell < feature.count; ++cell) {
        const bool moves = has_costs() && cell != feature.home;
        const double move = moves ? value(feature, cell) - instance.x[id] : 0;
        cost.push_back(moves ? costs_.of(id, move * lift_) : 0);
    }
    features.push_back(feature);
    cells_.emplace_back();
}

StateMask Reduction::mask_of(const Demand& demand) const {
    return {masks_.data() + demand.mask, attacker_.states_of(demand.feature).size() + 1};
}

void Reduction::add_finite_feature(std::size_t& crossed, const Instance& instance) {
    const std::int32_t id = crossed_[crossed].first;
    while (crossed < crossed_.size() && crossed_[crossed].first == id)
        ++crossed;
    std::vector<StateCells::Asked> asked;
    for (const Tree& tree : trees) {
        double mean = 0;
        for (std::int32_t i = tree.leaf_begin; i < tree.leaf_end; ++i)
            mean += static_cast<double>(leaves[i].value) / (tree.leaf_end - tree.leaf_begin);
        for (std::int32_t i = tree.leaf_begin; i < tree.leaf_end; ++i)
            for (std::int32_t d = leaves[i].entry_begin; d < leaves[i].entry_end; ++d)
                if (demands_[d].feature == id)
                    asked.push_back(
                        {mask_of(demands_[d]), static_cast<double>(leaves[i].value) - mean, 1});
    }
    std::ranges::sort(asked, [](const auto& a, const auto& b) {
        return std::ranges::lexicographical_compare(a.mask, b.mask);
    });
    std::size_t last = 0; // equal masks are joined
    for (std::size_t i = 1; i < asked.size(); ++i) {
        if (std::ranges::equal(asked[last].mask, asked[i].mask)) {
            asked[last].lean += asked[i].lean;
            asked[last].leaves += asked[i].leaves;
        } else {
            asked[++last] = asked[i];
        }
    }
    asked.resize(last + 1);
    cells_.push_back(std::make_unique<StateCells>(instance.states_of(id), asked));
    const StateCells& cells = *cells_.back();
    features.push_back({id,
                        cells.home(),
                        static_cast<std::int32_t>(cost.size()),
                        cells.count(),
                        static_cast<std::int32_t>(cuts.size()),
                        0,
                        0,
                        true,
                        {},
                        0});
    for (std::int32_t cell = 0; cell < cells.count(); ++cell) {
        cuts.push_back(cells.state(cell));
        cost.push_back(has_costs() && cell != cells.home() ? costs_.of(id, lift_) : 0);
    }
}

Reduction::Built Reduction::split_leaves(const Instance& instance, const Stopwatch& stopwatch) {
    std::vector<Leaf> whole = std::exchange(leaves, {});
    std::vector<Demand> asked = std::exchange(demands_, {});
    const std::vector<Tree> before = trees;
    std::vector<Demand> chosen; // of one leaf
    for (Tree& tree : trees) {
        const std::int32_t begin = tree.leaf_begin;
        const std::int32_t end = tree.leaf_end;
        tree.leaf_begin = static_cast<std::int32_t>(leaves.size());
        for (std::int32_t i = begin; i < end; ++i) {
            const Leaf& leaf = whole[i];
            chosen.assign(asked.begin() + leaf.entry_begin, asked.begin() + leaf.entry_end);
            double spent = 0;
            for (const Demand& demand : chosen)
                if (has_costs() && demand.mask < 0)
                    spent += price(instance, demand.feature, demand.interval);
            choose_runs(leaf, chosen, 0, spent);
            // After every leaf, the last one, too: of one that is too large, runs are left out.
            const bool late = stopwatch.expired();
            if (late || is_too_large()) {
                trees = before;
                leaves = std::move(whole);
                demands_ = std::move(asked);
                return late ? Built::interrupted : Built::too_large;
            }
        }
        tree.leaf_end = static_cast<std::int32_t>(leaves.size());
    }
    return Built::whole;
}

// Appends the leaf once for every combination of runs, from demand `next` on, that can be paid for;
// not for all of them where that is too large.
void Reduction::choose_runs(const Leaf& leaf, std::vector<Demand>& chosen, std::size_t next,
                            double spent) {
    if (spent > costs_.capacity() + slack_ || is_too_large())
        return;
    while (next < chosen.size() && chosen[next].mask < 0)
        ++next;
    if (next == chosen.size()) {
        const auto first = static_cast<std::int32_t>(demands_.size());
        demands_.insert(demands_.end(), chosen.begin(), chosen.end());
        leaves.push_back(
            {leaf.value, leaf.node, leaf.rank, first, static_cast<std::int32_t>(demands_.size())});
        return;
    }
    const std::int32_t local = local_[chosen[next].feature];
    const Feature feature = features[local];
    for (const auto& [low, high] : cells_[local]->runs(mask_of(chosen[next]))) {
        const bool stays = low <= feature.home && feature.home <= high;
        chosen[next].interval = {static_cast<double>(low), static_cast<double>(high)};
        choose_runs(leaf, chosen, next + 1, stays ? spent : spent + cost[feature.first + low]);
    }
}

Reduction::Built Reduction::number(const Instance& instance, const Stopwatch& stopwatch) {
    if (numbered_)
        return Built::whole;
    x_ = instance.x;
    features.clear();
    cells_.clear();
    cuts.clear();
    cost.clear();
    slots.clear();
    ranges.clear();
    segment_begin.clear();
    std::ranges::sort(crossed_);
    crossed_.erase(std::ranges::unique(crossed_).begin(), crossed_.end());
    for (std::size_t i = 0; i < crossed_.size();) {
        local_[crossed_[i].first] = static_cast<std::int32_t>(features.size());
        if (ensemble_.grid_of(crossed_[i].first) == Grid::finite)
            add_finite_feature(i, instance);
        else
            add_feature(i, instance);
    }
    for (Feature& feature : features) {
        feature.open = {0, feature.count - 1};
        feature.start = feature.home;
    }
    const auto forget = [this] {
        for (const Feature& feature : features)
            local_[feature.id] = -1;
    };
    if (!masks_.empty())
        if (const Built built = split_leaves(instance, stopwatch); built != Built::whole) {
            forget();
            return built;
        }
    entries.resize(demands_.size());
    for (Tree& tree : trees) {
        if (stopwatch.expired()) {
            forget();
            return Built::interrupted;
        }
        list_asks(tree);
        add_slots(tree);
    }
    index_slots();
    forget();
    find_step();
    constexpr std::size_t worth_keeping = 1 << 18; // demands, for the next instance
    if (demands_.capacity() > worth_keeping)
        std::vector<Demand>().swap(demands_);
    numbered_ = true;
    return Built::whole;
}

void Reduction::index_slots() {
    // Leaves by slot.
    for (const Entry& entry : entries)
        ++slots[entry.slot].user_end;
    lay_out(slots, &Slot::user_begin, &Slot::user_end);
    users.resize(entries.size());
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
        for (std::int32_t e = leaves[leaf].entry_begin; e < leaves[leaf].entry_end; ++e)
            users[slots[entries[e].slot].user_end++] = {static_cast<std::int32_t>(leaf),
                                                        entries[e].range, e};
    // Slots by feature.
    for (const Slot& slot : slots)
        ++features[slot.feature].slot_end;
    lay_out(features, &Feature::slot_begin, &Feature::slot_end);
    slots_of_feature.resize(slots.size());
    for (std::size_t slot = 0; slot < slots.size(); ++slot)
        slots_of_feature[features[slots[slot].feature].slot_end++] =
            static_cast<std::int32_t>(slot);
}

void Reduction::find_step() {
    step_ = 0;
    some_total_ = constant;
    for (const Tree& tree : trees) {
        const std::int64_t first = leaves[tree.leaf_begin].value;
        some_total_ += first;
        for (std::int32_t i = tree.leaf_begin + 1; i < tree.leaf_end && step_ != 1; ++i)
            step_ = std::gcd(step_, leaves[i].value - first);
    }
    step_ = std::max<std::int64_t>(step_, 1);
}

void Reduction::list_asks(const Tree& tree) {
    asks_.clear();
    for (std::int32_t i = leaves[tree.leaf_begin].entry_begin;
         i < leaves[tree.leaf_end - 1].entry_end; ++i) {
        const std::int32_t f = local_[demands_[i].feature];
        const Interval& interval = demands_[i].interval;
        const auto cell = [](double number) { return static_cast<std::int32_t>(number); };
        const Range cells =
            features[f].finite
                ? Range{cell(interval.low), cell(interval.high)}
                : Range{interval.low == -infinity ? 0 : cell_above(features[f], interval.low),
                        interval.high == infinity ? features[f].count - 1
                                                  : cell_above(features[f], interval.high) - 1};
        asks_.push_back({f, cells, i});
    }
}

// The slots of one tree, and the ranges its leaves ask for, from asks_.
void Reduction::add_slots(Tree& tree) {
    std::ranges::sort(asks_, [](const Ask& a, const Ask& b) {
        if (a.feature != b.feature)
            return a.feature < b.feature;
        return a.cells.low != b.cells.low ? a.cells.low < b.cells.low : a.cells.high < b.cells.high;
    });
    tree.slot_begin = static_cast<std::int32_t>(slots.size());
    for (std::size_t i = 0; i < asks_.size();) {
        const std::int32_t f = asks_[i].feature;
        std::size_t end = i;
        const auto first = static_cast<std::int32_t>(segment_begin.size());
        segment_begin.push_back(0);
        for (; end < asks_.size() && asks_[end].feature == f; ++end) {
            segment_begin.push_back(asks_[end].cells.low);
            if (asks_[end].cells.high + 1 < features[f].count)
                segment_begin.push_back(asks_[end].cells.high + 1);
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
            const Range& cells = asks_[a].cells;
            if (a == i || cells.low != asks_[a - 1].cells.low ||
                cells.high != asks_[a - 1].cells.high)
                ranges.push_back({segment(cells.low), segment(cells.high)});
            entries[asks_[a].entry] = {slot, static_cast<std::int32_t>(ranges.size()) - 1};
        }
        slots.push_back({tree.id, f, first, static_cast<std::int32_t>(segment_begin.size()) - first,
                         range_begin, static_cast<std::int32_t>(ranges.size()), 0, 0});
        slots.back().tree = static_cast<std::int32_t>(&tree - trees.data());
        i = end;
    }
    tree.slot_end = static_cast<std::int32_t>(slots.size());
}

Reduction::Range Reduction::segments_of(const Slot& slot, const Range& cells) const {
    const std::int32_t* const begin = segment_begin.data() + slot.first;
    Range segments{0, slot.count - 1};
    while (segments.low + 1 < slot.count && begin[segments.low + 1] <= cells.low)
        ++segments.low;
    while (segments.high > segments.low && begin[segments.high] > cells.high)
        --segments.high;
    return segments;
}

double Reduction::cost_of(const std::vector<std::int32_t>& cells) const {
    double total = 0;
    for (std::size_t f = 0; f < cells.size(); ++f)
        total += cost[features[f].first + cells[f]];
    return total;
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
    const double* const own = cuts.data() + feature.first_cut;
    if (feature.finite)
        return cell == feature.home ? x_[feature.id] : own[cell];
    return cell < feature.home ? own[cell] : ensemble_.next_above(feature.id, own[cell - 1]);
}

} // namespace carve
