#include "search/blend.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "search/reduction.hpp"

namespace carve {

namespace {

std::int64_t constant_of(const Objective& objective, const FixedPoint& fixed, bool& exact) {
    ExactSum rest = objective.total({});
    rest.subtract(objective.constant());
    const std::int64_t constant = fixed.floor(objective.constant(), exact);
    return rest.sign() == 0 ? constant : constant + fixed.floor(next_down(rest.to_double()), exact);
}

// Shares of a whole in proportion to numbers that add up to 1, the largest remainders rounded up.
std::vector<std::int64_t> shares_of(const std::vector<double>& numbers, std::int64_t whole) {
    std::vector<std::int64_t> shares;
    for (const double number : numbers)
        shares.push_back(
            static_cast<std::int64_t>(std::floor(number * static_cast<double>(whole))));
    std::vector<std::size_t> order(numbers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto remainder = [&](std::size_t i) {
        return numbers[i] * static_cast<double>(whole) - static_cast<double>(shares[i]);
    };
    std::ranges::sort(order, [&](auto a, auto b) { return remainder(a) > remainder(b); });
    std::int64_t left = whole - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left)
        ++shares[order[i]];
    return shares;
}

} // namespace

Blend::Blend(const std::vector<const Objective*>& all, const Reduction& reduction,
             const Stopwatch& stopwatch)
    : all_(all), weights_(all.size(), 1.0 / static_cast<double>(all.size())) {
    constexpr int rounds = 48;
    std::vector<double> best = weights_;
    double best_mean = -std::numeric_limits<double>::infinity();
    std::vector<double> totals(all.size());
    bool late = false;
    for (int round = 0; round < rounds && !late; ++round) {
        const auto mean_of = [&](const auto& value) {
            double mean = 0;
            for (std::size_t i = 0; i < all_.size(); ++i)
                mean += weights_[i] * value(i);
            return mean;
        };
        const auto mean_at = [&](std::int32_t node) {
            return mean_of([&](std::size_t i) { return all_[i]->value(node); });
        };
        for (std::size_t i = 0; i < all_.size(); ++i)
            totals[i] = all_[i]->constant();
        for (const auto& tree : reduction.trees) {
            late = late || ((tree.id & 15) == 0 && stopwatch.expired());
            if (late)
                break;
            std::int32_t least = reduction.leaves[tree.leaf_begin].node;
            double least_mean = mean_at(least);
            for (std::int32_t l = tree.leaf_begin + 1; l < tree.leaf_end; ++l) {
                const std::int32_t node = reduction.leaves[l].node;
                if (const double mean = mean_at(node); mean < least_mean) {
                    least_mean = mean;
                    least = node;
                }
            }
            for (std::size_t i = 0; i < all_.size(); ++i)
                totals[i] += all_[i]->value(least);
        }
        if (const double mean = mean_of([&](std::size_t i) { return totals[i]; });
            !late && mean > best_mean) {
            best_mean = mean;
            best = weights_;
        }
        lean_by(totals, 1 / std::sqrt(1.0 + round));
    }
    weights_ = best;
    round();
}

void Blend::lean(const std::vector<std::int32_t>& leaves, double rate) {
    std::vector<double> totals;
    for (const Objective* one : all_) {
        totals.push_back(one->constant());
        for (const std::int32_t leaf : leaves)
            totals.back() += one->value(leaf);
    }
    lean_by(totals, rate);
    round();
}

// Who can be pushed down far counts for less, who cannot for more.
void Blend::lean_by(const std::vector<double>& totals, double rate) {
    double size = 0;
    for (const double total : totals)
        size = std::max(size, std::fabs(total));
    if (!(size > 0) || !std::isfinite(size))
        return;
    double sum = 0;
    for (std::size_t i = 0; i < totals.size(); ++i)
        sum += weights_[i] *= std::exp(rate * totals[i] / size);
    for (double& weight : weights_)
        weight /= sum;
}

void Blend::round() {
    const std::vector<std::int64_t> shares = shares_of(weights_, whole);
    parts_.clear();
    for (std::size_t i = 0; i < all_.size(); ++i)
        if (shares[i] > 0)
            parts_.push_back({all_[i], shares[i]});
}

template <class Value> std::int64_t Blend::mean(const Value& value, bool& exact) const {
    if (parts_.size() == 1)
        return value(*parts_[0].objective);
    std::int64_t sum = 0;
    std::int64_t rest = 0; // in parts of a unit
    for (const Part& part : parts_) {
        const std::int64_t units = value(*part.objective);
        const std::int64_t down = units >> whole_bits; // rounded down
        sum += down * part.weight;
        rest += (units - down * whole) * part.weight;
    }
    exact = exact && rest % whole == 0;
    return sum + rest / whole;
}

std::int64_t Blend::value(std::int32_t node, const FixedPoint& fixed, bool& exact) const {
    return mean([&](const Objective& one) { return fixed.floor(one.exact_value(node), exact); },
                exact);
}

std::int64_t Blend::constant(const FixedPoint& fixed, bool& exact) const {
    return mean([&](const Objective& one) { return constant_of(one, fixed, exact); }, exact);
}

bool Blend::is_held_by(const FixedPoint& fixed) const {
    return std::ranges::all_of(
        parts_, [&](const Part& part) { return fixed.holds(part.objective->constant()); });
}

bool Blend::tie_wins() const {
    return std::ranges::all_of(parts_, [](const Part& part) { return part.objective->tie_wins(); });
}

std::vector<std::int64_t> Blend::weights(const std::vector<const Objective*>& all) const {
    std::vector<std::int64_t> found(all.size(), 0);
    for (const Part& part : parts_)
        found[static_cast<std::size_t>(std::ranges::find(all, part.objective) - all.begin())] +=
            part.weight;
    return found;
}

} // namespace carve
