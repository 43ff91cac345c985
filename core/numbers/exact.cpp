#include "numbers/exact.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace carve {

Natural Natural::room(std::size_t size) {
    Natural number;
    number.size_ = size;
    if (size > in_place) {
        if (size > static_cast<std::size_t>(units::most_bits / 64))
            throw std::length_error("an exact number has too many digits; use fewer scales");
        number.large_.assign(size, 0);
    }
    return number;
}

Natural::Natural(std::span<const std::uint32_t> half_limbs) {
    std::size_t used = half_limbs.size();
    while (used > 0 && half_limbs[used - 1] == 0)
        --used;
    *this = room((used + 1) / 2);
    for (std::size_t i = 0; i < used; ++i)
        limbs()[i / 2] |= std::uint64_t{half_limbs[i]} << (32 * (i % 2));
}

void Natural::trim() {
    while (size_ > 0 && limbs()[size_ - 1] == 0)
        --size_;
}

int Natural::bit_length() const {
    return size_ == 0 ? 0 : static_cast<int>(size_ * 64) - std::countl_zero(limbs()[size_ - 1]);
}

Wide Natural::low_bits() const {
    Wide low = 0;
    for (std::size_t i = std::min<std::size_t>(size_, 2); i-- > 0;)
        low = low << 64 | limbs()[i];
    return low;
}

std::uint64_t Natural::top_bits(bool& sticky) const {
    sticky = false;
    if (size_ == 0)
        return 0;
    const std::uint64_t* const limb = limbs();
    const int up = std::countl_zero(limb[size_ - 1]);
    std::uint64_t top = limb[size_ - 1] << up;
    if (size_ == 1)
        return top;
    const std::uint64_t next = limb[size_ - 2];
    if (up > 0)
        top |= next >> (64 - up);
    sticky = next << up != 0;
    for (std::size_t i = 0; i + 2 < size_; ++i)
        sticky |= limb[i] != 0;
    return top;
}

Natural Natural::shifted_left(int bits) const {
    if (is_zero() || bits == 0)
        return *this;
    const auto whole = static_cast<std::size_t>(bits / 64);
    const int part = bits % 64;
    Natural result = room(size_ + whole + 1);
    for (std::size_t i = 0; i < size_; ++i) {
        const Wide wide = Wide{limbs()[i]} << part;
        result.limbs()[i + whole] |= static_cast<std::uint64_t>(wide);
        result.limbs()[i + whole + 1] |= static_cast<std::uint64_t>(wide >> 64);
    }
    result.trim();
    return result;
}

Natural operator+(const Natural& a, const Natural& b) {
    const Natural& longer = a.size_ >= b.size_ ? a : b;
    const Natural& shorter = a.size_ >= b.size_ ? b : a;
    Natural result = Natural::room(longer.size_ + 1);
    Wide carry = 0;
    for (std::size_t i = 0; i < longer.size_; ++i) {
        carry += longer.limbs()[i];
        carry += i < shorter.size_ ? shorter.limbs()[i] : 0;
        result.limbs()[i] = static_cast<std::uint64_t>(carry);
        carry >>= 64;
    }
    result.limbs()[longer.size_] = static_cast<std::uint64_t>(carry);
    result.trim();
    return result;
}

Natural operator-(const Natural& a, const Natural& b) {
    Natural result = Natural::room(a.size_);
    std::uint64_t borrow = 0;
    for (std::size_t i = 0; i < a.size_; ++i) {
        const Wide taken = Wide{i < b.size_ ? b.limbs()[i] : 0} + borrow;
        borrow = a.limbs()[i] < taken ? 1 : 0;
        result.limbs()[i] = static_cast<std::uint64_t>(a.limbs()[i] - taken);
    }
    result.trim();
    return result;
}

