#include "objective.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace carve {

Objective::Objective(const Ensemble& ensemble) : ensemble_(&ensemble) {
    // Every rounded total is made of at most a few times n_trees additions of numbers whose
    // magnitudes add up to at most a few times `magnitude`: 32 (n + 8) u covers them.
    rounding_error_ =
        32.0 * (ensemble.n_trees() + 8) * unit_roundoff * std::max(ensemble.magnitude, 1e-280);
}

void Objective::set_constant(std::vector<double> terms) {
    constant_ = std::move(terms);
    ExactSum sum;
    for (const double term : constant_)
        sum.add(term);
    rounded_constant_ = sum.to_double();
}

Objective Objective::binary(const Ensemble& ensemble, bool positive) {
    Objective objective(ensemble);
    objective.sign_ = positive ? 1 : -1;
    objective.tie_wins_ = !positive; // raw score >= threshold is the positive class
    const double high = ensemble.threshold * ensemble.average;
    const double low = std::fma(ensemble.threshold, ensemble.average, -high);
    const double sign = objective.sign_;
    objective.set_constant({sign * ensemble.base_score[0], -sign * high, -sign * low});
    return objective;
}

Objective Objective::rivals(const Ensemble& ensemble, int held, int rival) {
    Objective objective(ensemble);
    objective.single_ = false;
    objective.plus_ = held;
    objective.minus_ = rival;
    objective.tie_wins_ = rival < held;
    objective.set_constant({ensemble.base_score[static_cast<std::size_t>(held)],
                            -ensemble.base_score[static_cast<std::size_t>(rival)]});
    return objective;
}

Objective Objective::output(const Ensemble& ensemble, bool negated) {
    Objective objective(ensemble);
    objective.sign_ = negated ? -1 : 1;
    objective.set_constant({objective.sign_ * ensemble.base_score[0]});
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

ExactSum Objective::total(const std::vector<std::int32_t>& leaves) const {
    ExactSum sum;
    for (const double term : constant_)
        sum.add(term);
    for (const auto leaf : leaves)
        add(sum, leaf, 1);
    return sum;
}

} // namespace carve
