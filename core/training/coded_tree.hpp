// A tree over codes, and where the attacker can push rows in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "running/parallel.hpp"
#include "training/codes.hpp"

namespace carve {

// A tree over codes: code <= position goes left. A child is a split, or ~i for leaf i.
struct CodedTree {
    struct Split {
        std::int32_t feature;
        std::int32_t position;
        std::int32_t left;
        std::int32_t right;
        double gain;
    };
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
