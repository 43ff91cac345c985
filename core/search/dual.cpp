#include "search/dual.hpp"

#include <algorithm>
#include <cmath>

namespace carve {

using Range = Reduction::Range;
using units::never;

void Dual::reset() {
    theta_.assign(reduction_.segment_begin.size(), 0);
    shared_.assign(reduction_.cost.size(), 0);
    priced_.assign(reduction_.cost.size(), 0);
    priced_capacity_ = 0;
    leaf_.assign(reduction_.trees.size(), 0);
    least_.assign(reduction_.trees.size(), 0);
    vote_.clear();
    for (const auto& feature : reduction_.features)
        vote_.push_back(feature.home);
    cell_bound_.assign(reduction_.cost.size(), 0);
    least_of_feature_.assign(reduction_.features.size(), 0);
    energy_.assign(reduction_.leaves.size(), 0);
    range_.assign(reduction_.ranges.size(), 0);
    slot_least_.assign(reduction_.slots.size(), 0);
    base_.assign(reduction_.trees.size(), 0);
    asks_.reset(reduction_.leaves.size());
    lambda_ = 0;
    calm(1);
}

void Dual::set_lambda(double lambda) {
    constexpr auto most_price = static_cast<double>(units::most_price);
    lambda_ = std::min(lambda, static_cast<double>(units::most_lambda));
    lambda_ = std::floor(std::min(lambda_, most_price / reduction_.capacity()));
    // For norms 1, 2, … costs are known to within a few roundings: count them a little lower, and
    // the capacity a little higher, than they are.
    const bool whole = reduction_.slack() == 0;
    const double lower = whole ? 1 : 1 - 0x1p-40;
    for (std::size_t i = 0; i < priced_.size(); ++i)
        priced_[i] = static_cast<std::int64_t>(
            std::floor(std::min(lambda_ * reduction_.cost[i] * lower, most_price)));
    priced_capacity_ = static_cast<std::int64_t>(
        std::ceil(lambda_ * reduction_.capacity() * (whole ? 1 : 1 + 0x1p-40)));
}

Range Dual::open_segments(const Reduction::Slot& slot, const Range& cells) const {
    const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
    Range open{0, slot.count - 1};
    while (open.low + 1 < slot.count && begin[open.low + 1] <= cells.low)
        ++open.low;
    while (open.high > open.low && begin[open.high] > cells.high)
        --open.high;
    return open;
}

std::int64_t Dual::price_slot(const Reduction::Slot& slot, const Range& open,
                              std::int64_t* range) const {
    const std::int64_t* const theta = theta_.data() + slot.first;
    std::int64_t least = theta[open.low];
    for (std::int32_t i = open.low + 1; i <= open.high; ++i)
        least = std::min(least, theta[i]);
    for (std::int32_t r = slot.range_begin; r < slot.range_end; ++r) {
        const std::int32_t low = std::max(reduction_.ranges[r].low, open.low);
        const std::int32_t high = std::min(reduction_.ranges[r].high, open.high);
        std::int64_t here = never;
        for (std::int32_t i = low; i <= high; ++i)
            here = std::min(here, theta[i] - least);
        range[r - slot.range_begin] = here;
    }
    return least;
}

void Dual::refresh() {
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(base_.size()); ++t) {
        const auto& tree = reduction_.trees[t];
        base_[t] = 0;
        for (std::int32_t s = tree.slot_begin; s < tree.slot_end; ++s) {
            const auto& slot = reduction_.slots[s];
            slot_least_[s] = price_slot(slot, domain_.open(s), range_.data() + slot.range_begin);
            base_[t] += slot_least_[s];
        }
        for (std::int32_t i = 0; i < domain_.alive_count(t); ++i) {
            const std::int32_t l = domain_.alive(t, i);
            const auto& leaf = reduction_.leaves[l];
            energy_[l] = leaf.value;
            for (std::int32_t e = leaf.entry_begin; e < leaf.entry_end; ++e)
                energy_[l] += range_[reduction_.entries[e].range];
        }
    }
}

void Dual::update(std::int32_t s) {
    const auto& slot = reduction_.slots[s];
    fresh_.resize(slot.range_end - slot.range_begin);
    const std::int64_t least = price_slot(slot, domain_.open(s), fresh_.data());
    base_[slot.tree] += least - slot_least_[s];
    slot_least_[s] = least;
    for (std::int32_t u = slot.user_begin; u < slot.user_end; ++u) {
        const auto& user = reduction_.users[u];
        if (domain_.is_alive(slot.tree, user.leaf))
            energy_[user.leaf] += fresh_[user.range - slot.range_begin] - range_[user.range];
    }
    std::copy(fresh_.begin(), fresh_.end(), range_.begin() + slot.range_begin);
}

