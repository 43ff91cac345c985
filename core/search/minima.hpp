// The least of any run of numbers, in a moment, after about three operations per number.
//
// Numbers are in blocks of 16. A run within a block is looked through; any other is the end of one
// block, the beginning of another, and whole blocks between them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace carve {

class Minima {
  public:
    // The numbers must stay where they are.
    void build(const std::int64_t* numbers, std::int32_t count) {
        numbers_ = numbers;
        from_begin_.resize(static_cast<std::size_t>(count));
        to_end_.resize(static_cast<std::size_t>(count));
        blocks_ = (count + size - 1) / size;
        const int levels = std::bit_width(static_cast<std::uint32_t>(blocks_));
        least_.resize(static_cast<std::size_t>(levels) * blocks_);
        for (std::int32_t block = 0; block < blocks_; ++block) {
            const std::int32_t begin = block * size;
            const std::int32_t end = std::min(begin + size, count);
            from_begin_[begin] = numbers[begin];
            for (std::int32_t i = begin + 1; i < end; ++i)
                from_begin_[i] = std::min(from_begin_[i - 1], numbers[i]);
            to_end_[end - 1] = numbers[end - 1];
            for (std::int32_t i = end - 1; i-- > begin;)
                to_end_[i] = std::min(to_end_[i + 1], numbers[i]);
            least_[block] = to_end_[begin];
        }
        for (int level = 1; level < levels; ++level) {
            const std::int64_t* const from = row(level - 1);
            std::int64_t* const to = least_.data() + static_cast<std::size_t>(level) * blocks_;
            const std::int32_t half = 1 << (level - 1);
            for (std::int32_t i = 0; i + 2 * half <= blocks_; ++i)
                to[i] = std::min(from[i], from[i + half]);
        }
    }
    // Of numbers first to last, both included.
    std::int64_t least(std::int32_t first, std::int32_t last) const {
        const std::int32_t begin = first / size + 1; // whole blocks: begin, …, end - 1
        const std::int32_t end = last / size;
        if (begin > end)
            return *std::min_element(numbers_ + first, numbers_ + last + 1);
        const std::int64_t ends = std::min(to_end_[first], from_begin_[last]);
        if (begin == end)
            return ends;
        const int level = std::bit_width(static_cast<std::uint32_t>(end - begin)) - 1;
        const std::int64_t* const of = row(level);
        return std::min({ends, of[begin], of[end - (1 << level)]});
    }

  private:
    static constexpr std::int32_t size = 16;
    const std::int64_t* row(int level) const {
        return least_.data() + static_cast<std::size_t>(level) * blocks_;
    }
    const std::int64_t* numbers_ = nullptr;
    std::int32_t blocks_ = 0;
    std::vector<std::int64_t> from_begin_; // per number: the least of its block up to it
    std::vector<std::int64_t> to_end_;     // and from it on
    std::vector<std::int64_t> least_;      // level k: of every 2^k neighbouring blocks
};

} // namespace carve
