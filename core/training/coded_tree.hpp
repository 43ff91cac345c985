// A tree over codes (see RowBlocks).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace carve {

// Codes of one feature.
class CodeSet {
  public:
    void add(int code) { word(code) |= std::uint64_t{1} << (code % 64); }
    bool holds(int code) const {
        return (words_[static_cast<std::size_t>(code) / 64] >> (code % 64) & 1) != 0;
    }

  private:
    std::uint64_t& word(int code) { return words_[static_cast<std::size_t>(code) / 64]; }
    std::array<std::uint64_t, 4> words_{};
};

// Values up to threshold number `position` go left, or, at a split by a set, categories whose codes
// it holds. A child is a split, or ~i for leaf i.
struct CodedTree {
    struct Split {
        std::int32_t feature;
        std::int32_t position;
        std::int32_t left;
        std::int32_t right;
        double gain;
        std::uint8_t missing_left = 0; // whether missing values go left
        std::int32_t set = -1;         // in `sets`; -1: by position
    };
    std::vector<CodeSet> sets;
    std::vector<Split> splits;
    std::vector<double> values;     // per leaf
    std::vector<double> hessians;   // per leaf: of its rows
    std::vector<std::int64_t> rows; // per leaf: how many the attacker pushes into it
};

} // namespace carve
