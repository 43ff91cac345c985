// Tricks with 64 bits: numbers that look random, and eight bytes at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace carve {

// A number that looks random, for every seed and place.
inline std::uint64_t scrambled(std::uint64_t seed, std::uint64_t place) {
    std::uint64_t z = seed + 0x9E3779B97F4A7C15U * (place + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

// The highest bit of every byte that is not 0.
inline std::uint64_t nonzero_bytes(std::uint64_t eight) {
    constexpr std::uint64_t low_bits = 0x7F7F7F7F7F7F7F7FU;
    return (((eight & low_bits) + low_bits) | eight) & ~low_bits;
}

// Of the first byte, as it is stored, whose highest bit is set; there is one.
inline std::size_t byte_number(std::uint64_t highest_bits) {
    static_assert(std::endian::native == std::endian::little);
    return static_cast<unsigned>(std::countr_zero(highest_bits)) / 8;
}

} // namespace carve
