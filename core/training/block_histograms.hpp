// Histograms of leaves: per feature and bin, the packed sums of the rows that the attacker pushes
// down, and of those that it pushes up. Both orientations of every split follow from these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "running/thread_pool.hpp"
#include "training/block_kernel.hpp"
#include "training/row_blocks.hpp"

namespace carve {

using Histogram = std::vector<std::uint64_t>;

class BlockHistograms {
  public:
    BlockHistograms(const RowBlocks& rows, ThreadPool& pool);

    // Features to count from now on, ascending.
    void use(std::span<const int> features);

    // Histograms with arbitrary content.
    Histogram take();
    void give_back(Histogram&& histogram);
    std::size_t bytes() const { return 2 * side_ * sizeof(std::uint64_t); }

    // Counts the rows of all chunks. `packed` is per padded row, `down` per block.
    void count(std::span<const std::vector<BlockRows>> chunks,
               std::span<const std::uint64_t> packed, std::span<const std::uint64_t> down,
               Histogram& histogram);
    // Completes one feature of the histogram that was counted last, to be called once for each,
    // and subtracts it from `larger`, if any.
    void finish(int feature, Histogram& counted, Histogram* larger);

    const std::uint64_t* down(const Histogram& histogram, int feature) const {
        return histogram.data() + offset(feature);
    }
    const std::uint64_t* up(const Histogram& histogram, int feature) const {
        return histogram.data() + side_ + offset(feature);
    }

  private:
    struct Group { // of features that are counted together
        std::vector<int> places;
        bool contiguous; // places follow each other
        int large;       // how many have a large stride; these come first
        int middle;
    };
    struct RowList {
        std::vector<std::uint32_t> rows[2]; // pushed down, pushed up; longer than needed
        std::size_t sizes[2];
    };

    std::size_t offset(int feature) const {
        return offsets_[static_cast<std::size_t>(rows_.place(feature))];
    }
    void count_group(const Group& group, std::span<const std::uint32_t> rows,
                     const std::uint64_t* packed, std::uint64_t* side) const;

    const RowBlocks& rows_;
    ThreadPool& pool_;
    std::size_t side_ = 0;             // bins of one side
    std::vector<std::size_t> offsets_; // per place
    std::vector<int> strides_;         // per place
    std::vector<Group> groups_;
    std::vector<int> features_;    // in use
    std::vector<RowList> lists_;   // per chunk
    std::vector<Histogram> parts_; // of other threads; all 0 between two counts
    std::vector<Histogram> unused_;
};

} // namespace carve