std::int64_t Dual::evaluate_feature(std::int32_t f, const Range& cells) const {
    const std::int32_t first = reduction_.features[f].first;
    std::int64_t least = never;
    for (std::int32_t cell = cells.low; cell <= cells.high; ++cell)
        least = std::min(least, priced_[first + cell] - shared_[first + cell]);
    return least;
}

std::int64_t Dual::evaluate() {
    bound_ = reduction_.constant - priced_capacity_;
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(vote_.size()); ++f) {
        least_of_feature_[f] = evaluate_feature(f, {domain_.low(f), domain_.high(f)});
        bound_ += least_of_feature_[f];
    }
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(leaf_.size()); ++t) {
        std::int32_t best = domain_.alive(t, 0);
        for (std::int32_t i = 1; i < domain_.alive_count(t); ++i) {
            const std::int32_t l = domain_.alive(t, i);
            if (energy_[l] < energy_[best] ||
                (energy_[l] == energy_[best] &&
                 reduction_.leaves[l].rank < reduction_.leaves[best].rank))
                best = l;
        }
        leaf_[t] = best;
        least_[t] = energy_[best];
        bound_ += base_[t] + least_[t];
    }
    return bound_;
}

std::int64_t Dual::least_elsewhere(const Reduction::Slot& slot) {
    asks_.wipe();
    for (std::int32_t u = slot.user_begin; u < slot.user_end; ++u)
        asks_.mark(reduction_.users[u].leaf);
    std::int64_t least = never;
    for (std::int32_t i = 0; i < domain_.alive_count(slot.tree); ++i) {
        const std::int32_t l = domain_.alive(slot.tree, i);
        if (!asks_.is_marked(l))
            least = std::min(least, energy_[l]);
    }
    return least;
}

std::int64_t Dual::evaluate_if(std::int32_t f, std::int32_t low, std::int32_t high) {
    const Range cells{low, high};
    std::int64_t bound = bound_ + evaluate_feature(f, cells) - least_of_feature_[f];
    const auto& feature = reduction_.features[f];
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const std::int32_t s = reduction_.slots_of_feature[i];
        const auto& slot = reduction_.slots[s];
        fresh_.resize(slot.range_end - slot.range_begin);
        const std::int64_t base = price_slot(slot, open_segments(slot, cells), fresh_.data());
        std::int64_t least = least_elsewhere(slot);
        for (std::int32_t u = slot.user_begin; u < slot.user_end; ++u) {
            const auto& user = reduction_.users[u];
            const std::int64_t now = fresh_[user.range - slot.range_begin];
            if (now < never && domain_.is_alive(slot.tree, user.leaf))
                least = std::min(least, energy_[user.leaf] + now - range_[user.range]);
        }
        if (least == never)
            return never;
        bound += base - slot_least_[s] + least - least_[slot.tree];
    }
    return bound;
}

std::int64_t Dual::marginals(std::int32_t s) {
    const auto& slot = reduction_.slots[s];
    const std::size_t first = needs_.size();
    needs_.resize(first + slot.count, never);
    std::int64_t* const needs = needs_.data() + first;
    for (std::int32_t u = slot.user_begin; u < slot.user_end; ++u) {
        const auto& user = reduction_.users[u];
        if (!domain_.is_alive(slot.tree, user.leaf))
            continue;
        const std::int64_t energy = energy_[user.leaf] - range_[user.range];
        const Range& range = reduction_.ranges[user.range];
        for (std::int32_t i = range.low; i <= range.high; ++i)
            needs[i] = std::min(needs[i], energy);
    }
    const std::int64_t elsewhere = least_elsewhere(slot);
    const Range& open = domain_.open(s);
    const std::int64_t* const theta = theta_.data() + slot.first;
    std::int64_t least = never;
    std::int64_t priced_least = never;
    for (std::int32_t i = open.low; i <= open.high; ++i) {
        needs[i] = std::min(needs[i], elsewhere);
        least = std::min(least, needs[i]);
        priced_least = std::min(priced_least, needs[i] + theta[i]);
    }
    const std::int64_t most = units::most_need * reduction_.trees[slot.tree].spread;
    for (std::int32_t i = open.low; i <= open.high; ++i)
        needs[i] = std::min(needs[i] - least, most);
    return least - priced_least;
}

