// A tree over codes, and where the attacker can push rows in it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "running/parallel.hpp"
#include "training/codes.hpp"

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

// A tree over codes: code <= position goes left, or, at a split by a set, a code that it holds. A
// child is a split, or ~i for leaf i.
struct CodedTree {
    struct Split {
        std::int32_t feature;
        std::int32_t position;
        std::int32_t left;
        std::int32_t right;
        double gain;
        std::uint8_t missing_left = 0; // where the code of missing values goes
        std::int32_t set = -1;         // in `sets`; -1: by position

        bool goes_left(const CodedTree& tree, int code, int missing_code) const {
            return set >= 0               ? tree.sets[static_cast<std::size_t>(set)].holds(code)
                   : code == missing_code ? missing_left != 0
                                          : code <= position;
        }
    };
    std::vector<CodeSet> sets;
    std::vector<Split> splits;
    std::vector<double> values;     // per leaf
    std::vector<double> hessians;   // per leaf: of its rows
    std::vector<std::int64_t> rows; // per leaf: how many the attacker pushes into it
};

// The lowest and the highest of `values`, one per leaf, that the attacker can push each row to.
// False iff `watch` cancelled.
bool reachable_values(const CodedTree& tree, const Codes& codes, std::span<const double> values,
                      double* lowest, double* highest, int threads, const WatchFunction& watch);

} // namespace carve
