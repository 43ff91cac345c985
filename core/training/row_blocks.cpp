#include "training/row_blocks.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

namespace carve {

namespace {

constexpr std::size_t bound_stride = 256;

void check_offsets(std::span<const std::int64_t> offsets, std::size_t features, std::size_t end) {
    if (offsets.size() != features + 1 || offsets.front() != 0 ||
        offsets.back() != static_cast<std::int64_t>(end) || !std::ranges::is_sorted(offsets))
        throw std::invalid_argument("offsets must ascend from 0 to the length of the array");
}

// Codes of 64 values: a binary search without branches, all values side by side.
void find_codes(const double* values, const double* bounds, int count, std::uint8_t* codes) {
    constexpr int side_by_side = 8;
    const auto first_step = std::bit_ceil(static_cast<unsigned>(count) + 1) / 2;
    for (int i = 0; i < RowBlocks::block_size; i += side_by_side) {
        unsigned found[side_by_side] = {};
        for (unsigned step = first_step; step > 0; step /= 2)
            for (int k = 0; k < side_by_side; ++k)
                found[k] += bounds[found[k] + step - 1] < values[i + k] ? step : 0;
        for (int k = 0; k < side_by_side; ++k)
            codes[i + k] = static_cast<std::uint8_t>(found[k]);
    }
}

} // namespace

RowBlocks::RowBlocks(const BinTable& table) : kinds_(table.kinds.begin(), table.kinds.end()) {
    const std::size_t d = kinds_.size();
    check_offsets(table.bound_offsets, d, table.bounds.size());
    check_offsets(table.threshold_offsets, d, table.can_left.size());
    if (table.must_left.size() != table.can_left.size())
        throw std::invalid_argument("can_left and must_left must have one number per threshold");
    bounds_.assign(d * bound_stride, std::numeric_limits<double>::infinity());
    for (std::size_t f = 0; f < d; ++f) {
        const auto first = static_cast<std::size_t>(table.bound_offsets[f]);
        const auto count = static_cast<std::size_t>(table.bound_offsets[f + 1]) - first;
        const auto bounds = table.bounds.subspan(first, count);
        if (count > most_bounds)
            throw std::invalid_argument("a feature may have at most 254 bounds");
        if (std::ranges::adjacent_find(bounds, std::not_fn(std::less<>())) != bounds.end())
            throw std::invalid_argument("the bounds of a feature must be strictly ascending");
        std::ranges::copy(bounds, bounds_.begin() + static_cast<std::ptrdiff_t>(f * bound_stride));
        bound_counts_.push_back(static_cast<int>(count));
        bins_.push_back(kinds_[f] == FeatureKind::numbers_or_missing ? missing_code + 1
                                                                     : static_cast<int>(count) + 1);
        first_position_.push_back(can_left_.size());
        int last_can = 0;
        int last_must = 0;
        for (auto j = table.threshold_offsets[f]; j < table.threshold_offsets[f + 1]; ++j) {
            const int can = table.can_left[static_cast<std::size_t>(j)];
            const int must = table.must_left[static_cast<std::size_t>(j)];
            if (must > can || can < last_can || must < last_must ||
                can >= static_cast<int>(count) || kinds_[f] == FeatureKind::categories)
                throw std::invalid_argument("can_left and must_left must ascend, with must_left <= "
                                            "can_left < number of bounds");
            can_left_.push_back(static_cast<std::uint8_t>(last_can = can));
            must_left_.push_back(static_cast<std::uint8_t>(last_must = must));
        }
        threshold_counts_.push_back(static_cast<int>(can_left_.size() - first_position_.back()));
        if (threshold_counts_.back() > most_bounds)
            throw std::invalid_argument("a feature may have at most 254 thresholds");
        if (kinds_[f] == FeatureKind::numbers_or_missing) {
            can_left_.push_back(most_bounds);
            must_left_.push_back(most_bounds);
        }
    }
}

int RowBlocks::rows_in(std::size_t block) const { return std::popcount(valid_[block]); }

void RowBlocks::lay_out(std::span<const std::int64_t> order,
                        std::span<const std::int64_t> group_sizes) {
    std::int64_t total = 0;
    for (const std::int64_t size : group_sizes) {
        if (size < 0)
            throw std::invalid_argument("group sizes must not be negative");
        for (std::int64_t done = 0; done < size; done += block_size) {
            const auto left = std::min<std::int64_t>(block_size, size - done);
            first_row_.push_back(static_cast<std::size_t>(total + done));
            valid_.push_back(~std::uint64_t{0} >> (block_size - left));
        }
        total += size;
        group_ends_.push_back(valid_.size());
    }
    if (total != static_cast<std::int64_t>(order.size()))
        throw std::invalid_argument("group sizes must add up to the length of order");
    for (const std::int64_t row : order)
        if (row < 0 || row >= source_rows_)
            throw std::invalid_argument("order must hold row numbers of X");
    order_.assign(order.begin(), order.end());
}

template <class T>
void RowBlocks::encode_block(const T* X, std::size_t block, std::vector<double>& buffer) {
    const std::size_t d = kinds_.size();
    const int m = rows_in(block);
    for (int i = 0; i < block_size; ++i) { // an incomplete block repeats its last row
        const T* const x = X + static_cast<std::size_t>(source(block)[std::min(i, m - 1)]) * d;
        for (std::size_t f = 0; f < d; ++f)
            buffer[f * block_size + static_cast<std::size_t>(i)] = static_cast<double>(x[f]);
    }
    std::uint8_t codes[block_size];
    for (std::size_t f = 0; f < d; ++f) {
        double* const values = buffer.data() + f * block_size;
        std::uint64_t missing = 0;
        for (int i = 0; i < block_size; ++i)
            missing |= static_cast<std::uint64_t>(values[i] != values[i]) << i;
        if (missing != 0)
            for (int i = 0; i < block_size; ++i)
                values[i] = values[i] != values[i] ? 0.0 : values[i];
        find_codes(values, bounds_.data() + f * bound_stride, bound_counts_[f], codes);
        if (kinds_[f] == FeatureKind::numbers_or_missing)
            for (; missing != 0; missing &= missing - 1)
                codes[std::countr_zero(missing)] = missing_code;
        std::int8_t* const column = columns_.data() + f * padded_rows() + block * block_size;
        for (std::size_t i = 0; i < block_size; ++i)
            column[i] = static_cast<std::int8_t>(codes[i] ^ bias);
    }
}

bool RowBlocks::encode(const Rows& X, std::span<const std::int64_t> order,
                       std::span<const std::int64_t> group_sizes, int threads,
                       const WatchFunction& watch) {
    if (X.columns != features())
        throw std::invalid_argument("X has the wrong number of columns");
    source_rows_ = X.count;
    lay_out(order, group_sizes);
    columns_.resize(padded_rows() * kinds_.size());
    constexpr std::int64_t chunk = 32; // blocks
    const auto n = static_cast<std::int64_t>(blocks());
    const auto work = [&](int, RowRange range, const std::atomic<bool>&) {
        std::vector<double> buffer(kinds_.size() * block_size);
        for (std::int64_t b = range.begin; b < range.end; ++b)
            with_row(X, 0, [&](const auto* first) {
                encode_block(first, static_cast<std::size_t>(b), buffer);
            });
    };
    const bool finished = parallel_rows(n, chunk, worker_count(threads, n, chunk), work, watch);
    if (finished)
        find_usual_codes();
    return finished;
}

void RowBlocks::find_usual_codes() {
    constexpr std::size_t most_blocks = 64; // evenly spaced
    const std::size_t step = blocks() / most_blocks + 1;
    for (int f = 0; f < features(); ++f) {
        int counts[256] = {};
        int total = 0;
        for (std::size_t block = 0; block < blocks(); block += step, total += block_size)
            for (std::size_t i = 0; i < block_size; ++i)
                ++counts[column(f)[block * block_size + i] + bias];
        const int* const most = std::ranges::max_element(counts);
        usual_codes_.push_back(static_cast<std::int8_t>(most - counts - bias));
        is_sparse_.push_back(2 * *most > total);
    }
}

} // namespace carve
