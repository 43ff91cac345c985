#include "large_spread/fine_costs.hpp"

#include <cmath>

#include "numbers/exact.hpp"
#include "numbers/multiples.hpp"
#include "numbers/units.hpp"

namespace carve {

FineCosts::FineCosts(const Attacker& attacker)
    : applies_((attacker.norm == 1 || attacker.norm == 2) && attacker.has_one_unit() &&
               attacker.states.empty() && attacker.budget > 0),
      norm_(attacker.norm) {
    if (!applies_)
        return;
    exponent_ = norm_ * std::ilogb(attacker.budget) - units::fine_cost_bits;
    capacity_ =
        norm_ == 1 ? product(attacker.budget, 1) : product(attacker.budget, attacker.budget);
}

Wide FineCosts::product(double a, double b) const {
    const Parts left = parts_of(a);
    const Parts right = parts_of(b);
    const Wide mantissa = Wide{left.mantissa} * Wide{right.mantissa};
    const int shift = left.exponent + right.exponent - exponent_;
    if (shift >= 0)
        return shift < 128 ? mantissa << shift : Wide{0};
    return shift > -128 ? mantissa >> -shift : Wide{0};
}

Wide FineCosts::of(double x, double z) const {
    // distance = far + near, exactly
    const auto [far, near] = z > x ? two_sum(z, -x) : two_sum(x, -z);
    Wide sum = 0;
    Wide less = 0;
    if (norm_ == 1) {
        sum = product(far, 1);
        (near < 0 ? less : sum) += product(near, 1);
    } else {
        sum = product(far, far) + product(near, near);
        (near < 0 ? less : sum) += product(far, 2 * near);
    }
    // Each product is short of the truth by less than a unit.
    less += 2;
    return sum < less ? Wide{0} : sum - less;
}

} // namespace carve
