// Rows for robust training against norm inf: one byte per value, in blocks of 64 rows.
//
// The bins of a feature end at ascending `bounds`:   code(x) = number of bounds < x.
// If every t - k and t + k is a bound (t: a threshold, k: how far the attacker moves the feature),
// then for threshold j
//
//   the attacker can push a row to the left   iff  code <= can_left[j],   the bin that ends at t +
//   k a row is on the left whatever it does     iff  code <= must_left[j],  the bin that ends at t
//   - k
//
// so that one code per value describes everything the attacker can do at any threshold.
// A missing value has code 255 if the feature distinguishes it. Codes of a categorical feature are
// categories in no order; nobody moves those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/rows.hpp"
#include "running/parallel.hpp"

namespace carve {

enum class FeatureKind : std::uint8_t { numbers, numbers_or_missing, categories };

// Arrays of all features one after the other; feature f has bounds[bound_offsets[f] …
// bound_offsets[f + 1]), and likewise thresholds.
struct BinTable {
    std::span<const double> bounds;
    std::span<const std::int64_t> bound_offsets;
    std::span<const std::uint8_t> can_left; // per threshold
    std::span<const std::uint8_t> must_left;
    std::span<const std::int64_t> threshold_offsets;
    std::span<const FeatureKind> kinds;
};

class RowBlocks {
  public:
    static constexpr int block_size = 64;
    static constexpr int most_bounds = 254;
    static constexpr std::uint8_t missing_code = 255;
    // Columns store code ^ 128 as a signed byte, which every processor can compare.
    static constexpr int bias = 128;

    explicit RowBlocks(const BinTable& table);

    // Encodes X[order], to be called once. The first group_sizes[0] rows form the first group, and
    // so on; every group starts a new block. False iff `watch` cancelled.
    bool encode(const Rows& X, std::span<const std::int64_t> order,
                std::span<const std::int64_t> group_sizes, int threads, const WatchFunction& watch);

    int features() const { return static_cast<int>(kinds_.size()); }
    std::int64_t rows() const { return static_cast<std::int64_t>(order_.size()); }
    std::int64_t source_rows() const { return source_rows_; } // of the matrix X
    std::size_t blocks() const { return valid_.size(); }
    std::size_t padded_rows() const { return blocks() * block_size; }
    // Blocks [first, next) of each group: group g has blocks group_ends()[g - 1] … group_ends()[g].
    const std::vector<std::size_t>& group_ends() const { return group_ends_; }
    // A bit per row of the block; the last block of a group may be incomplete.
    std::uint64_t valid(std::size_t block) const { return valid_[block]; }
    int rows_in(std::size_t block) const;
    // Rows of X in this block: rows_in(block) of them.
    const std::int64_t* source(std::size_t block) const {
        return order_.data() + first_row_[block];
    }

    FeatureKind kind(int f) const { return kinds_[static_cast<std::size_t>(f)]; }
    int thresholds(int f) const { return threshold_counts_[static_cast<std::size_t>(f)]; }
    // Where a split of a numeric feature can be: at a threshold, or, at position `thresholds(f)`,
    // between all numbers and missing values.
    int positions(int f) const {
        return thresholds(f) + (kind(f) == FeatureKind::numbers_or_missing ? 1 : 0);
    }
    // Per position; the last bin of numbers for the position behind all thresholds.
    const std::uint8_t* can_left(int f) const { return can_left_.data() + first_position(f); }
    const std::uint8_t* must_left(int f) const { return must_left_.data() + first_position(f); }
    int bins(int f) const { return bins_[static_cast<std::size_t>(f)]; } // missing values included

    // Biased codes of a feature, row by row, all blocks in sequence.
    const std::int8_t* column(int f) const {
        return columns_.data() + static_cast<std::size_t>(f) * padded_rows();
    }
    // Fetches the codes of a block that is needed soon.
    void prefetch([[maybe_unused]] std::size_t block) const {
#if defined(__GNUC__)
        for (int f = 0; f < features(); ++f)
            __builtin_prefetch(column(f) + block * block_size);
#endif
    }
    // A code that many rows have, biased, and whether more than half of them do.
    std::int8_t usual_code(int f) const { return usual_codes_[static_cast<std::size_t>(f)]; }
    bool is_sparse(int f) const { return is_sparse_[static_cast<std::size_t>(f)]; }

  private:
    std::size_t first_position(int f) const { return first_position_[static_cast<std::size_t>(f)]; }
    void lay_out(std::span<const std::int64_t> order, std::span<const std::int64_t> group_sizes);
    template <class T>
    void encode_block(const T* X, std::size_t block, std::vector<double>& buffer);
    void find_usual_codes();

    std::vector<double> bounds_; // 256 per feature, filled up with infinity
    std::vector<FeatureKind> kinds_;
    std::vector<int> bound_counts_;
    std::vector<int> threshold_counts_;
    std::vector<std::size_t> first_position_;
    std::vector<std::uint8_t> can_left_; // per feature and position
    std::vector<std::uint8_t> must_left_;
    std::vector<int> bins_;
    std::vector<std::int8_t> usual_codes_;
    std::vector<bool> is_sparse_;

    std::int64_t source_rows_ = 0;
    std::vector<std::int64_t> order_;
    std::vector<std::size_t> first_row_; // per block: in order_
    std::vector<std::size_t> group_ends_;
    std::vector<std::uint64_t> valid_;
    std::vector<std::int8_t> columns_;
};

} // namespace carve
