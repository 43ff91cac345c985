// What a prover writes down: bounds and cuts, byte by byte as docs/proofs.md has them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "proofs/prover.hpp"

namespace carve {

namespace {
enum Tag : std::uint8_t { bound_tag, cut_tag, states_tag, weights_tag };
} // namespace

void Prover::write_price(double price, Bytes& proof) {
    int exponent = 0; // of what is a whole number, as small as it gets
    auto whole = static_cast<std::uint64_t>(std::ldexp(std::frexp(price, &exponent), 53));
    exponent -= 53;
    const int zeros = whole > 0 ? std::countr_zero(whole) : 0;
    proof.byte(bound_tag);
    proof.signed_number(whole > 0 ? -(exponent + zeros) : 0);
    proof.number(whole >> zeros);
    proof.number(0);
}

void Prover::write_rival(int rival, Bytes& proof) {
    proof.byte(weights_tag);
    proof.number(1);
    proof.number(static_cast<std::uint64_t>(rival));
    proof.number(1);
}

bool Prover::write_cut(const Cutting::Place& cut, Bytes& proof) const {
    const auto& feature = reduction_.features[cut.feature];
    proof.byte(feature.finite ? states_tag : cut_tag);
    proof.number(static_cast<std::uint64_t>(names_.axes[feature.id]));
    if (!feature.finite) {
        const double threshold = reduction_.cuts[feature.first_cut + cut.last];
        proof.number(static_cast<std::uint64_t>(names_.last_cell(feature.id, threshold)));
        return false;
    }
    // What has no name can only be among all others.
    const auto states = reduction_.states_of(cut.feature, *instance_);
    const bool upper_first =
        !names_.has_state(feature.id, states.front().first) && states.front().second <= cut.last;
    std::vector<std::int32_t> named;
    for (const auto& [state, cell] : states)
        if ((cell <= cut.last) != upper_first && names_.has_state(feature.id, state))
            named.push_back(names_.state(feature.id, state));
    proof.number(named.size());
    for (const std::int32_t state : named)
        proof.number(static_cast<std::uint64_t>(state));
    return upper_first;
}

// The tree whose leaves alive look at the feature; none or several: -1.
std::int32_t Prover::only_user(std::int32_t f) const {
    const auto& feature = reduction_.features[f];
    std::int32_t only = -1;
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const std::int32_t s = reduction_.slots_of_feature[i];
        if (domain_.users(s).empty())
            continue;
        if (only >= 0)
            return -1;
        only = reduction_.trees[reduction_.slots[s].tree].id;
    }
    return only;
}

// In units as coarse as the gap between the bound and what is needed allows for: small numbers take
// few bytes, and many of them are 0.
int Prover::coarsen(std::int64_t gap) {
    // A multiplier or a price is off by less than two units, in a slot and in a feature's choice:
    // where all of that is less than the gap, nothing can go wrong.
    constexpr int most_tries = 3;
    const std::int64_t roundings =
        2 * static_cast<std::int64_t>(reduction_.slots.size() + reduction_.features.size() + 1);
    dual_.save(precise_);
    int fine = std::max<int>(0, std::bit_width(static_cast<std::uint64_t>(gap / roundings)) - 1);
    int coarse = std::min(fine + (1 << most_tries), units::value_bits);
    while (coarse - fine > 1) {
        const int bits = (fine + coarse) / 2;
        dual_.round(bits);
        dual_.refresh();
        (dual_.evaluate() >= need_ ? fine : coarse) = bits;
        dual_.restore(precise_);
    }
    if (fine > 0)
        dual_.round(fine);
    return fine;
}

