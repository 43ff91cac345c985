// Inner loops of robust training over 64 rows at once, compiled once per instruction set.
//
// block_kernel_code.cpp is portable code that CMake compiles several times with other flags; the
// best version for this processor is chosen when it is first needed. All versions return the same
// bits: every lane goes through the same IEEE operations in the same order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace carve {

// A split of a tree, as tests of biased codes (see RowBlocks):
//   the left child is in reach iff   code + shift <= left_limit,   as bytes that wrap round;
//   the right child is in reach iff  code + shift >  right_limit.
// With shift 1 the code of missing values wraps round to the lowest, so that they go left.
struct BlockTest {
    std::uint32_t feature;
    std::int32_t set; // first byte of 256 in the sets: 0 where a code goes left, else 255; or -1
    std::int8_t left_limit;
    std::int8_t right_limit;
    std::int8_t shift;
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

// Candidate splits of one feature. down[j] and up[j] are the packed sums (see GradientSums) of the
// rows on the left side of candidate j that the attacker pushes down and up. Values are measured
// from `origin`, the value of the leaf to be split, so that a gain is no difference of large
// numbers: with G' = soft(G, l1) + (H + l2) origin, the best value of a side is origin - G'/(H +
// l2).
struct GainInput {
    const std::uint64_t* down;
    const std::uint64_t* up;
    int count; // of candidates: a multiple of 16, at most most_positions
    int g_shift;
    int h_shift;
    std::uint64_t h_mask;
    std::uint64_t row_mask; // 0: rows are not counted, but estimated by rows_per_hessian
    float g_unit;
    float h_unit;
    float rows_per_hessian;
    float total_gradient;
    float total_hessian;
    float total_rows;
    float l1;
    float l2;
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

struct BlockKernel {
    const char* name;
    // Rank, by ascending values, of the leaf in reach that has the lowest and the highest value,
    // for each of 64 rows; null: not needed.
    void (*find_worst)(const BlockTree& tree, const BlockCodes& block, std::uint8_t* low,
                       std::uint8_t* high);
    // sums[i] += values[ranks[i]] for 64 rows.
    void (*add_values)(const std::uint8_t* ranks, const float* values, float* sums);
    // x[i] = exp(x[i]) for 64 numbers, to about 2 units in the last place; at most exp(88).
    void (*exponentials)(float* x);
    // Packs 64 pairs (gradient, hessian) into whole numbers with a random dither in [0, 1):
    //   packed[i] = floor(g g_scale + e) << g_shift | floor(h h_scale + e) << h_shift | one
    void (*quantise)(const float* gradient, const float* hessian, float g_scale, float h_scale,
                     int g_shift, int h_shift, std::uint64_t one, std::uint32_t seed,
                     std::uint64_t* packed);
    SplitGain (*best_gain)(const GainInput& input);
};

// The version for this processor, or the one that CARVEGBM_ISA names (sse2, avx2 or avx512).
const BlockKernel& block_kernel();

} // namespace carve
