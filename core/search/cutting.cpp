#include "search/cutting.hpp"

#include <algorithm>

namespace carve {

// What each leaf alive is worth to the attacker: how far below the largest value of its tree it is,
// as a share of all of these, times the tree's spread.
void Cutting::weigh_leaves() {
    weight_.assign(reduction_.leaves.size(), 0.0);
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t) {
        const auto value = [&](std::int32_t i) {
            return reduction_.leaves[domain_.alive(t, i)].value;
        };
        const std::int32_t count = domain_.alive_count(t);
        std::int64_t least = value(0);
        std::int64_t most = least;
        for (std::int32_t i = 1; i < count; ++i) {
            least = std::min(least, value(i));
            most = std::max(most, value(i));
        }
        double sum = 0;
        for (std::int32_t i = 0; i < count; ++i)
            sum += static_cast<double>(most - value(i));
        if (sum == 0)
            continue;
        const double rate = static_cast<double>(most - least) / sum;
        for (std::int32_t i = 0; i < count; ++i)
            weight_[domain_.alive(t, i)] = rate * static_cast<double>(most - value(i));
    }
}

// Sorts the leaves by what the budget leaves once they are paid for.
void Cutting::price_leaves() {
    room_.clear();
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t)
        for (std::int32_t i = 0; i < domain_.alive_count(t); ++i) {
            const std::int32_t l = domain_.alive(t, i);
            if (weight_[l] == 0)
                continue;
            const auto& leaf = reduction_.leaves[l];
            double left = domain_.remaining();
            for (std::int32_t e = leaf.entry_begin; e < leaf.entry_end; ++e)
                left -= domain_.extra_cost(reduction_.entries[e]);
            room_.push_back({left, weight_[l]});
        }
    std::ranges::sort(room_, {}, &Room::left);
    double sum = 0;
    for (Room& room : room_)
        room.weight = sum += room.weight;
}

// The weight of the leaves that are out of reach once so much more is spent.
double Cutting::priced_out(double extra) const {
    const auto end = std::ranges::lower_bound(room_, extra, {}, &Room::left);
    return end == room_.begin() ? 0 : (end - 1)->weight;
}

std::optional<Cutting::Place> Cutting::choose() {
    weigh_leaves();
    if (reduction_.has_costs())
        price_leaves();
    double best = -1;
    std::optional<Place> place;
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f) {
        const std::int32_t low = domain_.low(f);
        const std::int32_t high = domain_.high(f);
        if (low == high)
            continue;
        const auto& feature = reduction_.features[f];
        // Up to cell c, and from c on: the weight of leaves that end there, or begin there.
        ending_.assign(feature.count, 0);
        beginning_.assign(feature.count, 0);
        for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
            const std::int32_t s = reduction_.slots_of_feature[i];
            const auto& slot = reduction_.slots[s];
            for (const auto& user : domain_.users(s)) {
                if (weight_[user.leaf] == 0)
                    continue;
                const Reduction::Range cells =
                    domain_.cells_of(slot, reduction_.ranges[user.range]);
                ending_[cells.high] += weight_[user.leaf];
                beginning_[cells.low] += weight_[user.leaf];
            }
        }
        for (std::int32_t cell = low + 1; cell <= high; ++cell) {
            ending_[cell] += ending_[cell - 1];
            beginning_[high - (cell - low)] += beginning_[high - (cell - low) + 1];
        }
        const double paid = domain_.committed(f);
        for (std::int32_t last = low; last < high; ++last) {
            double left = beginning_[last + 1]; // what is denied to the left side
            double right = ending_[last];
            if (reduction_.has_costs()) {
                left += priced_out(domain_.least_cost(f, {low, last}) - paid);
                right += priced_out(domain_.least_cost(f, {last + 1, high}) - paid);
            }
            const double score = (left + 1) * (right + 1);
            if (score > best) {
                best = score;
                place = {f, last};
            }
        }
    }
    return place;
}

} // namespace carve
