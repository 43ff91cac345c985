// The slow truth about numbers: whole numbers of any size, by schoolbook, sharing no code with the
// core. Doubles are whole multiples of 2^-1074, and so are sums of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace carve::tests {

class Big {
  public:
    Big() = default;
    Big(std::int64_t value) : negative_(value < 0) {
        auto rest =
            value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
        for (; rest != 0; rest /= base)
            digits_.push_back(static_cast<std::uint32_t>(rest % base));
    }
    static Big of_unsigned(std::uint64_t value) {
        return Big(static_cast<std::int64_t>(value >> 32)) * Big(std::int64_t{1} << 32) +
               Big(static_cast<std::int64_t>(value & 0xffffffff));
    }
    // value * 2^1074
    static Big of_double(double value) {
        int exponent = 0;
        const double fraction = std::frexp(value, &exponent); // value = fraction * 2^exponent
        const auto mantissa = static_cast<std::int64_t>(std::ldexp(fraction, 53));
        const int shift = exponent - 53 + 1074;
        return shift >= 0 ? Big(mantissa).times_two_to(shift)
                          : Big(mantissa / (std::int64_t{1} << -shift)); // subnormal: no rest
    }

    int sign() const { return digits_.empty() ? 0 : negative_ ? -1 : 1; }
    Big magnitude() const {
        Big result = *this;
        result.negative_ = false;
        return result;
    }
    Big times_two_to(int bits) const {
        Big result = *this * Big(std::int64_t{1} << (bits % 16));
        if (result.sign() != 0)
            result.digits_.insert(result.digits_.begin(), static_cast<std::size_t>(bits / 16), 0);
        return result;
    }
    // Of the magnitude, least significant first.
    std::vector<std::uint32_t> half_limbs() const {
        std::vector<std::uint32_t> limbs((digits_.size() + 1) / 2, 0);
        for (std::size_t i = 0; i < digits_.size(); ++i)
            limbs[i / 2] += digits_[i] << (16 * (i % 2));
        return limbs;
    }
    int bit_length() const {
        return digits_.empty() ? 0
                               : 16 * static_cast<int>(digits_.size() - 1) +
                                     static_cast<int>(std::bit_width(digits_.back()));
    }
    bool bit(int place) const {
        const auto digit = static_cast<std::size_t>(place / 16);
        return digit < digits_.size() && (digits_[digit] >> (place % 16) & 1) != 0;
    }

    friend Big operator-(const Big& a) {
        Big result = a;
        result.negative_ = !a.negative_;
        return result;
    }
    friend Big operator+(const Big& a, const Big& b) {
        if (a.negative_ == b.negative_)
            return {add(a.digits_, b.digits_), a.negative_};
        return less(a.digits_, b.digits_) ? Big{take(b.digits_, a.digits_), b.negative_}
                                          : Big{take(a.digits_, b.digits_), a.negative_};
    }
    friend Big operator-(const Big& a, const Big& b) { return a + -b; }
    friend Big operator*(const Big& a, const Big& b) {
        Digits product(a.digits_.size() + b.digits_.size(), 0);
        for (std::size_t i = 0; i < a.digits_.size(); ++i) {
            std::uint32_t carry = 0;
            for (std::size_t j = 0; j < b.digits_.size() || carry != 0; ++j) {
                const std::uint32_t factor = j < b.digits_.size() ? b.digits_[j] : 0;
                carry += product[i + j] + a.digits_[i] * factor; // < 2^32: 65535^2 + 2 * 65535
                product[i + j] = carry % base;
                carry /= base;
            }
        }
        return {product, a.negative_ != b.negative_};
    }
    friend bool operator==(const Big& a, const Big& b) { return (a - b).sign() == 0; }
    friend bool operator<(const Big& a, const Big& b) { return (a - b).sign() < 0; }
    friend bool operator<=(const Big& a, const Big& b) { return !(b < a); }

  private:
    using Digits = std::vector<std::uint32_t>;
    static constexpr std::uint32_t base = 1 << 16;

    Big(Digits digits, bool negative) : digits_(std::move(digits)), negative_(negative) {
        while (!digits_.empty() && digits_.back() == 0)
            digits_.pop_back();
    }
    static bool less(const Digits& a, const Digits& b) {
        if (a.size() != b.size())
            return a.size() < b.size();
        return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
    }
    static Digits add(const Digits& a, const Digits& b) {
        Digits sum(std::max(a.size(), b.size()) + 1, 0);
        for (std::size_t i = 0; i + 1 < sum.size(); ++i) {
            sum[i] += (i < a.size() ? a[i] : 0) + (i < b.size() ? b[i] : 0);
            sum[i + 1] += sum[i] / base;
            sum[i] %= base;
        }
        return sum;
    }
    static Digits take(const Digits& a, const Digits& b) { // a - b, a >= b
        Digits rest = a;
        std::uint32_t borrow = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            const std::uint32_t taken = (i < b.size() ? b[i] : 0) + borrow;
            borrow = rest[i] < taken ? 1 : 0;
            rest[i] += borrow * base - taken;
        }
        return rest;
    }

    Digits digits_; // least significant first, the top one not 0
    bool negative_ = false;
};

// The double nearest to number * 2^-1074, ties to even, found by bisection of all doubles.
inline double nearest_double(const Big& number) {
    if (number.sign() < 0)
        return -nearest_double(-number);
    // Patterns of doubles from 0 to infinity are in the order of the doubles.
    std::uint64_t low = 0;
    std::uint64_t high = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::infinity());
    const auto value = [&](std::uint64_t pattern) {
        return pattern == high ? Big(1).times_two_to(1024 + 1074)
                               : Big::of_double(std::bit_cast<double>(pattern));
    };
    if (value(high) <= number)
        return std::numeric_limits<double>::infinity();
    std::uint64_t above = high;
    while (low + 1 < above) {
        const std::uint64_t middle = low + (above - low) / 2;
        (value(middle) <= number ? low : above) = middle;
    }
    const Big twice = number + number;
    const Big ends = value(low) + value(above);
    const bool up = ends < twice || (ends == twice && low % 2 == 1);
    return std::bit_cast<double>(up ? above : low);
}

} // namespace carve::tests
