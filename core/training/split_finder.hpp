// The best split of a leaf at one feature, from its histogram.
//
// A split at a threshold comes in two orientations. If its left side is to have the lower value,
// the attacker pushes the rows it wants low to the left as far as it can, and the others to the
// right; the other way round otherwise. A split counts only if its two values agree with its
// orientation:
//
//   value of a side = -soft(G, l1) / (H + l2), within the leaf's bounds
//   gain            = twice what the loss of the quadratic model falls, less min_gain_to_split
#pragma once

#include <cstdint>
#include <limits>

#include "training/block_kernel.hpp"
#include "training/coded_tree.hpp"
#include "training/gradient_sums.hpp"
#include "training/row_blocks.hpp"

namespace carve {

struct BoostingOptions { // named as in LightGBM
    int num_leaves = 32;
    int max_depth = 0; // 0: unlimited
    double learning_rate = 0.15;
    std::int64_t min_data_in_leaf = 1;
    double min_sum_hessian_in_leaf = 0;
    double min_gain_to_split = 0;
    double lambda_l1 = 0;
    double lambda_l2 = 0;
    double bagging_fraction = 1;        // of the blocks of every group, for each round
    double feature_fraction = 1;        // for each tree
    double feature_fraction_bynode = 1; // of these, for each leaf
    bool extra_trees = false;           // one random threshold per leaf and feature
    bool ordered = false;               // values below a split agree with its orientation
    std::uint64_t seed = 0;
};

struct LeafSums {
    SideSums sums;
    std::int64_t rows = 0;
    double low = -std::numeric_limits<double>::infinity(); // bounds of the values in its subtree
    double high = std::numeric_limits<double>::infinity();
};

struct FeatureSplit {
    double gain = 0; // 0: none
    int feature = -1;
    int position = 0;
    bool left_lower = true;
    bool missing_left = false;
    CodeSet set{};   // of a categorical feature
    SideSums left{}; // of the rows on the left
};

class SplitFinder {
  public:
    SplitFinder(const RowBlocks& rows, const BoostingOptions& options)
        : rows_(rows), options_(options), kernel_(block_kernel()) {}

    void set_format(const SumFormat& format) { format_ = format; }

    double gradient(const SideSums& sums) const {
        return format_.gradient(sums.up) - format_.gradient(sums.down);
    }
    double hessian(const SideSums& sums) const { return format_.hessian(sums.down + sums.up); }
    // The value that suits these rows best, within the leaf's bounds.
    double value(const SideSums& sums, const LeafSums& leaf) const;

    // Replaces `best` if the feature has a better split. `down` and `up` are the histogram of the
    // feature, `draw` a random number of leaf and feature.
    void find(int feature, const LeafSums& leaf, const std::uint64_t* down, const std::uint64_t* up,
              std::uint64_t draw, FeatureSplit& best) const;

  private:
    struct Candidates { // sums of the left sides
        std::uint64_t down[most_positions];
        std::uint64_t up[most_positions];
        int count = 0;
    };

    double soft(double gradient) const;
    GainInput input_of(const LeafSums& leaf, double extra_l2) const;
    bool improve(FeatureSplit& best, Candidates& left, GainInput& input, bool left_lower) const;
    void find_threshold(int feature, const LeafSums& leaf, const std::uint64_t* down,
                        const std::uint64_t* up, std::uint64_t draw, FeatureSplit& best) const;
    void find_set(int feature, const LeafSums& leaf, const std::uint64_t* down,
                  const std::uint64_t* up, std::uint64_t draw, FeatureSplit& best) const;

    const RowBlocks& rows_;
    const BoostingOptions& options_;
    const BlockKernel& kernel_;
    SumFormat format_;
};

} // namespace carve
