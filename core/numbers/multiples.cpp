#include "numbers/multiples.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "numbers/units.hpp"

namespace carve {

Parts parts_of(double value) {
    constexpr int mantissa_bits = 52;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto stored = static_cast<int>(bits >> mantissa_bits & 0x7ff);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << mantissa_bits) - 1);
    // Subnormal numbers have the exponent of the smallest normal ones, and no leading 1.
    return stored == 0 ? Parts{fraction, units::lowest_exponent}
                       : Parts{fraction | std::uint64_t{1} << mantissa_bits,
                               stored - 1 + units::lowest_exponent};
}

Multiples::Multiples(std::span<const double> values, std::size_t summands) {
    int lowest = std::numeric_limits<int>::max(); // the place of the last bit that is set
    int highest = std::numeric_limits<int>::min();
    for (const double value : values) {
        const auto [mantissa, exponent] = parts_of(value);
        if (mantissa == 0)
            continue;
        lowest = std::min(lowest, exponent + std::countr_zero(mantissa));
        highest = std::max(highest, exponent + static_cast<int>(std::bit_width(mantissa)));
    }
    if (lowest > highest) // all are 0
        return;
    exponent_ = lowest;
    // A sum is below summands 2^highest, a difference of two within twice that, and a sign.
    fits_ = highest - lowest + static_cast<int>(std::bit_width(summands)) + 1 <= units::wide_bits;
}

Wide Multiples::of(double value) const {
    const auto [mantissa, exponent] = parts_of(value);
    if (mantissa == 0)
        return 0;
    const int shift = exponent - exponent_;
    const Wide magnitude =
        shift >= 0 ? Wide{mantissa} << shift : Wide{mantissa >> -shift}; // bits that are 0
    return value < 0 ? Wide{0} - magnitude : magnitude;
}

} // namespace carve
