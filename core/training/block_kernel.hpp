// Inner loops of robust training over 64 rows at once, compiled once per instruction set.
//
// block_kernel_code.cpp is portable code that CMake compiles several times with other flags; the
// best version for this processor is chosen when it is first needed. All versions return the same
// bits: every lane goes through the same IEEE operations in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/gradient_sums.hpp"

namespace carve {

// A split of a tree, as tests of biased codes (see RowBlocks):
//   the left child is in reach iff   code <= left_limit;
//   the right child is in reach iff  code >= right_limit.
// Some codes are translated before: plus 1 where missing values go left, so that their code wraps
// round to the lowest; by a table for a set of categories: 0 where the left child is in reach,
// else 1.
struct BlockTest {
    std::uint32_t feature;
    std::int32_t set; // first byte of 256 in the sets, or -1
    std::int8_t left_limit;
    std::int8_t right_limit;
    std::uint8_t is_translated;
    std::uint8_t leaf_children; // bit 0: the left child is a leaf; bit 1: the right one
    std::uint8_t left;          // number of the split or of the leaf
    std::uint8_t right;
};

// A tree of at least one split.
struct BlockTree {
    const BlockTest* tests;
    const std::uint8_t* sets;
    int splits;
    const std::uint8_t* low_ranks;  // per leaf: its rank by ascending values
    const std::uint8_t* high_ranks; // per leaf: its rank by descending values
};

// A block of rows: biased code of row i and feature f at codes[f * stride + i].
struct BlockCodes {
    const std::int8_t* codes;
    std::size_t stride;
};

// Candidate splits of one feature. down[j] and up[j] are the packed sums of the rows on the left
// side of candidate j that the attacker pushes down and up. Values are measured from `origin`, the
// value of the leaf to be split, so that a gain is no difference of large numbers:
//   the best value of a side = origin - G' / (H + l2), with G' = soft(G, l1) + (H + l2) origin.
struct GainInput {
    const std::uint64_t* down;
    const std::uint64_t* up;
    int count; // of candidates: a multiple of 16, at most most_positions
    SumFormat format;
    float rows_per_hessian; // 0 if rows are counted
    float total_gradient;
    float total_hessian;
    float total_rows;
    float l1;
    float l2;        // of each side
    float origin_l2; // of both sides, less that of the leaf
    float origin;
    float low;  // bounds of the values, less the origin
    float high; //
    float sign; // 1: the left side is to have the lower value; -1: the higher one
    float least_hessian;
    float least_rows;
};
constexpr int most_positions = 256;

// The first candidate with the largest gain, which is twice what the loss falls; 0: no candidate is
// allowed and lowers it.
struct SplitGain {
    float gain;
    int position;
};

// The rows of one block that are in a leaf: a bit per row. `place` is the block's position among
// those that the tree is grown on.
struct BlockRows {
    std::uint64_t mask;
    std::uint32_t block;
    std::uint32_t place;
};

// Where a split sends the rows of a leaf. Rows that the attacker pushes down stay on the left iff
// code + shift <= down_limit, the others iff code + shift <= up_limit; with a set, all rows whose
// code goes left (see BlockTest).
struct RowSplit {
    const std::int8_t* column; // of all blocks
    const std::uint64_t* down; // per place: rows that the attacker pushes down
    const std::uint8_t* set;   // or null
    std::int8_t down_limit;
    std::int8_t up_limit;
    std::int8_t shift;
};

struct BlockKernel {
    const char* name;
    // Rank, by ascending values, of the leaf in reach that has the lowest and the highest value,
    // for each of 64 rows; null: not needed.
    void (*find_worst)(const BlockTree& tree, const BlockCodes& block, std::uint8_t* low,
                       std::uint8_t* high);
    // sums[i] += values[ranks[i]] for 64 rows; there are `count` values, and memory for 32.
    void (*add_values)(const std::uint8_t* ranks, const float* values, int count, float* sums);
    // x[i] = exp(x[i]) for 64 numbers, to about 2 units in the last place; at most exp(88).
    void (*exponentials)(float* x);
    // Packs 64 pairs (gradient, hessian) into whole numbers with a random dither in [0, 1):
    //   packed[i] = floor(g / g_unit + e) << g_shift | floor(h / h_unit + e) << h_shift | one
    void (*quantise)(const float* gradient, const float* hessian, const SumFormat& format,
                     std::uint32_t seed, std::uint64_t* packed);
    SplitGain (*best_gain)(const GainInput& input);
    // Keeps the rows on the left in rows[0 … kept) and writes the others to right[0 … moved);
    // blocks without a row are left out.
    struct Moved {
        std::size_t kept;
        std::size_t moved;
        std::int64_t rows;
    };
    Moved (*split_rows)(const RowSplit& split, BlockRows* rows, std::size_t count,
                        BlockRows* right);
    // Writes the numbers of the rows, 64 per place, in lists of those that the attacker pushes down
    // and up, each with room for all rows.
    void (*list_rows)(const BlockRows* rows, std::size_t count, const std::uint64_t* down,
                      std::uint32_t* down_list, std::uint32_t* up_list, std::size_t* sizes);
    // A bit for each of 64 codes: whether it differs from this one.
    std::uint64_t (*unequal)(const std::int8_t* codes, std::int8_t code);
};

// The versions that this processor can run, the fastest first.
std::vector<const BlockKernel*> supported_kernels();
// The fastest version, or the one that CARVEGBM_ISA names (sse2, avx2 or avx512).
const BlockKernel& block_kernel();

} // namespace carve
