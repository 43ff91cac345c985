#include "model/objective.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace carve {

Objective::Objective(const Ensemble& ensemble, double magnitude) : ensemble_(&ensemble) {
    // Every rounded total is made of at most a few times n_trees additions of numbers whose
    // magnitudes add up to at most a few times `magnitude`: 32 (n + 8) u covers them. Subnormal
    // numbers round absolutely; an error that is never that small covers them.
    const double share = 32.0 * (ensemble.n_trees() + 8) * unit_roundoff;
    rounding_error_ = share * std::max(magnitude, 1e-280);
    // Sums of doubles are exact where they are subnormal: no such care is needed here.
    long_error_ = share * share * magnitude;
}

void Objective::set_constant(std::vector<double> terms) {
    constant_ = std::move(terms);
    ExactSum sum;
    for (const double term : constant_)
        sum.add(term);
    rounded_constant_ = sum.to_double();
}

LongSum Objective::start() const {
    LongSum sum;
    for (const double term : constant_)
        sum.add(term);
    return sum;
}

// The sign of total - quotient * average.
int Objective::compare(const LongSum& sum, const std::vector<std::int32_t>& leaves,
                       double quotient) const {
    const double high = quotient * ensemble_->average;
    const double low = std::fma(quotient, ensemble_->average, -high);
    const auto [difference, error] = two_sum(sum.high(), -high);
    const double rest = error + (sum.low() - low);
    const double found = difference + rest;
    const double doubt =
        (sum.is_exact() ? 0 : long_error_) +
        8 * unit_roundoff * (std::fabs(error) + std::fabs(sum.low()) + std::fabs(low));
    if (std::fabs(found) > doubt + 2 * unit_roundoff * std::fabs(found))
        return found > 0 ? 1 : -1;
    ExactSum exact = total(leaves);
    exact.subtract(high);
    exact.subtract(low);
    return exact.sign();
}

int Objective::sign(const LongSum& sum, const std::vector<std::int32_t>& leaves) const {
    return compare(sum, leaves, 0);
}

Enclosure Objective::enclose(const LongSum& sum, const std::vector<std::int32_t>& leaves) const {
    // Where most of the sum has cancelled out, its rounding is no guess to start from.
    if (!sum.is_exact() && std::fabs(sum.rounded()) * unit_roundoff < long_error_)
        return enclose(total(leaves));
    return carve::enclose(sum.rounded() / ensemble_->average,
                          [&](double quotient) { return compare(sum, leaves, quotient); });
}

Enclosure Objective::enclose(const ExactSum& total) const {
    return carve::enclose(total.to_double() / ensemble_->average, [&](double quotient) {
        const double high = quotient * ensemble_->average;
        ExactSum difference = total;
        difference.subtract(high);
        difference.subtract(std::fma(quotient, ensemble_->average, -high));
        return difference.sign();
    });
}

double Objective::rounded(const LongSum& sum, const std::vector<std::int32_t>& leaves) const {
    const double found = sum.rounded() / ensemble_->average;
    if (std::fabs(sum.rounded()) * unit_roundoff > long_error_ && found != 0)
        return found;
    const int sign = compare(sum, leaves, 0);
    const Enclosure around = enclose(sum, leaves);
    return sign > 0 ? around.upper : sign < 0 ? around.lower : 0.0;
}

Objective Objective::binary(const Ensemble& ensemble, bool positive) {
    Objective objective(ensemble, ensemble.magnitude);
    objective.sign_ = positive ? 1 : -1;
    objective.tie_wins_ = positive != ensemble.tie_positive;
    const double high = ensemble.threshold * ensemble.average;
    const double low = std::fma(ensemble.threshold, ensemble.average, -high);
    const double sign = objective.sign_;
    objective.set_constant({sign * ensemble.base_score[0], -sign * high, -sign * low});
    return objective;
}

Objective Objective::rivals(const Ensemble& ensemble, int held, int rival) {
    Objective objective(ensemble, ensemble.magnitude);
    objective.single_ = false;
    objective.plus_ = held;
    objective.minus_ = rival;
    objective.tie_wins_ = rival < held;
    objective.set_constant({ensemble.base_score[static_cast<std::size_t>(held)],
                            -ensemble.base_score[static_cast<std::size_t>(rival)]});
    return objective;
}

Objective Objective::output(const Ensemble& ensemble, bool negated) {
    Objective objective(ensemble, ensemble.magnitude);
    objective.sign_ = negated ? -1 : 1;
    objective.set_constant({objective.sign_ * ensemble.base_score[0]});
    return objective;
}

Objective Objective::change(const Ensemble& ensemble, const std::vector<std::int32_t>& home,
                            bool rises, std::span<const double> limit) {
    double magnitude = 2 * ensemble.magnitude;
    for (const double term : limit)
        magnitude += std::fabs(term);
    Objective objective(ensemble, magnitude);
    objective.sign_ = rises ? -1 : 1;
    std::vector<double> constant(limit.begin(), limit.end());
    for (const auto leaf : home)
        constant.push_back(-objective.value(leaf));
    objective.set_constant(std::move(constant));
    return objective;
}

void Objective::add(ExactSum& sum, std::int32_t leaf, double factor) const {
    if (single_) {
        sum.add(factor * value(leaf));
        return;
    }
    sum.add(factor * ensemble_->score(leaf, plus_));
    sum.add(-factor * ensemble_->score(leaf, minus_));
}

bool Objective::less(std::int32_t a, std::int32_t b) const {
    if (single_)
        return value(a) < value(b);
    const double gap = value(a) - value(b);
    const double doubt =
        8 * unit_roundoff *
        (std::fabs(ensemble_->score(a, plus_)) + std::fabs(ensemble_->score(a, minus_)) +
         std::fabs(ensemble_->score(b, plus_)) + std::fabs(ensemble_->score(b, minus_)));
    if (std::fabs(gap) > doubt)
        return gap < 0;
    ExactSum difference;
    add(difference, a, 1);
    add(difference, b, -1);
    return difference.sign() < 0;
}

Dyadic Objective::difference(std::int32_t a, std::int32_t b) const {
    if (single_)
        return Dyadic::distance(value(a), value(b));
    ExactSum difference;
    add(difference, a, 1);
    add(difference, b, -1);
    return difference.magnitude();
}

Wide Objective::difference(std::int32_t a, std::int32_t b, const Multiples& scores) const {
    const auto whole = [&](std::int32_t leaf) {
        return single_ ? scores.of(value(leaf))
                       : scores.of(ensemble_->score(leaf, plus_)) -
                             scores.of(ensemble_->score(leaf, minus_));
    };
    return less(a, b) ? whole(b) - whole(a) : whole(a) - whole(b);
}

ExactSum Objective::total(const std::vector<std::int32_t>& leaves) const {
    ExactSum sum;
    for (const double term : constant_)
        sum.add(term);
    for (const auto leaf : leaves)
        add(sum, leaf, 1);
    return sum;
}

} // namespace carve
