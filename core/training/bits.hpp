// Random numbers that depend on a seed and a place only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace carve {

// A number that looks random, for every seed and place.
inline std::uint64_t scrambled(std::uint64_t seed, std::uint64_t place) {
    std::uint64_t z = seed + 0x9E3779B97F4A7C15U * (place + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

// Appends a random fraction of the numbers in [first, end), but at least one, ascending.
inline void draw(double fraction, std::size_t first, std::size_t end, std::uint64_t seed,
                 std::vector<std::uint32_t>& drawn) {
    auto wanted = static_cast<double>(
        std::max<long long>(1, std::llround(fraction * static_cast<double>(end - first))));
    for (std::size_t i = first; i < end; ++i) {
        const double random = static_cast<double>(scrambled(seed, i) >> 11) * 0x1p-53;
        if (random * static_cast<double>(end - i) < wanted) {
            drawn.push_back(static_cast<std::uint32_t>(i));
            wanted -= 1;
        }
    }
}

} // namespace carve
