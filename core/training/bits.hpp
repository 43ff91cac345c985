// Random numbers that depend on a seed and a place only.
#pragma once

#include <cstdint>

namespace carve {

// A number that looks random, for every seed and place.
inline std::uint64_t scrambled(std::uint64_t seed, std::uint64_t place) {
    std::uint64_t z = seed + 0x9E3779B97F4A7C15U * (place + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

} // namespace carve
