// Exact arithmetic where floating point could change a verdict.
//
// ExactSum   the exact sum of any number of doubles: its sign, and its nearest double.
// Dyadic     an exact non-negative number m * 2^e: sums, products, comparisons.
// LongSum    a sum of doubles in twice their precision: a filter in front of ExactSum.
// Enclosure  the doubles next to a number, below and above.
// two_sum    a + b = sum + error, exactly.
#pragma once

#include <array>
#include <bit>
#include <cfloat>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "numbers/units.hpp"
#include "numbers/wide.hpp"

namespace carve {

// All that follows rests on it: doubles are those of IEEE 754, and every operation rounds once.
static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<float>::is_iec559);
static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16); // 16: half precision on its own, too

inline constexpr double unit_roundoff = 0x1p-53;

struct TwoSum {
    double sum;
    double error; // a + b == sum + error exactly, unless sum overflows
};

// The next double above a finite one.
inline double next_up(double value) {
    if (value == 0)
        return std::bit_cast<double>(std::uint64_t{1});
    const auto bits = std::bit_cast<std::uint64_t>(value);
    return std::bit_cast<double>(value > 0 ? bits + 1 : bits - 1);
}

inline double next_down(double value) { return -next_up(-value); }

inline TwoSum two_sum(double a, double b) {
    const double sum = a + b;
    const double b_part = sum - a;
    const double error = (a - (sum - b_part)) + (b - b_part);
    return {sum, error};
}

// lower <= number <= upper. As tight as doubles allow where the number is known: the two are equal,
// or neighbours.
struct Enclosure {
    double lower;
    double upper;
};

// The tightest enclosure of a number near `guess`; compare(q) is the sign of number - q, exactly.
template <class Compare> Enclosure enclose(double guess, Compare&& compare) {
    double lower = guess;
    int sign = compare(lower);
    while (sign < 0) {
        lower = next_down(lower);
        sign = compare(lower);
    }
    while (sign > 0) {
        const double above = next_up(lower);
        sign = compare(above);
        if (sign < 0)
            return {lower, above};
        lower = above;
    }
    return {lower, lower};
}

// The sum of doubles as high + low, where `low` adds up what rounding took from `high`. Its error
// is that of summing up `low`: of n numbers whose magnitudes add up to m, at most (n u)^2 m.
class LongSum {
  public:
    explicit LongSum(double start = 0) : high_(start) {}
    void add(double value) {
        const auto [sum, error] = two_sum(high_, value);
        high_ = sum;
        low_ += error;
        lossy_ = lossy_ || error != 0;
    }
    void add(const TwoSum& value) {
        add(value.sum);
        low_ += value.error;
        lossy_ = lossy_ || value.error != 0;
    }
    double high() const { return high_; }
    double low() const { return low_; }
    double rounded() const { return high_ + low_; }
    bool is_exact() const { return !lossy_; } // nothing was rounded: the sum is `high`

  private:
    double high_;
    double low_ = 0;
    bool lossy_ = false;
};

// A natural number of any size: 64-bit limbs, least significant first, none of the top ones zero.
// Numbers of ordinary size live in place; only large ones take memory from the heap.
class Natural {
  public:
    Natural() = default;
    explicit Natural(std::uint64_t value) : size_(value != 0 ? 1 : 0) { small_[0] = value; }
    explicit Natural(std::span<const std::uint32_t> half_limbs);

    bool is_zero() const { return size_ == 0; }
    int bit_length() const;
    Wide low_bits() const; // the lowest 128
    // The 64 bits from bit_length() - 64 up, and whether any lower bit is set.
    std::uint64_t top_bits(bool& sticky) const;

    Natural shifted_left(int bits) const;
    friend Natural operator+(const Natural& a, const Natural& b);
    friend Natural operator-(const Natural& a, const Natural& b); // requires a >= b
    friend Natural operator*(const Natural& a, const Natural& b);
    friend std::strong_ordering operator<=>(const Natural& a, const Natural& b);
    friend bool operator==(const Natural& a, const Natural& b) { return (a <=> b) == 0; }

  private:
    static constexpr std::size_t in_place = 6;
    // A number of `size` zero limbs, to be filled in and then trimmed.
    static Natural room(std::size_t size);
    void trim();
    std::uint64_t* limbs() { return large_.empty() ? small_.data() : large_.data(); }
    const std::uint64_t* limbs() const { return large_.empty() ? small_.data() : large_.data(); }

    std::size_t size_ = 0;
    std::array<std::uint64_t, in_place> small_{};
    std::vector<std::uint64_t> large_; // in use iff not empty
};

// mantissa * 2^exponent, exactly; never negative.
class Dyadic {
  public:
    Dyadic() = default;
    // |value|; value must be finite.
    static Dyadic magnitude(double value);
    // |a - b|
    static Dyadic distance(double a, double b);
    static Dyadic integer(std::uint64_t value);

    bool is_zero() const { return mantissa_.is_zero(); }
    double to_double() const; // nearest double, ties to even; infinity where it overflows
    // About fraction * 2^exponent with fraction in [1/2, 1]; requires a non-zero number.
    double fraction(int& exponent) const;
    Dyadic power(int exponent) const;
    // Numbers with one exponent add and compare fastest: the exponent, and the same number with a
    // smaller (or its own) one.
    int exponent() const { return exponent_; }
    Dyadic with_exponent(int exponent) const;
    const Natural& mantissa() const { return mantissa_; }

    friend Dyadic operator+(const Dyadic& a, const Dyadic& b);
    friend Dyadic operator-(const Dyadic& a, const Dyadic& b); // requires a >= b
    friend Dyadic operator*(const Dyadic& a, const Dyadic& b);
    friend std::strong_ordering operator<=>(const Dyadic& a, const Dyadic& b);
    friend bool operator==(const Dyadic& a, const Dyadic& b) {
        return (a <=> b) == std::strong_ordering::equal;
    }

  private:
    friend class ExactSum;
    Dyadic(Natural mantissa, int exponent) : mantissa_(std::move(mantissa)), exponent_(exponent) {}
    Natural mantissa_;
    int exponent_ = 0;
};

// The exact sum of finite doubles, kept as one long fixed-point number.
class ExactSum {
  public:
    ExactSum() { limbs_.fill(0); }
    void add(double value);
    void subtract(double value) { add(-value); }
    void subtract(const ExactSum& other);
    int sign() const;         // -1, 0, 1
    double to_double() const; // the nearest double; its sign is the exact sign
    Dyadic magnitude() const; // |sum|

  private:
    // Bit 0 of limb 0 weighs 2^-1074. The sum is that of all limbs, which may be negative and
    // longer than 32 bits: by no more than `summands_` doubles can make them.
    std::array<std::int64_t, units::limb_count> limbs_;
    std::int64_t summands_ = 0;
    void carry_up(); // to limbs in [0, 2^32), but for the top one
    // Sign and limbs of the magnitude, each limb in [0, 2^32).
    int normalise(std::vector<std::uint32_t>& magnitude) const;
};

} // namespace carve
