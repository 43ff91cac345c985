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

// Lowers `found` to the rank in the rows that reach the leaf. A mask holds 0 in these rows and 255
// in the others, so that   mask | rank   is the rank or 255.
inline void lower(Masks& found, const Masks& mask, std::uint8_t rank) {
    const Mask own = Mask{} + rank;
    for (int p = 0; p < parts; ++p) {
        const Mask reached = mask.part[p] | own;
        found.part[p] = reached < found.part[p] ? reached : found.part[p];
    }
}

// Codes that say what the limits of a test are about, see BlockTest.
__attribute__((noinline)) void translate(const std::int8_t* column, const BlockTest& test,
                                         const std::uint8_t* sets, std::int8_t* translated) {
    if (test.set < 0)
        for (int i = 0; i < block_size; ++i)
            translated[i] = static_cast<std::int8_t>(column[i] + 1);
    else
        for (int i = 0; i < block_size; ++i)
            translated[i] = static_cast<std::int8_t>(
                sets[test.set + (static_cast<std::uint8_t>(column[i]) ^ 128)]);
}

// The lowest rank in reach by ascending values, and by descending values.
template <bool find_low, bool find_high>
void search(const BlockTree& tree, const BlockCodes& block, std::uint8_t* low_out,
            std::uint8_t* high_out) {
    Masks low;
    Masks high;
    Masks reach[255]; // per split
    for (int p = 0; p < parts; ++p) {
        low.part[p] = high.part[p] = ~Mask{};
        reach[0].part[p] = Mask{};
    }
    std::int8_t translated[block_size];
    const BlockTest* const tests = tree.tests; // copies, which no store can change
    const std::uint8_t* const low_ranks = tree.low_ranks;
    const std::uint8_t* const high_ranks = tree.high_ranks;
    const std::int8_t* const first = block.codes;
    const std::size_t stride = block.stride;
    const int splits = tree.splits;
    for (int i = 0; i < splits; ++i) {
        const BlockTest& test = tests[i];
        const std::int8_t* column = first + test.feature * stride;
        if (test.is_translated != 0) {
            translate(column, test, tree.sets, translated);
            column = translated;
        }
        const Codes left_limit = Codes{} + test.left_limit;
        const Codes right_limit = Codes{} + test.right_limit;
        Masks left;
        Masks right;
        for (int p = 0; p < parts; ++p) {
            Codes codes;
            std::memcpy(&codes, column + p * width, width);
            left.part[p] = reach[i].part[p] | (Mask)(codes > left_limit);
            right.part[p] = reach[i].part[p] | (Mask)(right_limit > codes);
        }
        if ((test.leaf_children & 1) == 0) {
            reach[test.left] = left;
        } else {
            if (find_low)
                lower(low, left, low_ranks[test.left]);
            if (find_high)
                lower(high, left, high_ranks[test.left]);
        }
        if ((test.leaf_children & 2) == 0) {
            reach[test.right] = right;
        } else {
            if (find_low)
                lower(low, right, low_ranks[test.right]);
            if (find_high)
                lower(high, right, high_ranks[test.right]);
        }
    }
    // Part by part: a copy of the whole would keep it in memory all the time.
    for (int p = 0; p < parts; ++p) {
        const Mask from_below = low.part[p];
        const Mask from_above = static_cast<std::uint8_t>(splits) - high.part[p];
        if (find_low)
            std::memcpy(low_out + p * width, &from_below, width);
        if (find_high)
            std::memcpy(high_out + p * width, &from_above, width);
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

void add_values(const std::uint8_t* ranks, const float* values, int count, float* sums) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef float Floats __attribute__((vector_size(64)));
    typedef std::int32_t Indices __attribute__((vector_size(64)));
    if (count <= 32) { // two registers hold all values
        Floats first;
        Floats second;
        std::memcpy(&first, values, sizeof first);
        std::memcpy(&second, values + 16, sizeof second);
        std::int32_t wide[block_size];
        for (int i = 0; i < block_size; ++i)
            wide[i] = ranks[i];
        for (int i = 0; i < block_size; i += 16) {
            Indices indices;
            std::memcpy(&indices, wide + i, sizeof indices);
            Floats part;
            std::memcpy(&part, sums + i, sizeof part);
            part += __builtin_shuffle(first, second, indices);
            std::memcpy(sums + i, &part, sizeof part);
        }
        return;
    }
#endif
    (void)count;
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

void quantise(const float* gradient, const float* hessian, const SumFormat& format,
              std::uint32_t seed, std::uint64_t* packed) {
    const auto g_scale = static_cast<float>(1 / format.g_unit);
    const auto h_scale = static_cast<float>(1 / format.h_unit);
    const int g_shift = format.g_shift;
    const int h_shift = format.h_shift;
    const std::uint64_t one = format.row_mask == 0 ? 0 : 1;
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
    const SumFormat& format = in.format;
    const auto g_unit = static_cast<float>(format.g_unit);
    const auto h_unit = static_cast<float>(format.h_unit);
    const float whole = soft(in.total_gradient, in.l1);
    for (int j = 0; j < in.count; ++j) {
        const auto g_down = static_cast<std::int32_t>(in.down[j] >> format.g_shift);
        const auto g_up = static_cast<std::int32_t>(in.up[j] >> format.g_shift);
        const std::uint64_t both = in.down[j] + in.up[j];
        const auto hessian = static_cast<std::int32_t>(both >> format.h_shift & format.h_mask);
        const auto rows = static_cast<std::int32_t>(both & format.row_mask);
        const float h_left = static_cast<float>(hessian) * h_unit;
        const float h_right = in.total_hessian - h_left;
        const float n_left = static_cast<float>(rows) + h_left * in.rows_per_hessian;
        const float n_right = in.total_rows - n_left;
        float g_left = static_cast<float>(g_up - g_down) * g_unit;
        float g_right = in.total_gradient - g_left;
        float constant = in.origin_l2 * in.origin * in.origin;
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

// The highest bit of every byte.
std::uint64_t high_bits(const Mask& mask) {
#if defined(__AVX2__)
    typedef char Bytes __attribute__((vector_size(32)));
    return static_cast<std::uint32_t>(__builtin_ia32_pmovmskb256((Bytes)mask));
#elif defined(__SSE2__)
    typedef char Bytes __attribute__((vector_size(16)));
    return static_cast<std::uint32_t>(__builtin_ia32_pmovmskb128((Bytes)mask));
#else
    std::uint64_t bits = 0;
    for (int i = 0; i < width; ++i)
        bits |= static_cast<std::uint64_t>(mask[i] >> 7) << i;
    return bits;
#endif
}

std::uint64_t rows_at_most(const std::int8_t* codes, std::int8_t limit, std::int8_t shift) {
    std::uint64_t bits = 0;
    for (int p = 0; p < parts; ++p) {
        Codes part;
        std::memcpy(&part, codes + p * width, width);
        bits |= high_bits((Mask)(part + shift <= limit)) << (p * width);
    }
    return bits;
}

std::uint64_t unequal(const std::int8_t* codes, std::int8_t code) {
    std::uint64_t bits = 0;
    for (int p = 0; p < parts; ++p) {
        Codes part;
        std::memcpy(&part, codes + p * width, width);
        bits |= high_bits((Mask)(part != code)) << (p * width);
    }
    return bits;
}

BlockKernel::Moved split_rows(const RowSplit& split, BlockRows* rows, std::size_t count,
                              BlockRows* right) {
    constexpr std::size_t ahead = 8;
    BlockKernel::Moved found{0, 0, 0};
    for (std::size_t k = 0; k < count; ++k) {
        if (k + ahead < count)
            __builtin_prefetch(split.column +
                               static_cast<std::size_t>(rows[k + ahead].block) * block_size);
        const std::uint64_t mask = rows[k].mask;
        const std::uint32_t block = rows[k].block;
        const std::int8_t* const codes =
            split.column + static_cast<std::size_t>(block) * block_size;
        std::uint64_t left = 0;
        if (split.set != nullptr) {
            for (int i = 0; i < block_size; ++i)
                left |= static_cast<std::uint64_t>(
                            split.set[static_cast<std::uint8_t>(codes[i]) ^ 128] == 0)
                        << i;
            left &= mask;
        } else {
            const std::uint64_t down = mask & split.down[rows[k].place];
            if (down != 0)
                left = down & rows_at_most(codes, split.down_limit, split.shift);
            if (down != mask)
                left |= (mask ^ down) & rows_at_most(codes, split.up_limit, split.shift);
        }
        const std::uint32_t place = rows[k].place;
        rows[found.kept] = {left, block, place};
        found.kept += left != 0 ? 1 : 0;
        right[found.moved] = {mask ^ left, block, place};
        found.moved += mask != left ? 1 : 0;
        found.rows += __builtin_popcountll(mask ^ left);
    }
    return found;
}

std::uint32_t* list_bits(std::uint64_t mask, std::uint32_t first, std::uint32_t* list) {
    if (mask == ~std::uint64_t{0}) {
        for (std::uint32_t i = 0; i < block_size; ++i)
            list[i] = first + i;
        return list + block_size;
    }
    for (; mask != 0; mask &= mask - 1)
        *list++ = first + static_cast<std::uint32_t>(__builtin_ctzll(mask));
    return list;
}

void list_rows(const BlockRows* rows, std::size_t count, const std::uint64_t* down,
               std::uint32_t* down_list, std::uint32_t* up_list, std::size_t* sizes) {
    std::uint32_t* down_end = down_list;
    std::uint32_t* up_end = up_list;
    for (std::size_t k = 0; k < count; ++k) {
        const std::uint32_t place = rows[k].place;
        down_end = list_bits(rows[k].mask & down[place], place * block_size, down_end);
        up_end = list_bits(rows[k].mask & ~down[place], place * block_size, up_end);
    }
    sizes[0] = static_cast<std::size_t>(down_end - down_list);
    sizes[1] = static_cast<std::size_t>(up_end - up_list);
}

} // namespace

extern const BlockKernel kernel;
const BlockKernel kernel{CARVE_TEXT(CARVE_KERNEL),
                         find_worst,
                         add_values,
                         exponentials,
                         quantise,
                         best_gain,
                         split_rows,
                         list_rows,
                         unequal};

} // namespace carve::CARVE_KERNEL
