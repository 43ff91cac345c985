#include "training/block_histograms.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace carve {

namespace {

constexpr std::size_t block_size = RowBlocks::block_size;
constexpr std::size_t least_group = 32; // features
constexpr std::size_t most_group = 128; // whose bins fit 16 bits

} // namespace

void BlockHistograms::use(const TreeRows& rows, std::span<const int> features) {
    given_ = rows;
    if (std::ranges::equal(blocks_, rows.blocks) && std::ranges::equal(features_, features))
        return;
    blocks_.assign(rows.blocks.begin(), rows.blocks.end());
    features_.assign(features.begin(), features.end());
    offsets_.clear();
    side_ = 0;
    for (const int f : features_) {
        offsets_.push_back(side_);
        side_ += static_cast<std::size_t>(rows_.bins(f));
    }
    parts_.clear();
    const auto threads = static_cast<std::size_t>(pool_.size());
    const std::size_t size =
        std::clamp((features_.size() + threads - 1) / threads, least_group, most_group);
    groups_.resize((features_.size() + size - 1) / size);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        Group& group = groups_[g];
        group.first = g * size;
        group.end = std::min(group.first + size, features_.size());
        group.stride = group.end - group.first;
        group.sizes.resize(blocks_.size() * block_size);
        if (group.bins.size() < group.sizes.size() * group.stride)
            group.bins.resize(group.sizes.size() * group.stride);
    }
    constexpr std::size_t chunk = 8; // blocks, whose codes are often next to each other
    const std::size_t chunks = (blocks_.size() + chunk - 1) / chunk;
    pool_.run(static_cast<int>(chunks * groups_.size()), [&](int, int task) {
        const std::size_t begin = static_cast<std::size_t>(task) % chunks * chunk;
        collect(groups_[static_cast<std::size_t>(task) / chunks], begin,
                std::min(begin + chunk, blocks_.size()));
    });
}

void BlockHistograms::collect(Group& group, std::size_t begin, std::size_t end) const {
    const BlockKernel& kernel = block_kernel();
    std::fill(group.sizes.begin() + static_cast<std::ptrdiff_t>(begin * block_size),
              group.sizes.begin() + static_cast<std::ptrdiff_t>(end * block_size),
              std::uint16_t{0});
    for (std::size_t k = group.first; k < group.end; ++k) {
        const int f = features_[k];
        [[maybe_unused]] const int next = features_[std::min(k + 1, group.end - 1)];
        const auto zero = static_cast<int>(offsets_[k] - offsets_[group.first]) + RowBlocks::bias;
        const auto bin = [&](std::int8_t code) { return static_cast<std::uint16_t>(zero + code); };
        for (std::size_t place = begin; place < end; ++place) {
            const std::int8_t* const codes = rows_.column(f) + blocks_[place] * block_size;
#if defined(__GNUC__)
            __builtin_prefetch(rows_.column(next) + blocks_[place] * block_size);
#endif
            std::uint16_t* const bins = group.bins.data() + place * block_size * group.stride;
            std::uint16_t* const sizes = group.sizes.data() + place * block_size;
            if (rows_.is_sparse(f)) {
                std::uint64_t others = kernel.unequal(codes, rows_.usual_code(f));
                for (; others != 0; others &= others - 1) {
                    const auto i = static_cast<std::size_t>(std::countr_zero(others));
                    bins[i * group.stride + sizes[i]++] = bin(codes[i]);
                }
            } else {
                for (std::size_t i = 0; i < block_size; ++i)
                    bins[i * group.stride + sizes[i]] = bin(codes[i]);
                for (std::size_t i = 0; i < block_size; ++i)
                    ++sizes[i];
            }
        }
    }
}

Histogram BlockHistograms::take() {
    Histogram found;
    if (!unused_.empty()) {
        found = std::move(unused_.back());
        unused_.pop_back();
    }
    found.resize(2 * side_);
    return found;
}

void BlockHistograms::give_back(Histogram&& histogram) {
    if (!histogram.empty())
        unused_.push_back(std::move(histogram));
    histogram.clear();
}

