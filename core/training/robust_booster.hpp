// Boosting against norm inf: every round adds a tree per output at the worst scores that the trees
// before leave to each row.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "running/thread_pool.hpp"
#include "training/block_forest.hpp"
#include "training/block_grower.hpp"
#include "training/block_objective.hpp"

namespace carve {

class RobustBooster {
  public:
    // `rows` must outlive this object.
    RobustBooster(const RowBlocks& rows, Task task, int outputs, std::span<const double> targets,
                  std::span<const double> weights, const BoostingOptions& options, int threads);

    // Adds a tree per output, unless none of them has a split. If rows or features are drawn,
    // other draws are tried before giving up. If `go_on` returns false nothing is added either.
    bool round(const std::function<bool()>& go_on);

    // Replaces the scores of all rows, per row of X and output: the worst ones, or, for a
    // regression, the lowest in `low` and the highest in `high`. The next round grows at these.
    void set_scores(std::span<const double> low, std::span<const double> high);

    // Replaces the leaf values of all trees so far, tree after tree, and with them all scores.
    void set_values(std::span<const double> values);

    // After every round, loss() is the mean loss of these rows at their worst scores, which must
    // outlive this object; targets and weights are per row of their X.
    void watch(const RowBlocks& rows, std::span<const double> targets,
               std::span<const double> weights);
    double loss() const { return loss_; } // NaN without watched rows or rounds

    const std::vector<double>& bias() const { return bias_; }
    const std::vector<CodedTree>& trees() const { return trees_; } // output after output, by rounds
    int outputs() const { return objective_.outputs(); }

  private:
    std::vector<std::uint32_t> draw_blocks(std::uint64_t seed) const;
    void update_scores(std::span<const std::uint32_t> blocks);
    SumFormat find_gradients(std::span<const std::uint32_t> blocks, int output, std::uint64_t seed);
    float* scores(std::size_t block);
    std::vector<float> start_scores(const RowBlocks& rows) const;
    void update_watched();

    struct Watched {
        const RowBlocks& rows;
        BlockObjective objective;
        std::vector<float> scores;
        double weight;        // of all rows
        std::size_t seen = 0; // trees in the scores
    };

    const RowBlocks& rows_;
    Task task_;
    BoostingOptions options_;
    ThreadPool pool_;
    BlockObjective objective_;
    BlockGrower grower_;
    std::vector<double> bias_;
    std::vector<CodedTree> trees_;
    BlockForest forest_;
    std::vector<float> scores_;         // per block, lane and row
    std::vector<std::size_t> seen_;     // per block: trees in its scores
    std::vector<std::uint64_t> down_;   // per drawn block, of the output that is grown
    std::vector<std::uint64_t> packed_; // per row of the drawn blocks
    std::vector<float> gradients_;      // per drawn block: 64 gradients, 64 hessians
    std::uint64_t rounds_ = 0;          // draws that were made
    std::optional<Watched> watched_;
    double loss_ = std::numeric_limits<double>::quiet_NaN();
};

} // namespace carve
