// Random numbers that come again: the same seed, the same numbers.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>

namespace carve::tests {

class Random {
  public:
    explicit Random(std::uint64_t seed) : bits_(seed) {}

    std::uint64_t bits() { return bits_(); }
    int below(int end) { return static_cast<int>(bits() % static_cast<std::uint64_t>(end)); }
    int between(int first, int last) { return first + below(last - first + 1); }
    bool chance(double probability) { return real() < probability; }
    double real() { return static_cast<double>(bits() >> 11) * 0x1p-53; } // in [0, 1)
    template <class T> T pick(std::initializer_list<T> list) {
        return list.begin()[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
    }
    // Any limb; many have long runs of equal bits, where carries travel.
    std::uint64_t limb() {
        const std::uint64_t ones = ~std::uint64_t{0};
        switch (below(4)) {
        case 0:
            return ones << below(64);
        case 1:
            return ones >> below(64);
        case 2:
            return std::uint64_t{1} << below(64);
        default:
            return bits();
        }
    }
    // Any finite double: of all sizes, of one size, subnormal, at the ends of the range.
    double any_double() {
        const double sign = chance(0.5) ? 1 : -1;
        switch (below(5)) {
        case 0:
            return sign * std::bit_cast<double>(bits() % 0x10000000000000); // subnormal
        case 1:
            return sign * (std::numeric_limits<double>::max() * (1 - 0x1p-50 * real()));
        case 2:
            return sign * (1 + real());
        case 3:
            return sign * std::ldexp(1.0, between(-1074, 1023));
        default:
            return sign * std::ldexp(1 + real(), between(-1022, 1023));
        }
    }

  private:
    std::mt19937_64 bits_;
};

} // namespace carve::tests
