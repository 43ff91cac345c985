// Costs as whole numbers, so fine that no two of them are confused by rounding but in the rarest of
// cases: what doubles cannot tell apart, on lattices of pixels for one, these can.
//
// Of norms 1 and 2 where a distance of 1 costs 1: the p-th power of a distance, in units of about
// budget^p / 2^110. Off by a few units, and never more than the truth.
#pragma once

#include "model/attacker.hpp"
#include "numbers/wide.hpp"

namespace carve {

class FineCosts {
  public:
    explicit FineCosts(const Attacker& attacker);
    bool apply() const { return applies_; }
    // cost - error < of(x, z) <= cost, of moving a feature from x to z, no further than the budget
    // or about.
    Wide of(double x, double z) const;
    // What costs no more than the budget has no larger cost.
    Wide capacity() const { return capacity_; }
    static constexpr unsigned error = 8;

  private:
    // |a * b| in units, rounded down.
    Wide product(double a, double b) const;

    bool applies_;
    int norm_;
    int exponent_ = 0; // of the unit
    Wide capacity_ = 0;
};

} // namespace carve
