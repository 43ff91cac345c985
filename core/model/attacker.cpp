#include "model/attacker.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();

double step(double value, double towards) { return std::nextafter(value, towards); }

// The largest double <= x + reach, where reach = high + low exactly.
double floor_sum(double x, double high, double low) {
    const auto [sum, error] = two_sum(x, high);
    if (!std::isfinite(sum))
        return sum > 0 ? largest : -largest;
    if (low == 0) // sum is the double nearest to x + high
        return error < 0 ? step(sum, -infinity) : sum;
    // Not the common case: start nearby and step to where the exact comparison says so.
    const auto within = [&](double z) {
        ExactSum slack;
        for (const double term : {x, high, low, -z})
            slack.add(term);
        return slack.sign() >= 0;
    };
    double z = sum + (error + low);
    while (!within(z))
        z = step(z, -infinity);
    while (z < largest && within(step(z, infinity)))
        z = step(z, infinity);
    return z;
}

double floor_to_float32(double value) {
    const auto rounded = static_cast<float>(value);
    if (static_cast<double>(rounded) <= value)
        return std::min<double>(rounded, std::numeric_limits<float>::max());
    return std::nextafter(rounded, -std::numeric_limits<float>::infinity());
}

} // namespace

namespace {

// The exact cost of all moves together.
Dyadic total_cost(const ExactCosts& costs, int norm, std::span<const std::int32_t> features,
                  const double* x, const double* z) {
    Dyadic total;
    for (const auto feature : features) {
        const Dyadic cost = costs.of(feature, x[feature], z[feature]);
        total = norm == norm_inf ? std::max(total, cost) : total + cost;
    }
    return total;
}

} // namespace

bool Attacker::affords(std::span<const std::int32_t> features, const double* x,
                       const double* z) const {
    const ExactCosts costs(*this, features);
    return total_cost(costs, norm, features, x, z) <= costs.of_budget(budget);
}

double Attacker::distance(std::span<const std::int32_t> features, const double* x,
                          const double* z) const {
    const ExactCosts costs(*this, features);
    return costs.smallest_budget(total_cost(costs, norm, features, x, z));
}

Instance::Instance(const Ensemble& ensemble, const Attacker& attacker)
    : ensemble_(ensemble), attacker_(attacker), x_(static_cast<std::size_t>(ensemble.n_features)),
      routed_(x_), limits_(x_.size()), known_(x_.size(), 0) {
    for (const std::size_t size : {attacker.scale.size(), attacker.changeable.size(),
                                   attacker.lower.size(), attacker.upper.size()})
        if (size != 0 && size != x_.size())
            throw std::invalid_argument("the attacker is for another number of features");
    const double wide = 1 + 8 * unit_roundoff; // covers the rounding of products and distances
    const auto span = [&](int feature) {
        if (!attacker.may_change(feature) || attacker.budget == 0)
            return ensemble.float32_inputs ? infinity : 0.0; // limits() knows
        return attacker.norm == 0 ? infinity : attacker.budget * attacker.scale_of(feature) * wide;
    };
    if (attacker.scale.empty() && attacker.changeable.empty()) {
        span_ = span(0);
        return;
    }
    for (int feature = 0; feature < ensemble.n_features; ++feature)
        spans_.push_back(span(feature));
}

void Instance::load(const double* row) {
    x = row;
    finish_load();
}

void Instance::load(const float* row) {
    std::copy_n(row, x_.size(), x_.begin());
    x = x_.data();
    finish_load();
}

void Instance::load(const Instance& other) {
    ++row_;
    x = other.x;
    routed = other.routed;
    has_missing = other.has_missing;
}

void Instance::finish_load() {
    ++row_;
    const std::size_t n = x_.size();
    int missing = 0;
    for (std::size_t f = 0; f < n; ++f)
        missing |= static_cast<int>(x[f] != x[f]);
    has_missing = missing != 0;
    routed = x;
    if (ensemble_.float32_inputs) {
        for (std::size_t f = 0; f < n; ++f)
            routed_[f] = static_cast<float>(x[f]);
        routed = routed_.data();
    }
}

