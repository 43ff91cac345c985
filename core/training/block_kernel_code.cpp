// The loops of block_kernel.hpp, for the instruction set that the compiler's flags allow.
//
// CARVE_KERNEL is the namespace of this version. No function of another header is called or defined
// inline here: the linker could keep the copy compiled for the newest instruction set for everyone.
#include <cstring>

#include "training/block_kernel.hpp"

#define CARVE_TEXT_OF(name) #name
#define CARVE_TEXT(name) CARVE_TEXT_OF(name)

namespace carve::CARVE_KERNEL {

namespace {

constexpr int block_size = 64;
#if defined(__AVX2__)
constexpr int width = 32; // also with AVX-512, where comparisons of 64 bytes gain nothing
#else
constexpr int width = 16;
#endif
constexpr int parts = block_size / width;
typedef std::int8_t Codes __attribute__((vector_size(width)));
typedef std::uint8_t Mask __attribute__((vector_size(width)));

struct Masks {
    Mask part[parts];
};

// A mask per split holds 0 in the rows that reach it and 255 in the others, so that
//   min over leaves of (mask | rank)   is the lowest rank in reach.
// The highest value in reach is the one of lowest rank by descending values.
template <bool find_low, bool find_high> struct Search {
    const BlockTree& tree;
    Masks low;
    Masks high;
    Masks reach[255];

    explicit Search(const BlockTree& given) : tree(given) {
        for (int p = 0; p < parts; ++p) {
            low.part[p] = high.part[p] = ~Mask{};
            reach[0].part[p] = Mask{};
        }
    }

    void visit(const Masks& mask, bool is_leaf, std::uint8_t child) {
        if (!is_leaf) {
            reach[child] = mask;
            return;
        }
        const Mask low_rank = Mask{} + tree.low_ranks[child];
        const Mask high_rank = Mask{} + tree.high_ranks[child];
        for (int p = 0; p < parts; ++p) {
            const Mask by_low = mask.part[p] | low_rank;
            const Mask by_high = mask.part[p] | high_rank;
            if (find_low)
                low.part[p] = by_low < low.part[p] ? by_low : low.part[p];
            if (find_high)
                high.part[p] = by_high < high.part[p] ? by_high : high.part[p];
        }
    }

    void run(const BlockCodes& block) {
        for (int i = 0; i < tree.splits; ++i) {
            const BlockTest& test = tree.tests[i];
            const std::int8_t* const column = block.codes + test.feature * block.stride;
            Masks left;
            Masks right;
            if (test.set >= 0) {
                const std::uint8_t* const set = tree.sets + test.set;
                alignas(width) std::uint8_t outside[block_size];
                for (int k = 0; k < block_size; ++k)
                    outside[k] = set[static_cast<std::uint8_t>(column[k]) ^ 128];
                for (int p = 0; p < parts; ++p) {
                    Mask goes_right;
                    std::memcpy(&goes_right, outside + p * width, width);
                    left.part[p] = reach[i].part[p] | goes_right;
                    right.part[p] = reach[i].part[p] | ~goes_right;
                }
            } else {
                const Codes left_limit = Codes{} + test.left_limit;
                const Codes right_limit = Codes{} + test.right_limit;
                const Codes shift = Codes{} + test.shift;
                for (int p = 0; p < parts; ++p) {
                    Codes codes;
                    std::memcpy(&codes, column + p * width, width);
                    codes += shift;
                    left.part[p] = reach[i].part[p] | (Mask)(codes > left_limit);
                    right.part[p] = reach[i].part[p] | (Mask)(codes <= right_limit);
                }
            }
            visit(left, (test.leaf_children & 1) != 0, test.left);
            visit(right, (test.leaf_children & 2) != 0, test.right);
        }
    }
};

template <bool find_low, bool find_high>
void search(const BlockTree& tree, const BlockCodes& block, std::uint8_t* low, std::uint8_t* high) {
    Search<find_low, find_high> found(tree);
    found.run(block);
    if (find_low)
        std::memcpy(low, &found.low, block_size);
    if (find_high) {
        for (int p = 0; p < parts; ++p)
            found.high.part[p] = static_cast<std::uint8_t>(tree.splits) - found.high.part[p];
        std::memcpy(high, &found.high, block_size);
    }
}

void find_worst(const BlockTree& tree, const BlockCodes& block, std::uint8_t* low,
                std::uint8_t* high) {
    if (low != nullptr && high != nullptr)
        search<true, true>(tree, block, low, high);
    else if (low != nullptr)
        search<true, false>(tree, block, low, high);
    else
        search<false, true>(tree, block, low, high);
}

void add_values(const std::uint8_t* ranks, const float* values, float* sums) {
    for (int i = 0; i < block_size; ++i)
        sums[i] += values[ranks[i]];
}

// exp(x) = 2^n exp(r) with |r| <= ln(2) / 2, and a polynomial for exp(r) (Cephes).
void exponentials(float* x) {
    constexpr float to_whole = 12582912.0F; // 1.5 * 2^23: adding it rounds to a whole number
    for (int i = 0; i < block_size; ++i) {
        float a = x[i] < 87.0F ? x[i] : 87.0F;
        a = a > -87.0F ? a : -87.0F;
        const float n = (a * 1.44269504F + to_whole) - to_whole;
        const float r = (a - n * 0.693359375F) + n * 2.12194440e-4F;
        float p = 1.9875691500e-4F;
        p = p * r + 1.3981999507e-3F;
        p = p * r + 8.3334519073e-3F;
        p = p * r + 4.1665795894e-2F;
        p = p * r + 1.6666665459e-1F;
        p = p * r + 5.0000001201e-1F;
        p = p * r * r + r + 1.0F;
        const std::uint32_t power = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127)
                                    << 23;
        x[i] = p * __builtin_bit_cast(float, power);
    }
}

void quantise(const float* gradient, const float* hessian, float g_scale, float h_scale,
              int g_shift, int h_shift, std::uint64_t one, std::uint32_t seed,
              std::uint64_t* packed) {
    std::int32_t g[block_size];
    std::int32_t h[block_size];
    for (int i = 0; i < block_size; ++i) {
        const std::uint32_t bits =
            (seed + static_cast<std::uint32_t>(i) * 0x9E3779B9U) * 0x85EBCA6BU;
        const float dither = static_cast<float>(static_cast<std::int32_t>(bits >> 8)) * 0x1p-24F;
        g[i] = static_cast<std::int32_t>(gradient[i] * g_scale + dither);
        h[i] = static_cast<std::int32_t>(hessian[i] * h_scale + dither);
    }
    for (int i = 0; i < block_size; ++i)
        packed[i] = static_cast<std::uint64_t>(static_cast<std::uint32_t>(g[i])) << g_shift |
                    static_cast<std::uint64_t>(static_cast<std::uint32_t>(h[i])) << h_shift | one;
}

float soft(float x, float l1) {
    const float size = x < 0 ? -x : x;
    const float rest = size > l1 ? size - l1 : 0.0F;
    return x < 0 ? -rest : rest;
}

float clamp(float x, float low, float high) {
    x = x > low ? x : low;
    return x < high ? x : high;
}

template <bool has_l1> void find_gains(const GainInput& given, float* gain) {
    const GainInput in = given; // a copy, which stores to gain cannot change
    const float whole = soft(in.total_gradient, in.l1);
    for (int j = 0; j < in.count; ++j) {
        const auto g_down = static_cast<std::int32_t>(in.down[j] >> in.g_shift);
        const auto g_up = static_cast<std::int32_t>(in.up[j] >> in.g_shift);
        const std::uint64_t both = in.down[j] + in.up[j];
        const auto hessian = static_cast<std::int32_t>(both >> in.h_shift & in.h_mask);
        const auto rows = static_cast<std::int32_t>(both & in.row_mask);
        const float h_left = static_cast<float>(hessian) * in.h_unit;
        const float h_right = in.total_hessian - h_left;
        const float n_left = static_cast<float>(rows) + h_left * in.rows_per_hessian;
        const float n_right = in.total_rows - n_left;
        float g_left = static_cast<float>(g_up - g_down) * in.g_unit;
        float g_right = in.total_gradient - g_left;
        float constant = in.l2 * in.origin * in.origin;
        if (has_l1) {
            g_left = soft(g_left, in.l1);
            g_right = soft(g_right, in.l1);
            constant -= 2.0F * in.origin * (whole - g_left - g_right);
        }
        const float k_left = h_left + in.l2;
        const float k_right = h_right + in.l2;
        g_left += k_left * in.origin;
        g_right += k_right * in.origin;
        const float v_left = -g_left / k_left;
        const float v_right = -g_right / k_right;
        const float left = clamp(v_left, in.low, in.high);
        const float right = clamp(v_right, in.low, in.high);
        const float fall = -left * (2.0F * g_left + k_left * left) -
                           right * (2.0F * g_right + k_right * right) - constant;
        const bool allowed = (in.sign * (v_right - v_left) > 0.0F) & (h_left >= in.least_hessian) &
                             (h_right >= in.least_hessian) & (n_left >= in.least_rows) &
                             (n_right >= in.least_rows) & (fall > 0.0F);
        gain[j] = allowed ? fall : 0.0F;
    }
}

SplitGain best_gain(const GainInput& input) {
    float gain[most_positions];
    if (input.l1 > 0)
        find_gains<true>(input, gain);
    else
        find_gains<false>(input, gain);
    // Floats that are not negative are in the order of their bits.
    std::int32_t bits[most_positions];
    std::memcpy(bits, gain, sizeof(float) * static_cast<std::size_t>(input.count));
    std::int32_t most = 0;
    for (int j = 0; j < input.count; ++j)
        most = bits[j] > most ? bits[j] : most;
    int position = 0;
    while (bits[position] != most)
        ++position;
    return {gain[position], position};
}

} // namespace

extern const BlockKernel kernel;
const BlockKernel kernel{
    CARVE_TEXT(CARVE_KERNEL), find_worst, add_values, exponentials, quantise, best_gain};

} // namespace carve::CARVE_KERNEL
