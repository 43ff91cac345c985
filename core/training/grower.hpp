// The grower: one regression tree whose splits see the attacker.
//
// Every row has a side: `down` where the attacker wants its score low (it is of the positive
// class), up where it wants it high. A split at threshold i of feature f comes in two orientations.
// Where its left side is to score lower, the attacker pushes rows that it wants low to the left as
// far as it can, to the code `low`, and the others to the right, to `high`; the other way round
// where the left side is to score higher. A split counts only if its two values agree with its
// orientation, and rows are counted, and handed on, where the attacker pushes them.
//
//   value of a leaf = -soft(G, l1) / (H + l2)
//   gain = sum over both sides of  soft(G, l1)^2 / (H + l2)  -  the same of the leaf to be split
//
// The leaf with the largest gain is split first. Of equal gains the first counts: by feature, then
// left lower before left higher, then by threshold; of equal leaves the older.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "running/joining.hpp"
#include "training/coded_tree.hpp"
#include "training/codes.hpp"

namespace carve {

struct GrowerOptions {
    int leaves = 32;             // at most
    int depth = 0;               // splits above a leaf, at most; 0: any number
    std::int64_t least_rows = 1; // per leaf
    double least_hessian = 0;    // per leaf
    double l1 = 0;
    double l2 = 0;
    double least_gain = 0;
    double feature_share = 1; // of the features that may be used: how many each leaf looks at
    bool drawn = false;       // each leaf looks at one threshold per feature, drawn at random
    bool ordered = false;     // values below a split agree with its orientation all the way down
    std::uint64_t seed = 0;   // of the features and thresholds looked at
};

// What the attacker's target rows are, and how the loss leans at each.
struct GrowerRows {
    std::span<const std::uint8_t> down;     // per row of the codes
    std::span<const double> gradient;       // per row of the codes
    std::span<const double> hessian;        // per row of the codes, >= 0
    std::span<const std::int32_t> used;     // the rows to grow on, ascending
    std::span<const std::uint8_t> features; // per feature: may it be used?
};

// What the rows are a part of, where several processes grow one tree.
struct Whole {
    std::int64_t rows;       // of the codes of all processes
    double largest_gradient; // of all these rows: the largest |gradient|
    double largest_hessian;
    Join join;
};

// False from `go_on`, which is called between splits, gives up: the tree is what it is by then.
//
// With `whole`, which is not copied, the processes call this with the same options, features and
// thresholds of codes, and each with its own rows, possibly none. All of them get
//
//   the tree of one process that has all rows, bit for bit.
CodedTree grow_tree(const Codes& codes, const GrowerRows& rows, const GrowerOptions& options,
                    int threads, const std::function<bool()>& go_on, const Whole* whole = nullptr);

} // namespace carve