void Dual::balance(std::int32_t f) {
    const auto& feature = reduction_.features[f];
    const Range box{domain_.low(f), domain_.high(f)};
    const std::int32_t sharers = feature.slot_end - feature.slot_begin;
    needs_.clear();
    running_ -= evaluate_feature(f, box);
    rest_.assign(priced_.begin() + feature.first, priced_.begin() + feature.first + feature.count);
    const auto for_segments = [&](const Reduction::Slot& slot, const Range& open, auto&& visit) {
        const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
        for (std::int32_t i = open.low; i <= open.high; ++i)
            visit(i, std::max(begin[i], box.low),
                  i + 1 < slot.count ? std::min(begin[i + 1] - 1, box.high) : box.high);
    };
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const std::int32_t s = reduction_.slots_of_feature[i];
        const auto& slot = reduction_.slots[s];
        const std::size_t first = needs_.size();
        running_ += marginals(s);
        for_segments(slot, domain_.open(s),
                     [&](std::int32_t segment, std::int32_t from, std::int32_t to) {
                         for (std::int32_t cell = from; cell <= to; ++cell)
                             rest_[cell] += needs_[first + segment];
                     });
    }
    // rest_ is now what each cell costs the feature and all its trees together.
    std::int32_t& vote = vote_[f];
    vote = std::clamp(feature.home, box.low, box.high);
    for (std::int32_t cell = box.low; cell <= box.high; ++cell)
        if (rest_[cell] < rest_[vote])
            vote = cell;
    for (std::int32_t cell = box.low; cell <= box.high; ++cell)
        cell_bound_[feature.first + cell] = running_ + rest_[cell];
    // Share it out.
    std::size_t first = 0;
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const std::int32_t s = reduction_.slots_of_feature[i];
        const auto& slot = reduction_.slots[s];
        const std::int64_t limit = units::most_multiplier * reduction_.trees[slot.tree].spread;
        const std::int64_t shares = sharers - (i - feature.slot_begin);
        std::int64_t* const theta = theta_.data() + slot.first;
        std::int64_t* const shared = shared_.data() + feature.first;
        std::int64_t gained = never;
        for_segments(
            slot, domain_.open(s), [&](std::int32_t segment, std::int32_t from, std::int32_t to) {
                std::int64_t least = rest_[from];
                for (std::int32_t cell = from + 1; cell <= to; ++cell)
                    least = std::min(least, rest_[cell]);
                const std::int64_t need = needs_[first + segment];
                const std::int64_t now = std::clamp(least / shares - need, -limit, limit);
                const std::int64_t change = now - theta[segment];
                theta[segment] = now;
                gained = std::min(gained, now + need);
                for (std::int32_t cell = from; cell <= to; ++cell)
                    rest_[cell] -= now + need;
                const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
                const std::int32_t end =
                    segment + 1 < slot.count ? begin[segment + 1] : feature.count;
                for (std::int32_t cell = begin[segment]; cell < end; ++cell)
                    shared[cell] += change;
            });
        first += slot.count;
        running_ += gained;
        update(s);
    }
    running_ += evaluate_feature(f, box);
}

void Dual::sweep(const Stopwatch& stopwatch) {
    running_ = evaluate();
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(vote_.size()); ++f) {
        if (stopwatch.expired())
            return;
        balance(f);
    }
}

void Dual::save(Snapshot& snapshot) const {
    snapshot.lambda = lambda_;
    snapshot.theta = theta_;
    snapshot.shared = shared_;
}

void Dual::restore(const Snapshot& snapshot) {
    theta_ = snapshot.theta;
    shared_ = snapshot.shared;
    set_lambda(snapshot.lambda);
}

void Dual::reprice() {
    if (!reduction_.has_costs() || reduction_.capacity() == 0)
        return;
    if (lambda_ == 0) {
        // At this price, all that can be gained costs as much as the whole budget.
        std::int64_t gain = 0;
        for (const auto& tree : reduction_.trees)
            gain += tree.spread;
        set_lambda(0.25 * static_cast<double>(gain) / reduction_.capacity());
        return;
    }
    double spent = 0;
    for (std::size_t f = 0; f < vote_.size(); ++f)
        spent += reduction_.cost[reduction_.features[f].first + vote_[f]];
    const double slope = spent - reduction_.capacity();
    if (std::fabs(slope) <= 1e-9 * reduction_.capacity())
        return;
    if (slope * last_slope_ < 0)
        step_ *= 0.6;
    last_slope_ = slope;
    set_lambda(std::max(1.0, lambda_ * (slope > 0 ? 1 + step_ : 1 / (1 + step_))));
}

} // namespace carve
