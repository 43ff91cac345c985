// Doubles as whole multiples of one power of two, in 128 bits: their sums and differences are
// exact, and as fast as those of whole numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "numbers/wide.hpp"

namespace carve {

// |value| = mantissa * 2^exponent
struct Parts {
    std::uint64_t mantissa;
    int exponent;
};
Parts parts_of(double value);

class Multiples {
  public:
    // For `values`, and for differences of two sums of at most `summands` of them each.
    Multiples(std::span<const double> values, std::size_t summands);
    // Whether 128 bits are enough for them.
    bool fits() const { return fits_; }
    // One of the values, in units of 2^exponent, modulo 2^128.
    Wide of(double value) const;

  private:
    int exponent_ = 0;
    bool fits_ = true;
};

} // namespace carve
