// What robust training minimises: a loss of the worst score that the trees, one by one, allow.
//
//   binary       log(1 + exp(-m)), m the lowest score of a row of class 1, less the highest of
//   class 0 multiclass   cross-entropy of the lowest score of the row's class and the highest of
//   the others regression   half the square of the distance to the farther end of [low, high]
//
// Scores of a block lie in lanes of 64 floats: one per output, the worst one; or, for a regression,
// lane 0 holds low and lane 1 high.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "training/block_forest.hpp"
#include "training/block_kernel.hpp"
#include "training/row_blocks.hpp"

namespace carve {

enum class Task { binary, multiclass, regression };

class BlockObjective {
  public:
    // Targets (class indices, or numbers) and weights are per row of X; weights may be empty.
    BlockObjective(const RowBlocks& rows, Task task, int outputs, std::span<const double> targets,
                   std::span<const double> weights);

    int outputs() const { return outputs_; }
    int lanes() const { return task_ == Task::regression ? 2 : outputs_; }
    bool needs_both_ends() const { return task_ == Task::regression; } // low and high of each row
    std::vector<double> start() const { return start_; }               // scores without trees
    double weight(std::size_t block) const { return block_weights_[block]; }
    // Rows of the block that the attacker pushes down in this output; not for a regression.
    std::uint64_t down(std::size_t block, int output) const {
        return down_[block * static_cast<std::size_t>(outputs_) + static_cast<std::size_t>(output)];
    }

    // Ranks of the worst leaves in reach of a block's rows, 64 of them; for a regression 64 of the
    // lowest and 64 of the highest.
    void find_worst(const BlockForest& forest, std::size_t tree, std::size_t block,
                    std::uint8_t* ranks) const;
    // Adds the values of these leaves to the scores of the block; `ranks` receives their ranks.
    void add_tree(const BlockForest& forest, std::size_t tree, std::size_t block, float* scores,
                  std::uint8_t* ranks) const;

    // What the derivatives of all outputs have in common, in lanes like the scores.
    void prepare(std::size_t block, const float* scores, float* common) const;

    // |gradient| and hessian of 64 rows by the worst score of one output, times their weights. Rows
    // that the attacker pushes down (returned, a bit each) have negative gradients, others positive
    // ones. Rows that fill up an incomplete block get 0.
    std::uint64_t derivatives(std::size_t block, int output, const float* common, float* gradient,
                              float* hessian) const;

    // The sum of the losses of a block's rows at these scores, times their weights.
    double loss(std::size_t block, const float* scores) const;

  private:
    const RowBlocks& rows_;
    const BlockKernel& kernel_;
    Task task_;
    int outputs_;
    std::vector<double> start_;
    std::vector<double> block_weights_;
    std::vector<std::uint64_t> down_; // per block and output
    std::vector<float> numbers_;      // per padded row; of a regression
    std::vector<float> weights_;      // per padded row, or empty
};

} // namespace carve