Natural operator*(const Natural& a, const Natural& b) {
    Natural result = Natural::room(a.size_ + b.size_);
    for (std::size_t i = 0; i < a.size_; ++i) {
        Wide carry = 0;
        for (std::size_t j = 0; j < b.size_; ++j) {
            carry += Wide{a.limbs()[i]} * b.limbs()[j];
            carry += result.limbs()[i + j];
            result.limbs()[i + j] = static_cast<std::uint64_t>(carry);
            carry >>= 64;
        }
        result.limbs()[i + b.size_] = static_cast<std::uint64_t>(carry);
    }
    result.trim();
    return result;
}

std::strong_ordering operator<=>(const Natural& a, const Natural& b) {
    if (a.size_ != b.size_)
        return a.size_ <=> b.size_;
    for (std::size_t i = a.size_; i-- > 0;)
        if (a.limbs()[i] != b.limbs()[i])
            return a.limbs()[i] <=> b.limbs()[i];
    return std::strong_ordering::equal;
}

Dyadic Dyadic::magnitude(double value) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);
    return {Natural(static_cast<std::uint64_t>(std::ldexp(fraction, 53))), exponent - 53};
}

Dyadic Dyadic::integer(std::uint64_t value) { return {Natural(value), 0}; }

Dyadic Dyadic::distance(double a, double b) {
    const auto [sum, error] = two_sum(a, -b);
    if (!std::isfinite(sum)) {
        ExactSum difference;
        difference.add(a);
        difference.subtract(b);
        return difference.magnitude();
    }
    if (error == 0)
        return magnitude(sum);
    return (sum < 0) == (error < 0) ? magnitude(sum) + magnitude(error)
                                    : magnitude(sum) - magnitude(error);
}

Dyadic Dyadic::power(int exponent) const {
    Dyadic result = integer(1);
    for (int i = 0; i < exponent; ++i)
        result = result * *this;
    return result;
}

Dyadic Dyadic::with_exponent(int exponent) const {
    return {mantissa_.shifted_left(exponent_ - exponent), exponent};
}

namespace {

// Calls function(mantissa of a, mantissa of b) with both brought to the smaller exponent.
template <class Function>
auto aligned(const Natural& a, int a_exponent, const Natural& b, int b_exponent,
             Function&& function) {
    if (a_exponent > b_exponent)
        return function(a.shifted_left(a_exponent - b_exponent), b);
    if (a_exponent < b_exponent)
        return function(a, b.shifted_left(b_exponent - a_exponent));
    return function(a, b);
}

} // namespace

Dyadic operator+(const Dyadic& a, const Dyadic& b) {
    if (a.is_zero())
        return b;
    if (b.is_zero())
        return a;
    return {aligned(a.mantissa_, a.exponent_, b.mantissa_, b.exponent_,
                    [](const Natural& m, const Natural& n) { return m + n; }),
            std::min(a.exponent_, b.exponent_)};
}

Dyadic operator-(const Dyadic& a, const Dyadic& b) {
    if (b.is_zero())
        return a;
    return {aligned(a.mantissa_, a.exponent_, b.mantissa_, b.exponent_,
                    [](const Natural& m, const Natural& n) { return m - n; }),
            std::min(a.exponent_, b.exponent_)};
}

Dyadic operator*(const Dyadic& a, const Dyadic& b) {
    return {a.mantissa_ * b.mantissa_,
            units::exponent(std::int64_t{a.exponent_} + std::int64_t{b.exponent_})};
}

std::strong_ordering operator<=>(const Dyadic& a, const Dyadic& b) {
    if (a.is_zero() || b.is_zero())
        return !a.is_zero() <=> !b.is_zero();
    if (a.exponent_ != b.exponent_) {
        const int a_top = a.mantissa_.bit_length() + a.exponent_;
        const int b_top = b.mantissa_.bit_length() + b.exponent_;
        if (a_top != b_top)
            return a_top <=> b_top;
    }
    return aligned(a.mantissa_, a.exponent_, b.mantissa_, b.exponent_,
                   [](const Natural& m, const Natural& n) { return m <=> n; });
}

