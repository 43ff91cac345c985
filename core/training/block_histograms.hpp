// Histograms of leaves: per feature and bin, the packed sums of the rows that the attacker pushes
// down, and of those that it pushes up. Both orientations of every split follow from these.
//
// For every tree, the codes of its rows and features are collected row by row. Where most rows have
// the same code of a feature, that code is left out, and its sums are those of the leaf less those
// of the other codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "running/thread_pool.hpp"
#include "training/block_kernel.hpp"
#include "training/row_blocks.hpp"

namespace carve {

using Histogram = std::vector<std::uint64_t>;

// What a tree is grown on. A place is a position in `blocks`.
struct TreeRows {
    std::span<const std::uint32_t> blocks; // ascending
    std::span<const std::uint64_t> down;   // per place: rows that the attacker pushes down
    std::span<const std::uint64_t> packed; // per place and row: gradient and hessian
    SumFormat format;
};

class BlockHistograms {
  public:
    BlockHistograms(const RowBlocks& rows, ThreadPool& pool) : rows_(rows), pool_(pool) {}

    // The rows and features to count from now on. Features are then known by their positions.
    void use(const TreeRows& rows, std::span<const int> features);

    // Histograms with arbitrary content.
    Histogram take();
    void give_back(Histogram&& histogram);
    std::size_t bytes() const { return 2 * side_ * sizeof(std::uint64_t); }

    // Counts the rows of all chunks.
    void count(std::span<const std::vector<BlockRows>> chunks, Histogram& histogram);
    // Completes one feature of the histogram that was counted last, to be called once for each,
    // and subtracts it from `larger`, if any. `sums` are those of the rows counted.
    void finish(std::size_t feature, const SideSums& sums, Histogram& counted, Histogram* larger);

    const std::uint64_t* down(const Histogram& histogram, std::size_t feature) const {
        return histogram.data() + offsets_[feature];
    }
    const std::uint64_t* up(const Histogram& histogram, std::size_t feature) const {
        return histogram.data() + side_ + offsets_[feature];
    }

  private:
    // Features that are counted together. Row r has sizes[r] bins, from bins[r * stride] on; they
    // are relative to the group's first bin.
    struct Group {
        std::size_t first;
        std::size_t end;
        std::size_t stride;
        std::vector<std::uint16_t> bins{};
        std::vector<std::uint16_t> sizes{};
    };
    struct RowList {
        std::vector<std::uint32_t> rows[2]; // pushed down, pushed up; longer than needed
        std::size_t sizes[2];
    };

    void collect(Group& group, std::size_t begin, std::size_t end) const; // these blocks
    void count_group(const Group& group, std::span<const std::uint32_t> rows,
                     std::uint64_t* side) const;

    const RowBlocks& rows_;
    ThreadPool& pool_;
    TreeRows given_;
    std::vector<std::uint32_t> blocks_; // that the groups hold
    std::vector<int> features_;
    std::vector<std::size_t> offsets_; // per feature: of its first bin
    std::size_t side_ = 0;             // bins of one side
    std::vector<Group> groups_;
    std::vector<RowList> lists_;   // per chunk
    std::vector<Histogram> parts_; // of other threads; all 0 between two counts
    std::vector<Histogram> unused_;
};

} // namespace carve
