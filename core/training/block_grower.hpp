// Grows one tree whose splits see the attacker, see SplitFinder. Rows are counted, and handed on to
// children, where the attacker pushes them. The leaf with the largest gain is split first.
//
// The tree depends on the rows, gradients, options and seed, but not on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "running/thread_pool.hpp"
#include "training/block_histograms.hpp"
#include "training/coded_tree.hpp"
#include "training/row_blocks.hpp"
#include "training/split_finder.hpp"

namespace carve {

class BlockGrower {
  public:
    BlockGrower(const RowBlocks& rows, const BoostingOptions& options, ThreadPool& pool);

    // False from `go_on`, which is called between splits, ends the tree early. Leaf values include
    // the learning rate.
    CodedTree grow(const TreeRows& rows, std::uint64_t seed, const std::function<bool()>& go_on);

  private:
    struct Leaf : LeafSums {
        std::vector<std::vector<BlockRows>> chunks; // the same blocks for every leaf
        int depth = 0;
        std::uint64_t number = 0; // of the node: 0 for the root, 2i + 1 and 2i + 2 below split i
        std::int32_t parent = -1;
        bool is_left = false;
        Histogram histogram; // empty: not kept
        FeatureSplit split;
    };

    bool may_split(const Leaf& leaf) const;
    void start(const TreeRows& rows);
    void find_splits(Leaf& counted, Leaf* sibling);
    void split(std::size_t index, CodedTree& tree);
    std::int64_t partition(Leaf& left, Leaf& right, const FeatureSplit& split);

    const RowBlocks& rows_;
    const BoostingOptions& options_;
    ThreadPool& pool_;
    BlockHistograms histograms_;
    SplitFinder finder_;
    std::vector<int> usable_;   // features that can be split
    std::vector<int> features_; // of this tree
    std::uint64_t seed_ = 0;
    TreeRows given_;
    std::vector<Leaf> leaves_;
};

} // namespace carve
