#include "search/dual.hpp"

#include <algorithm>
#include <cmath>

namespace carve {

using Range = Reduction::Range;
using units::never;

namespace {
constexpr int share_rounds = 3;
}

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

void Dual::reset(const Dual& whole, const Origin& origin) {
    reset();
    set_lambda(whole.lambda_);
    for (std::size_t s = 0; s < reduction_.slots.size(); ++s) {
        const auto& slot = reduction_.slots[s];
        const auto& feature = reduction_.features[slot.feature];
        const auto& tree = whole.reduction_.trees[origin.tree[slot.tree]];
        std::int32_t old = tree.slot_begin;
        while (whole.reduction_.slots[old].feature != origin.feature[slot.feature])
            ++old;
        const auto& from = whole.reduction_.slots[old];
        const std::int32_t* const begin = whole.reduction_.segment_begin.data() + from.first;
        const std::int64_t limit = units::most_multiplier * reduction_.trees[slot.tree].spread;
        const std::int32_t* const own = reduction_.segment_begin.data() + slot.first;
        std::int32_t segment = 0;
        for (std::int32_t i = 0; i < slot.count; ++i) {
            const std::int32_t cell = origin.cell[feature.first + own[i]];
            while (segment + 1 < from.count && begin[segment + 1] <= cell)
                ++segment;
            const std::int64_t theta =
                std::clamp(whole.theta_[from.first + segment], -limit, limit);
            theta_[slot.first + i] = theta;
            const std::int32_t end = i + 1 < slot.count ? own[i + 1] : feature.count;
            for (std::int32_t c = own[i]; c < end; ++c)
                shared_[feature.first + c] += theta;
        }
    }
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
    for (const auto& user : domain_.users(s))
        energy_[user.leaf] += fresh_[user.range - slot.range_begin] - range_[user.range];
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

std::int64_t Dual::least_elsewhere(std::int32_t s) {
    const std::int32_t tree = reduction_.slots[s].tree;
    const auto users = domain_.users(s);
    if (static_cast<std::int32_t>(users.size()) == domain_.alive_count(tree))
        return never;
    asks_.wipe();
    for (const auto& user : users)
        asks_.mark(user.leaf);
    std::int64_t least = never;
    for (std::int32_t i = 0; i < domain_.alive_count(tree); ++i) {
        const std::int32_t l = domain_.alive(tree, i);
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
        const std::int64_t base =
            price_slot(slot, reduction_.segments_of(slot, cells), fresh_.data());
        std::int64_t least = least_elsewhere(s);
        for (const auto& user : domain_.users(s)) {
            const std::int64_t now = fresh_[user.range - slot.range_begin];
            if (now < never)
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
    for (const auto& user : domain_.users(s)) {
        const std::int64_t energy = energy_[user.leaf] - range_[user.range];
        const Range& range = reduction_.ranges[user.range];
        for (std::int32_t i = range.low; i <= range.high; ++i)
            needs[i] = std::min(needs[i], energy);
    }
    const std::int64_t elsewhere = least_elsewhere(s);
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
    vote_[f] = std::clamp(feature.home, box.low, box.high);
    if (box.low == box.high)
        return;
    needs_.clear();
    balanced_.clear();
    running_ -= evaluate_feature(f, box);
    std::int64_t elsewhere = 0; // multipliers of trees to which all cells are the same
    steps_.assign(feature.count + 1, 0);
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const std::int32_t s = reduction_.slots_of_feature[i];
        if (const Range& open = domain_.open(s); open.low == open.high) {
            elsewhere += theta_[reduction_.slots[s].first + open.low];
            continue;
        }
        balanced_.push_back(s);
        const std::size_t first = needs_.size();
        running_ += marginals(s);
        std::int64_t last = 0;
        for_segments(s, box, [&](std::int32_t segment, const Range& cells) {
            steps_[cells.low] += needs_[first + segment] - last;
            last = needs_[first + segment];
        });
    }
    rest_.resize(feature.count);
    std::int64_t sum = 0;
    for (std::int32_t cell = box.low; cell <= box.high; ++cell)
        rest_[cell] = priced_[feature.first + cell] + (sum += steps_[cell]);
    // rest_ is now what each cell costs the feature and all its trees together.
    std::int32_t& vote = vote_[f];
    for (std::int32_t cell = box.low; cell <= box.high; ++cell)
        if (rest_[cell] < rest_[vote])
            vote = cell;
    for (std::int32_t cell = box.low; cell <= box.high; ++cell)
        cell_bound_[feature.first + cell] = running_ - elsewhere + rest_[cell];
    share_out(f, box);
    running_ += evaluate_feature(f, box);
}

// All trees at once get the same share of what is left in their segments; what that leaves, because
// segments differ, is shared out again.
void Dual::share_out(std::int32_t f, const Range& box) {
    const auto& feature = reduction_.features[f];
    const auto sharers = static_cast<std::int64_t>(balanced_.size());
    shares_.assign(needs_.size(), 0);
    for (int round = 0; round < std::min<std::int64_t>(share_rounds, sharers); ++round) {
        minima_.build(rest_.data() + box.low, box.high - box.low + 1);
        std::fill(steps_.begin() + box.low, steps_.begin() + box.high + 1, 0);
        std::size_t first = 0;
        for (const std::int32_t s : balanced_) {
            std::int64_t last = 0;
            for_segments(s, box, [&](std::int32_t segment, const Range& cells) {
                const std::int64_t share =
                    minima_.least(cells.low - box.low, cells.high - box.low) / sharers;
                shares_[first + segment] += share;
                steps_[cells.low] += share - last;
                last = share;
            });
            first += reduction_.slots[s].count;
        }
        std::int64_t sum = 0;
        for (std::int32_t cell = box.low; cell <= box.high; ++cell)
            rest_[cell] -= sum += steps_[cell];
    }
    steps_.assign(feature.count + 1, 0);
    std::size_t first = 0;
    for (const std::int32_t s : balanced_) {
        const auto& slot = reduction_.slots[s];
        const std::int64_t limit = units::most_multiplier * reduction_.trees[slot.tree].spread;
        const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
        const Range& open = domain_.open(s);
        std::int64_t gained = never;
        for (std::int32_t segment = open.low; segment <= open.high; ++segment) {
            const std::int64_t need = needs_[first + segment];
            const std::int64_t now = std::clamp(shares_[first + segment] - need, -limit, limit);
            std::int64_t& theta = theta_[slot.first + segment];
            steps_[begin[segment]] += now - theta;
            steps_[segment + 1 < slot.count ? begin[segment + 1] : feature.count] -= now - theta;
            theta = now;
            gained = std::min(gained, now + need);
        }
        first += slot.count;
        running_ += gained;
        update(s);
    }
    std::int64_t sum = 0;
    for (std::int32_t cell = 0; cell < feature.count; ++cell)
        shared_[feature.first + cell] += sum += steps_[cell];
}

void Dual::sweep(const Stopwatch& stopwatch) {
    running_ = evaluate();
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(vote_.size()); ++f) {
        if (stopwatch.expired())
            return;
        balance(f);
    }
}

void Dual::round(int bits) {
    const std::int64_t unit = std::int64_t{1} << bits;
    std::ranges::fill(shared_, 0);
    for (std::size_t s = 0; s < reduction_.slots.size(); ++s) {
        const auto& slot = reduction_.slots[s];
        const auto& feature = reduction_.features[slot.feature];
        const std::int32_t near =
            std::clamp(feature.home, domain_.low(slot.feature), domain_.high(slot.feature));
        const std::int64_t home =
            theta_[slot.first + reduction_.segments_of(slot, {near, near}).low];
        for (std::int32_t i = 0; i < slot.count; ++i) {
            std::int64_t& theta = theta_[slot.first + i];
            theta = ((theta - home + unit / 2) >> bits) * unit;
            const Range cells = reduction_.cells_of(slot, {i, i});
            for (std::int32_t c = cells.low; c <= cells.high; ++c)
                shared_[feature.first + c] += theta;
        }
    }
    set_lambda(std::floor(std::ldexp(lambda_, -bits)) * static_cast<double>(unit));
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