void BlockHistograms::count_group(const Group& group, std::span<const std::uint32_t> rows,
                                  std::uint64_t* side) const {
    const std::uint64_t* const packed = given_.packed.data();
    const std::uint16_t* const sizes = group.sizes.data();
    const std::uint16_t* const bins = group.bins.data();
    const std::size_t stride = group.stride;
    std::uint64_t* const first = side + offsets_[group.first];
    for (std::size_t k = 0; k < rows.size(); ++k) {
#if defined(__GNUC__)
        constexpr std::size_t ahead = 12; // rows
        __builtin_prefetch(bins + rows[std::min(k + ahead, rows.size() - 1)] * stride);
#endif
        const std::uint64_t value = packed[rows[k]];
        const std::uint16_t* const line = bins + rows[k] * stride;
        const std::uint16_t* const end = line + sizes[rows[k]];
        const std::uint16_t* next = line;
        for (; next + 4 <= end; next += 4) {
            std::uint64_t four;
            std::memcpy(&four, next, sizeof four);
            for (int i = 0; i < 4; ++i)
                first[four >> 16 * i & 65535] += value;
        }
        for (; next < end; ++next)
            first[*next] += value;
    }
}

void BlockHistograms::count(std::span<const std::vector<BlockRows>> chunks, Histogram& histogram) {
    if (lists_.size() < chunks.size())
        lists_.resize(chunks.size());
    pool_.run(static_cast<int>(chunks.size()), [&](int, int c) {
        RowList& list = lists_[static_cast<std::size_t>(c)];
        const std::vector<BlockRows>& chunk = chunks[static_cast<std::size_t>(c)];
        for (auto& rows : list.rows)
            if (rows.size() < chunk.size() * block_size)
                rows.resize(chunk.size() * block_size);
        block_kernel().list_rows(chunk.data(), chunk.size(), given_.down.data(),
                                 list.rows[0].data(), list.rows[1].data(), list.sizes);
    });
    std::ranges::fill(histogram, 0);
    // Tasks count a group of features, or, where there are few groups, a part of the rows of one.
    const int groups = static_cast<int>(groups_.size());
    const int parts = pool_.size() == 1 || groups >= 2 * pool_.size()
                          ? 1
                          : std::min(pool_.size(), static_cast<int>(chunks.size()));
    while (static_cast<int>(parts_.size()) + 1 < parts)
        parts_.emplace_back(2 * side_);
    pool_.run(groups * parts, [&](int, int task) {
        const int part = task / groups;
        Histogram& own = part == 0 ? histogram : parts_[static_cast<std::size_t>(part) - 1];
        for (std::size_t c = static_cast<std::size_t>(part); c < chunks.size();
             c += static_cast<std::size_t>(parts))
            for (const std::size_t up : {0, 1})
                count_group(groups_[static_cast<std::size_t>(task % groups)],
                            {lists_[c].rows[up].data(), lists_[c].sizes[up]},
                            own.data() + (up != 0 ? side_ : 0));
    });
}

void BlockHistograms::finish(std::size_t feature, const SideSums& sums, Histogram& counted,
                             Histogram* larger) {
    const int f = features_[feature];
    const auto n = static_cast<std::size_t>(rows_.bins(f));
    for (const std::size_t side : {std::size_t{0}, side_}) {
        const std::size_t first = side + offsets_[feature];
        for (Histogram& part : parts_)
            for (std::size_t b = first; b < first + n; ++b) {
                counted[b] += part[b];
                part[b] = 0;
            }
        if (rows_.is_sparse(f)) {
            std::uint64_t rest = side == 0 ? sums.down : sums.up;
            for (std::size_t b = first; b < first + n; ++b)
                rest -= counted[b];
            counted[first + static_cast<std::size_t>(rows_.usual_code(f) + RowBlocks::bias)] = rest;
        }
        if (larger != nullptr)
            for (std::size_t b = first; b < first + n; ++b)
                (*larger)[b] -= counted[b];
    }
}

} // namespace carve
