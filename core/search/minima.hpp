// The least of any run of numbers, in a moment, after n log n operations.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace carve {

class Minima {
  public:
    void build(const std::int64_t* numbers, std::int32_t count) {
        count_ = count;
        const int levels = std::bit_width(static_cast<std::uint32_t>(count));
        least_.resize(static_cast<std::size_t>(levels) * count);
        std::copy(numbers, numbers + count, least_.begin());
        for (int level = 1; level < levels; ++level) {
            const std::int64_t* const from = row(level - 1);
            std::int64_t* const to = least_.data() + static_cast<std::size_t>(level) * count;
            const std::int32_t half = 1 << (level - 1);
            for (std::int32_t i = 0; i + 2 * half <= count; ++i)
                to[i] = std::min(from[i], from[i + half]);
        }
    }
    // Of numbers first to last, both included.
    std::int64_t least(std::int32_t first, std::int32_t last) const {
        const int level = std::bit_width(static_cast<std::uint32_t>(last - first + 1)) - 1;
        const std::int64_t* const of = row(level);
        return std::min(of[first], of[last + 1 - (1 << level)]);
    }

  private:
    const std::int64_t* row(int level) const {
        return least_.data() + static_cast<std::size_t>(level) * count_;
    }
    std::int32_t count_ = 0;
    std::vector<std::int64_t> least_; // level k: of every 2^k neighbours
};

} // namespace carve