void Prover::write_bound(std::int64_t gap, Bytes& proof) {
    const int bits = coarsen(gap);
    proof.byte(bound_tag);
    proof.signed_number(reduction_.fixed.shift() - mean_bits_ - bits);
    const double capacity = problem_.attacker.norm == 0 ? reduction_.capacity() : 1;
    proof.number(static_cast<std::uint64_t>(dual_.lambda() * capacity) >> bits);
    // By axis and tree, as the reader expects them.
    std::vector<std::int32_t> order(reduction_.features.size());
    std::iota(order.begin(), order.end(), 0);
    const auto axis_of = [&](std::int32_t f) { return names_.axes[reduction_.features[f].id]; };
    std::ranges::sort(order, {}, axis_of);
    Bytes all;
    Bytes own;
    std::uint64_t axes = 0;
    std::int32_t last_axis = 0;
    bool is_needed = false;
    for (const std::int32_t f : order) {
        const auto& feature = reduction_.features[f];
        own.clear();
        std::uint64_t trees = 0;
        if (const std::int32_t tree = only_user(f); tree >= 0) {
            if (dual_.lambda() > 0) { // the price of the cells
                own.number(static_cast<std::uint64_t>(tree));
                own.number(0);
                trees = 1;
            }
        } else {
            std::int32_t last_tree = 0;
            for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
                const std::int32_t s = reduction_.slots_of_feature[i];
                if (!write_multipliers(s, bits, last_tree, own))
                    continue;
                last_tree = reduction_.trees[reduction_.slots[s].tree].id;
                ++trees;
                is_needed = true;
            }
        }
        if (trees == 0)
            continue;
        all.number(static_cast<std::uint64_t>(axis_of(f) - last_axis));
        all.number(trees);
        all.append(own);
        last_axis = axis_of(f);
        ++axes;
    }
    // Prices alone are what a bound without multipliers stands for.
    proof.number(is_needed ? axes : 0);
    if (is_needed)
        proof.append(all);
    if (bits > 0)
        dual_.restore(precise_);
}

// Multipliers are what they are relative to that of the cell nearest to the instance: to add the
// same to all of a slot changes no bound.
bool Prover::write_multipliers(std::int32_t s, int bits, std::int32_t last_tree,
                               Bytes& proof) const {
    const auto& slot = reduction_.slots[s];
    if (domain_.users(s).empty())
        return false;
    const auto& feature = reduction_.features[slot.feature];
    const auto& open = domain_.open(s);
    const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
    const std::int32_t near =
        std::clamp(feature.home, domain_.low(slot.feature), domain_.high(slot.feature));
    const std::int32_t home = reduction_.segments_of(slot, {near, near}).low;
    const auto relative = [&](std::int32_t segment) {
        return (dual_.theta(slot, segment) - dual_.theta(slot, home)) >> bits;
    };
    struct Pair {
        std::int32_t cell;
        std::int64_t theta;
    };
    std::vector<Pair> pairs;
    if (feature.finite) {
        for (const auto& [state, cell] : reduction_.states_of(slot.feature, *instance_)) {
            const std::int32_t segment = reduction_.segments_of(slot, {cell, cell}).low;
            if (open.low <= segment && segment <= open.high && relative(segment) != 0 &&
                names_.has_state(feature.id, state))
                pairs.push_back({names_.state(feature.id, state), relative(segment)});
        }
    } else {
        std::int64_t last = 0;
        for (std::int32_t i = open.low; i <= open.high; ++i) {
            if (relative(i) == last)
                continue;
            last = relative(i);
            const double threshold =
                begin[i] > 0 ? reduction_.cuts[feature.first_cut + begin[i] - 1] : 0;
            pairs.push_back({begin[i] > 0 ? names_.last_cell(feature.id, threshold) + 1 : 0, last});
        }
    }
    if (pairs.empty())
        return false;
    proof.number(static_cast<std::uint64_t>(reduction_.trees[slot.tree].id - last_tree));
    proof.number(pairs.size());
    for (const auto& [cell, theta] : pairs) {
        proof.number(static_cast<std::uint64_t>(cell));
        proof.signed_number(theta);
    }
    return true;
}

} // namespace carve