double Dyadic::to_double() const {
    if (is_zero())
        return 0.0;
    bool sticky = false;
    const std::uint64_t top = mantissa_.top_bits(sticky); // value = top * 2^low, and a little
    const int low = mantissa_.bit_length() - 64 + exponent_;
    // Keep 53 bits, fewer where the result is subnormal; round to nearest, ties to even.
    const int kept = std::min(53, low + 64 + 1074);
    if (kept < 0)
        return 0.0;
    if (kept == 0)
        return top > (std::uint64_t{1} << 63) || sticky ? 0x1p-1074 : 0.0;
    const int dropped = 64 - kept;
    std::uint64_t head = top >> dropped;
    const std::uint64_t tail = top & ((std::uint64_t{1} << dropped) - 1);
    const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
    if (tail > half || (tail == half && (sticky || (head & 1) != 0)))
        ++head;
    return std::ldexp(static_cast<double>(head), low + dropped);
}

double Dyadic::fraction(int& exponent) const {
    bool sticky = false;
    exponent = mantissa_.bit_length() + exponent_;
    return std::ldexp(static_cast<double>(mantissa_.top_bits(sticky)), -64);
}

namespace {
constexpr std::uint64_t low_half = 0xffffffff;
}

void ExactSum::add(double value) {
    if (value == 0)
        return;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto biased = static_cast<int>((bits >> 52) & 0x7ff);
    std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
    if (biased != 0)
        mantissa |= std::uint64_t{1} << 52;
    const int position = biased == 0 ? 0 : biased - 1; // weight of the mantissa's bit 0, + 1074
    const auto limb = static_cast<std::size_t>(position / 32);
    const int up = position % 32;
    const std::array<std::uint64_t, 3> parts{
        mantissa << up & low_half, mantissa >> (32 - up) & low_half, mantissa >> (32 - up) >> 32};
    const std::int64_t sign = (bits >> 63) != 0 ? -1 : 1;
    for (std::size_t i = 0; i < 3; ++i)
        limbs_[limb + i] += sign * static_cast<std::int64_t>(parts[i]);
    if (++summands_ == units::most_summands)
        carry_up();
}

void ExactSum::subtract(const ExactSum& other) {
    for (std::size_t i = 0; i < limbs_.size(); ++i)
        limbs_[i] -= other.limbs_[i];
    summands_ += other.summands_;
    if (summands_ >= units::most_summands)
        carry_up();
}

void ExactSum::carry_up() {
    for (std::size_t i = 0; i + 1 < limbs_.size(); ++i) {
        limbs_[i + 1] += limbs_[i] >> 32;
        limbs_[i] &= static_cast<std::int64_t>(low_half);
    }
    summands_ = 1;
}

int ExactSum::normalise(std::vector<std::uint32_t>& magnitude) const {
    ExactSum carried = *this;
    carried.carry_up();
    const bool negative = carried.limbs_.back() < 0;
    if (negative) {
        for (std::size_t i = 0; i < limbs_.size(); ++i)
            carried.limbs_[i] = -limbs_[i];
        carried.carry_up();
    }
    magnitude.assign(carried.limbs_.begin(), carried.limbs_.end());
    const bool zero = std::ranges::all_of(magnitude, [](auto limb) { return limb == 0; });
    return zero ? 0 : negative ? -1 : 1;
}

int ExactSum::sign() const {
    std::vector<std::uint32_t> magnitude;
    return normalise(magnitude);
}

Dyadic ExactSum::magnitude() const {
    std::vector<std::uint32_t> limbs;
    normalise(limbs);
    return {Natural(limbs), units::lowest_exponent};
}

double ExactSum::to_double() const {
    std::vector<std::uint32_t> limbs;
    const int sign = normalise(limbs);
    return sign * Dyadic(Natural(limbs), units::lowest_exponent).to_double();
}

} // namespace carve
