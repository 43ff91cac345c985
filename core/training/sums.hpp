// Gradients, hessians and numbers of rows, added up in whole numbers: in any order, by any number
// of threads, with subtraction, the sum is the same.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace carve {

// What rows add up to. The upper bits of `packed` hold the hessian, the lower ones count rows.
struct Sums {
    std::int64_t gradient = 0;
    std::uint64_t packed = 0;

    Sums& operator+=(const Sums& other) {
        gradient += other.gradient;
        packed += other.packed;
        return *this;
    }
    Sums& operator-=(const Sums& other) {
        gradient -= other.gradient;
        packed -= other.packed;
        return *this;
    }
    friend Sums operator-(Sums a, const Sums& b) { return a -= b; }

    // As numbers that add up one by one; `take` reads what was appended, and returns what follows.
    void append_to(std::vector<std::int64_t>& numbers) const {
        numbers.push_back(gradient);
        numbers.push_back(static_cast<std::int64_t>(packed));
    }
    const std::int64_t* take(const std::int64_t* numbers) {
        gradient = numbers[0];
        packed = static_cast<std::uint64_t>(numbers[1]);
        return numbers + 2;
    }
};

// The largest |value|; what is not finite is refused.
inline double largest_of(std::span<const double> values) {
    double found = 0;
    for (const double value : values) {
        if (!std::isfinite(value))
            throw std::invalid_argument("gradients and hessians must be finite");
        found = std::max(found, std::fabs(value));
    }
    return found;
}

// How whole numbers stand for gradients and hessians. With n < 2^b rows,
//   |gradient| <= 2^(62 - b) units each, so that sums are below 2^62;
//   hessian    <= 2^(63 - 2b) units each, so that sums are below 2^(63 - b), above b bits of count.
class SumUnits {
  public:
    // Of n = `rows` rows, and the largest of their |gradient| and hessian.
    SumUnits(std::int64_t rows, double largest_gradient, double largest_hessian)
        : count_bits_(std::bit_width(static_cast<std::uint64_t>(rows))) {
        if (count_bits_ > most_count_bits)
            throw std::length_error("more than 2^28 rows; train on fewer");
        gradient_unit_ = unit(largest_gradient, 62 - count_bits_);
        hessian_unit_ = unit(largest_hessian, 63 - 2 * count_bits_);
    }

    Sums of(double gradient, double hessian) const {
        const auto whole = static_cast<std::uint64_t>(std::llround(hessian / hessian_unit_));
        return {std::llround(gradient / gradient_unit_), (whole << count_bits_) | 1U};
    }
    double gradient(const Sums& sums) const {
        return static_cast<double>(sums.gradient) * gradient_unit_;
    }
    double hessian(const Sums& sums) const {
        // As a signed number, which processors convert faster; it is below 2^63.
        return static_cast<double>(static_cast<std::int64_t>(sums.packed >> count_bits_)) *
               hessian_unit_;
    }
    std::int64_t rows(const Sums& sums) const {
        return static_cast<std::int64_t>(sums.packed & ((std::uint64_t{1} << count_bits_) - 1));
    }

  private:
    static constexpr int most_count_bits = 28;
    static_assert(63 - 2 * most_count_bits > 6);

    // A power of two u such that |value| <= 2^bits u for every |value| <= most. Not too small for
    // its multiples to be exact.
    static double unit(double most, int bits) {
        int exponent = 0;
        std::frexp(most, &exponent);
        return std::ldexp(1, std::max(exponent - bits, -900));
    }

    int count_bits_;
    double gradient_unit_ = 1;
    double hessian_unit_ = 1;
};

} // namespace carve
