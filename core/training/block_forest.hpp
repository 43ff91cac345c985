// Trees as the block kernel takes them, and their leaf values in order of size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "training/block_kernel.hpp"
#include "training/coded_tree.hpp"
#include "training/row_blocks.hpp"

namespace carve {

class BlockForest {
  public:
    static constexpr std::size_t most_leaves = 256;

    // A tree over the thresholds of `rows`; values per leaf. Throws if it is malformed.
    void add(const RowBlocks& rows, const CodedTree& tree, int output,
             std::span<const double> values);

    std::size_t size() const { return trees_.size(); }
    std::size_t leaves() const { return order_.size(); } // of all trees
    int output(std::size_t tree) const { return trees_[tree].output; }
    int leaves_of(std::size_t tree) const { return trees_[tree].splits + 1; }
    std::size_t first_leaf(std::size_t tree) const { return trees_[tree].first_leaf; }

    // Ranks of the lowest and highest leaves in reach of a block's rows; null: not needed.
    void find_worst(const BlockKernel& kernel, const BlockCodes& codes, std::size_t tree,
                    std::uint8_t* low, std::uint8_t* high) const;

    // Values of one tree in ascending order, and the leaves that have them.
    const float* sorted_values(std::size_t tree) const { return &sorted_[first_leaf(tree)]; }
    const std::uint8_t* sorted_leaves(std::size_t tree) const { return &order_[first_leaf(tree)]; }

    // New leaf values of one tree: ranks follow them.
    template <class T> void set_values(std::size_t tree, const T* values);

  private:
    struct Tree {
        std::size_t first_test;
        std::size_t first_leaf;
        int splits;
        int output;
    };

    std::vector<Tree> trees_;
    std::vector<BlockTest> tests_;
    std::vector<std::uint8_t> sets_;
    std::vector<std::uint8_t> order_; // leaves by rising values
    std::vector<std::uint8_t> low_ranks_;
    std::vector<std::uint8_t> high_ranks_;
    std::vector<float> sorted_;
};

template <class T> void BlockForest::set_values(std::size_t tree, const T* values) {
    const std::size_t first = first_leaf(tree);
    const auto n = static_cast<std::size_t>(leaves_of(tree));
    std::uint8_t* const order = order_.data() + first;
    for (std::size_t i = 1; i < n; ++i) { // usually nearly in order
        const std::uint8_t leaf = order[i];
        std::size_t j = i;
        for (; j > 0 && (values[order[j - 1]] > values[leaf] ||
                         (values[order[j - 1]] == values[leaf] && order[j - 1] > leaf));
             --j)
            order[j] = order[j - 1];
        order[j] = leaf;
    }
    for (std::size_t rank = 0; rank < n; ++rank) {
        low_ranks_[first + order[rank]] = static_cast<std::uint8_t>(rank);
        high_ranks_[first + order[rank]] = static_cast<std::uint8_t>(n - 1 - rank);
        sorted_[first + rank] = static_cast<float>(values[order[rank]]);
    }
}

// The position of a block's codes.
inline BlockCodes codes_of(const RowBlocks& rows, std::size_t block) {
    return {rows.column(0) + block * RowBlocks::block_size, rows.padded_rows()};
}

} // namespace carve