void Instance::find_limits(std::int32_t feature) {
    const auto f = static_cast<std::size_t>(feature);
    known_[f] = row_;
    Limits& limit = limits_[f];
    limit = {routed[f], routed[f]};
    if (x[f] != x[f] || !attacker_.may_change(feature) || attacker_.budget == 0)
        return;
    if (attacker_.norm == 0) {
        limit = {-largest, largest};
    } else {
        const double scale = attacker_.scale_of(feature);
        const double high = attacker_.budget * scale;
        const double low = std::fma(attacker_.budget, scale, -high);
        limit = {-floor_sum(-x[f], high, low), floor_sum(x[f], high, low)};
    }
    if (!attacker_.lower.empty()) {
        limit.low = std::max(limit.low, attacker_.lower[f]);
        limit.high = std::min(limit.high, attacker_.upper[f]);
    }
    if (ensemble_.float32_inputs)
        limit = {-floor_to_float32(-limit.low), floor_to_float32(limit.high)};
    // An unchanged feature is always allowed, wherever rounding to the grid has put it.
    limit.low = std::min(limit.low, routed[f]);
    limit.high = std::max(limit.high, routed[f]);
}

ExactCosts::ExactCosts(const Attacker& attacker, std::span<const std::int32_t> features)
    : attacker_(attacker), product_(Dyadic::integer(1)) {
    if (attacker.norm == 0)
        return;
    for (const auto feature : features)
        scales_.push_back(attacker.scale_of(feature));
    std::ranges::sort(scales_);
    scales_.erase(std::ranges::unique(scales_).begin(), scales_.end());
    const int power = attacker.norm == norm_inf ? 1 : attacker.norm;
    // cofactors_[i] = product of the powers before i, times the product of those after it.
    for (const double scale : scales_) {
        cofactors_.push_back(product_);
        product_ = product_ * Dyadic::magnitude(scale).power(power);
    }
    Dyadic after = Dyadic::integer(1);
    for (std::size_t i = scales_.size(); i-- > 0;) {
        cofactors_[i] = cofactors_[i] * after;
        after = after * Dyadic::magnitude(scales_[i]).power(power);
    }
}

Dyadic ExactCosts::of(int feature, double x, double z) const {
    if (attacker_.norm == 0)
        return Dyadic::integer(x == z ? 0 : 1);
    const auto index = static_cast<std::size_t>(
        std::ranges::lower_bound(scales_, attacker_.scale_of(feature)) - scales_.begin());
    const int power = attacker_.norm == norm_inf ? 1 : attacker_.norm;
    return Dyadic::distance(x, z).power(power) * cofactors_[index];
}

Dyadic ExactCosts::of_budget(double budget) const {
    const int power = attacker_.norm == norm_inf || attacker_.norm == 0 ? 1 : attacker_.norm;
    return Dyadic::magnitude(budget).power(power) * product_;
}

double ExactCosts::smallest_budget(const Dyadic& cost) const {
    if (cost.is_zero())
        return 0;
    // The rounded p-th root of cost / product, then a few steps to the exact answer.
    const int power = attacker_.norm == norm_inf || attacker_.norm == 0 ? 1 : attacker_.norm;
    int cost_exponent = 0;
    int product_exponent = 0;
    const double ratio = cost.fraction(cost_exponent) / product_.fraction(product_exponent);
    const int exponent = cost_exponent - product_exponent;
    const int rest = exponent % power;
    const double root = std::pow(std::ldexp(ratio, rest), 1.0 / power);
    double budget = std::clamp(std::ldexp(root, (exponent - rest) / power), 0.0, largest);
    while (budget < largest && of_budget(budget) < cost)
        budget = step(budget, infinity);
    while (cost <= of_budget(step(budget, 0)))
        budget = step(budget, 0);
    return budget;
}

} // namespace carve
