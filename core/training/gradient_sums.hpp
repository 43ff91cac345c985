// Gradients, hessians and numbers of rows, packed into one whole number each.
//
//   packed = |gradient| / g_unit << g_shift | hessian / h_unit << h_shift | 1 (if rows are counted)
//
// with both quotients rounded at random (see BlockKernel::quantise). Sums are exact, in any order,
// and so are differences of sums. The units are chosen so that no field of the sum over all rows
// overflows and every field fits an int32; rows are counted while this leaves the others enough
// bits, else they are estimated from hessians.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace carve {

struct SumFormat {
    int g_shift = 32;
    int h_shift = 0;
    std::uint64_t h_mask = 0;
    std::uint64_t row_mask = 0; // 0: rows are not counted
    double g_unit = 1;
    double h_unit = 1;

    SumFormat() = default;
    // For this many rows, and the sums of |gradient| and hessian over all of them.
    SumFormat(std::int64_t rows, double gradient, double hessian) {
        constexpr std::int64_t most_counted = 65535;
        const int row_bits =
            rows <= most_counted ? std::bit_width(static_cast<std::uint64_t>(rows)) : 0;
        const int h_bits = std::min(31, (64 - row_bits) / 2);
        const int g_bits = std::min(31, 64 - row_bits - h_bits);
        h_shift = row_bits;
        g_shift = row_bits + h_bits;
        row_mask = (std::uint64_t{1} << row_bits) - 1;
        h_mask = (std::uint64_t{1} << h_bits) - 1;
        g_unit = unit(gradient, g_bits, rows);
        h_unit = unit(hessian, h_bits, rows);
    }

    bool counts_rows() const { return row_mask != 0; }
    double gradient(std::uint64_t packed) const {
        return static_cast<double>(packed >> g_shift) * g_unit;
    }
    double hessian(std::uint64_t packed) const {
        return static_cast<double>(packed >> h_shift & h_mask) * h_unit;
    }
    std::int64_t rows(std::uint64_t packed) const {
        return static_cast<std::int64_t>(packed & row_mask);
    }

  private:
    // Rounding adds less than 1 per row; the factor covers rounding of `sum` itself.
    static double unit(double sum, int bits, std::int64_t rows) {
        const double most = static_cast<double>((std::int64_t{1} << bits) - 1 - rows);
        return sum > 0 ? sum * (1 + 1e-5) / std::max(most, 1.0) : 1.0;
    }
};

// Packed sums of the rows that the attacker pushes down, and of those it pushes up.
struct SideSums {
    std::uint64_t down = 0;
    std::uint64_t up = 0;

    friend SideSums operator+(SideSums a, SideSums b) { return {a.down + b.down, a.up + b.up}; }
    friend SideSums operator-(SideSums a, SideSums b) { return {a.down - b.down, a.up - b.up}; }
};

} // namespace carve
