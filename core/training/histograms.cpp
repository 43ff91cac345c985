#include "training/histograms.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "training/bits.hpp"

namespace carve {

Histograms::Histograms(const Codes& codes, std::vector<int> usable, std::span<const Sums> sums,
                       std::span<const std::uint8_t> down)
    : codes_(codes), usable_(std::move(usable)), sums_(sums), down_(down) {
    for (int g = 0; g < codes.groups(); ++g) {
        int most = 1;
        for (int f = g * Codes::group; f < std::min(codes.features(), (g + 1) * Codes::group); ++f)
            most = std::max(most, codes.codes_of(f));
        stride_.push_back(static_cast<std::size_t>(most));
        offset_.push_back(size_);
        size_ += stride_.back() * Codes::line_size;
    }
}

Histogram Histograms::blank() {
    if (unused_.empty())
        return Histogram(size_);
    Histogram found = std::move(unused_.back());
    unused_.pop_back();
    std::ranges::fill(found, Sums{});
    return found;
}

void Histograms::count(std::span<const std::int32_t> rows, int group, Histogram& histogram) const {
    // All that does not change with the row, out of the way of what is written.
    const std::size_t stride = stride_[static_cast<std::size_t>(group)];
    Sums* const bins = histogram.data() + offset_[static_cast<std::size_t>(group)];
    const std::uint8_t* const lines = codes_.line(group, 0);
    const Sums* const sums = sums_.data();
    const std::uint8_t* const down = down_.data();
    for (std::size_t k = 0; k < rows.size(); ++k) {
        const auto row = static_cast<std::size_t>(rows[k]);
        const Sums own = sums[row];
        const std::uint8_t* const line = lines + row * Codes::line_size;
#if defined(__GNUC__)
        const auto soon = static_cast<std::size_t>(rows[std::min(k + 8, rows.size() - 1)]);
        __builtin_prefetch(lines + soon * Codes::line_size);
#endif
        const int flip = down[row] != 0 ? 0 : Codes::group;
        for (int word = 0; word < Codes::line_size; word += 8) {
            std::uint64_t eight;
            std::memcpy(&eight, line + word, sizeof eight);
            Sums* const columns = bins + static_cast<std::size_t>(word ^ flip) * stride;
            for (std::uint64_t unusual = nonzero_bytes(eight); unusual != 0;
                 unusual &= unusual - 1) {
                const auto b = byte_number(unusual);
                columns[b * stride + line[static_cast<std::size_t>(word) + b]] += own;
            }
        }
    }
}

template <class Visit>
void Histograms::each_counted(std::span<Histogram* const> histograms, Visit&& visit) const {
    for (Histogram* const histogram : histograms)
        for (const int f : usable_)
            for (const bool left_lower : {true, false}) {
                // Nobody moves a category: its two columns are the same, and one is looked at.
                if (!left_lower && codes_.kind(f) == CodeKind::categories)
                    continue;
                Sums* const bins = histogram->data() + first_bin(f, left_lower);
                for (int byte = 1; byte < codes_.codes_of(f); ++byte)
                    visit(bins[byte]);
            }
}

void Histograms::join(std::span<Histogram* const> counted, const Join& join) const {
    const auto sums = std::make_shared<std::vector<std::int64_t>>();
    each_counted(counted, [&](const Sums& bin) { bin.append_to(*sums); });
    join(sums);
    const std::int64_t* at = sums->data();
    each_counted(counted, [&](Sums& bin) { at = bin.take(at); });
}

void Histograms::fill_usual(const Sums& leaf, int group, Histogram& histogram) const {
    const std::size_t stride = stride_[static_cast<std::size_t>(group)];
    Sums* bins = histogram.data() + offset_[static_cast<std::size_t>(group)];
    for (int column = 0; column < Codes::line_size; ++column, bins += stride) {
        Sums rest = leaf;
        for (std::size_t byte = 1; byte < stride; ++byte)
            rest -= bins[byte];
        bins[0] = rest;
    }
}

void Histograms::subtract(const Histogram& sibling, int group, Histogram& parent) const {
    const auto g = static_cast<std::size_t>(group);
    const Sums* const theirs = sibling.data() + offset_[g];
    Sums* const own = parent.data() + offset_[g];
    const std::size_t count = stride_[g] * Codes::line_size;
    for (std::size_t b = 0; b < count; ++b)
        own[b] = own[b] - theirs[b];
}

} // namespace carve
