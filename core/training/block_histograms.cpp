#include "training/block_histograms.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace carve {

namespace {

// Bins of a feature are this far apart: a few sizes, known to the compiler, that do not put the
// bins of all features on the same lines of the cache.
constexpr int small_stride = 24;
constexpr int middle_stride = 72;
constexpr int large_stride = 264;
constexpr std::size_t group_size = 64; // features

int stride_of(int bins) {
    return bins <= small_stride    ? small_stride
           : bins <= middle_stride ? middle_stride
                                   : large_stride;
}

template <int stride>
std::uint64_t* add_line(const std::uint8_t* line, int count, std::uint64_t value,
                        std::uint64_t* bins) {
    int i = 0;
    for (; i + 8 <= count; i += 8, bins += 8 * stride) {
        std::uint64_t eight;
        std::memcpy(&eight, line + i, sizeof eight);
        for (int k = 0; k < 8; ++k)
            bins[k * stride + static_cast<int>(eight >> 8 * k & 255)] += value;
    }
    for (; i < count; ++i, bins += stride)
        bins[line[i]] += value;
    return bins;
}

} // namespace

BlockHistograms::BlockHistograms(const RowBlocks& rows, ThreadPool& pool)
    : rows_(rows), pool_(pool) {
    for (int place = 0; place < rows.features(); ++place) {
        offsets_.push_back(side_);
        strides_.push_back(stride_of(rows.bins(rows.feature_at(place))));
        side_ += static_cast<std::size_t>(strides_.back());
    }
}

void BlockHistograms::use(std::span<const int> features) {
    features_.assign(features.begin(), features.end());
    std::vector<int> places;
    for (const int f : features)
        places.push_back(rows_.place(f));
    std::ranges::sort(places);
    groups_.clear();
    for (std::size_t first = 0; first < places.size(); first += group_size) {
        const std::size_t count = std::min(group_size, places.size() - first);
        Group group{{places.data() + first, places.data() + first + count}, false, 0, 0};
        group.contiguous =
            group.places.back() - group.places.front() + 1 == static_cast<int>(count);
        for (const int place : group.places) {
            const int stride = strides_[static_cast<std::size_t>(place)];
            group.large += stride == large_stride ? 1 : 0;
            group.middle += stride == middle_stride ? 1 : 0;
        }
        groups_.push_back(std::move(group));
    }
}

Histogram BlockHistograms::take() {
    if (unused_.empty())
        return Histogram(2 * side_);
    Histogram found = std::move(unused_.back());
    unused_.pop_back();
    return found;
}

void BlockHistograms::give_back(Histogram&& histogram) {
    if (!histogram.empty())
        unused_.push_back(std::move(histogram));
    histogram.clear();
}

void BlockHistograms::count_group(const Group& group, std::span<const std::uint32_t> rows,
                                  const std::uint64_t* packed, std::uint64_t* side) const {
    constexpr std::size_t ahead = 12; // rows
    const std::size_t line_size = rows_.line_size();
    const auto first = static_cast<std::size_t>(group.places.front());
    const std::uint8_t* const lines = rows_.line(0) + first;
    const auto places = static_cast<int>(group.places.size());
    std::vector<std::pair<std::uint32_t, std::uint64_t*>> scattered; // place after first, its bins
    for (const int place : group.places)
        scattered.emplace_back(place - group.places.front(),
                               side + offsets_[static_cast<std::size_t>(place)]);
    std::uint64_t* const first_bins = side + offsets_[first];
    const int large = group.large;
    const int middle = group.middle;
    const bool contiguous = group.contiguous;
    for (std::size_t k = 0; k < rows.size(); ++k) {
#if defined(__GNUC__)
        __builtin_prefetch(lines + rows[std::min(k + ahead, rows.size() - 1)] * line_size);
#endif
        const std::uint8_t* const line = lines + rows[k] * line_size;
        const std::uint64_t value = packed[rows[k]];
        if (contiguous) {
            std::uint64_t* bins = add_line<large_stride>(line, large, value, first_bins);
            bins = add_line<middle_stride>(line + large, middle, value, bins);
            add_line<small_stride>(line + large + middle, places - large - middle, value, bins);
        } else {
            for (const auto& [place, bins] : scattered)
                bins[line[place]] += value;
        }
    }
}

void BlockHistograms::count(std::span<const std::vector<BlockRows>> chunks,
                            std::span<const std::uint64_t> packed,
                            std::span<const std::uint64_t> down, Histogram& histogram) {
    if (lists_.size() < chunks.size())
        lists_.resize(chunks.size());
    pool_.run(static_cast<int>(chunks.size()), [&](int, int c) {
        RowList& list = lists_[static_cast<std::size_t>(c)];
        const std::vector<BlockRows>& chunk = chunks[static_cast<std::size_t>(c)];
        for (auto& rows : list.rows)
            if (rows.size() < chunk.size() * RowBlocks::block_size)
                rows.resize(chunk.size() * RowBlocks::block_size);
        block_kernel().list_rows(chunk.data(), chunk.size(), down.data(), list.rows[0].data(),
                                 list.rows[1].data(), list.sizes);
    });
    // Tasks count a group of features, or, where there are few groups, a part of the rows of one.
    for (const int f : features_) {
        const std::size_t first = offset(f);
        const auto n = static_cast<std::size_t>(rows_.bins(f));
        for (const std::size_t side : {std::size_t{0}, side_})
            std::fill_n(histogram.begin() + static_cast<std::ptrdiff_t>(side + first), n, 0);
    }
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
                            {lists_[c].rows[up].data(), lists_[c].sizes[up]}, packed.data(),
                            own.data() + (up != 0 ? side_ : 0));
    });
}

void BlockHistograms::finish(int feature, Histogram& counted, Histogram* larger) {
    const auto n = static_cast<std::size_t>(rows_.bins(feature));
    for (const std::size_t side : {std::size_t{0}, side_}) {
        const std::size_t first = side + offset(feature);
        for (Histogram& part : parts_)
            for (std::size_t b = first; b < first + n; ++b) {
                counted[b] += part[b];
                part[b] = 0;
            }
        if (larger != nullptr)
            for (std::size_t b = first; b < first + n; ++b)
                (*larger)[b] -= counted[b];
    }
}

} // namespace carve
