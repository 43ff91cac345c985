// Wide: whole numbers of 128 bits, the compiler's own where it has them.
//
// TwoLimbs   the same from two 64-bit limbs, for compilers that have none; no more operations than
//            are needed here. Like unsigned numbers everywhere: modulo 2^128.
//
// CARVE_TWO_LIMBS makes Wide the two limbs on every compiler, so that they can be tested.
#pragma once

#include <compare>
#include <cstdint>

namespace carve {

class TwoLimbs {
  public:
    constexpr TwoLimbs() = default;
    constexpr TwoLimbs(std::uint64_t value) : low_(value) {} // as integers convert: unasked
    constexpr explicit operator std::uint64_t() const { return low_; }

    friend constexpr TwoLimbs operator+(TwoLimbs a, TwoLimbs b) {
        const std::uint64_t low = a.low_ + b.low_;
        return {a.high_ + b.high_ + (low < a.low_ ? 1 : 0), low};
    }
    friend constexpr TwoLimbs operator-(TwoLimbs a, TwoLimbs b) {
        return {a.high_ - b.high_ - (a.low_ < b.low_ ? 1 : 0), a.low_ - b.low_};
    }
    friend constexpr TwoLimbs operator*(TwoLimbs a, TwoLimbs b) {
        TwoLimbs product = multiply(a.low_, b.low_);
        product.high_ += a.low_ * b.high_ + a.high_ * b.low_;
        return product;
    }
    friend constexpr TwoLimbs operator|(TwoLimbs a, TwoLimbs b) {
        return {a.high_ | b.high_, a.low_ | b.low_};
    }
    // 0 <= bits < 128
    friend constexpr TwoLimbs operator<<(TwoLimbs a, int bits) {
        if (bits == 0)
            return a;
        return bits < 64 ? TwoLimbs{a.high_ << bits | a.low_ >> (64 - bits), a.low_ << bits}
                         : TwoLimbs{a.low_ << (bits - 64), 0};
    }
    friend constexpr TwoLimbs operator>>(TwoLimbs a, int bits) {
        if (bits == 0)
            return a;
        return bits < 64 ? TwoLimbs{a.high_ >> bits, a.low_ >> bits | a.high_ << (64 - bits)}
                         : TwoLimbs{0, a.high_ >> (bits - 64)};
    }
    constexpr TwoLimbs& operator+=(TwoLimbs other) { return *this = *this + other; }
    constexpr TwoLimbs& operator>>=(int bits) { return *this = *this >> bits; }

    friend constexpr bool operator==(TwoLimbs a, TwoLimbs b) = default;
    friend constexpr std::strong_ordering operator<=>(TwoLimbs a, TwoLimbs b) = default;

  private:
    constexpr TwoLimbs(std::uint64_t high, std::uint64_t low) : high_(high), low_(low) {}
    // By halves of limbs: no partial sum leaves 64 bits, as (2^32 - 1)^2 + 2 (2^32 - 1) < 2^64.
    static constexpr TwoLimbs multiply(std::uint64_t a, std::uint64_t b) {
        constexpr std::uint64_t half = 0xffffffff;
        const std::uint64_t low = (a & half) * (b & half);
        const std::uint64_t middle = (a >> 32) * (b & half) + (low >> 32);
        const std::uint64_t other = (a & half) * (b >> 32) + (middle & half);
        return {(a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32), other << 32 | (low & half)};
    }

    std::uint64_t high_ = 0; // first: comparisons look at it first
    std::uint64_t low_ = 0;
};

#if defined(__SIZEOF_INT128__) && !defined(CARVE_TWO_LIMBS)
__extension__ using Wide = unsigned __int128;
#else
using Wide = TwoLimbs;
#endif

} // namespace carve
