// Trees as flat arrays, laid out for walking: every tree in depth-first order, so that a split's
// left child is the node after it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "numbers/exact.hpp"

namespace carve {

// As the Python side stores a node (carvegbm.ensemble.NODE).
struct StoredNode {
    double threshold;
    std::int32_t feature; // -1 at a leaf
    std::int32_t left;    // at a leaf: its row in the scores
    std::int32_t right;
    std::int32_t missing; // 1 left, 0 right, -1 no rule
};
static_assert(sizeof(StoredNode) == 24);

// x goes left (to the next node) iff x[feature] <= threshold, else to `right`.
struct Node {
    double threshold;     // at a leaf of a single-output ensemble: its score
    std::int32_t feature; // -1 at a leaf
    std::int32_t right;   // at a leaf: its row in the scores
    bool is_leaf() const { return feature < 0; }
};
static_assert(sizeof(Node) == 16);

// Where NaN goes at a split.
enum class Missing : std::int8_t { no_rule = -1, right = 0, left = 1 };

// What an ensemble is beside its trees: how sums of leaf scores become decisions.
struct Form {
    double threshold; // of the raw score
    int n_features;
    int average;       // raw score = sum / average
    bool tie_positive; // binary: the positive class wins at the threshold, else the negative one
    bool float32_inputs;
    bool float32_sums;
};

class Ensemble : public Form {
  public:
    Ensemble(std::span<const StoredNode> stored, std::span<const std::int32_t> roots,
             std::vector<double> scores, std::vector<double> base_score, const Form& form);

    int n_trees() const { return static_cast<int>(roots.size()) - 1; }
    int n_outputs() const { return static_cast<int>(base_score.size()); }
    double score(std::int32_t node, int output) const {
        const Node& leaf = nodes[static_cast<std::size_t>(node)];
        return n_outputs() == 1 ? leaf.threshold
                                : scores[static_cast<std::size_t>(leaf.right) * base_score.size() +
                                         static_cast<std::size_t>(output)];
    }
    // The next number above `value` on the grid of this ensemble's inputs.
    double next_above(double value) const {
        return float32_inputs ? std::nextafter(static_cast<float>(value), HUGE_VALF)
                              : next_up(value);
    }

    // The leaf that `routed` (x rounded to the input grid) falls into.
    std::int32_t leaf_of(int tree, const double* routed) const;

    std::vector<Node> nodes;
    std::vector<std::int32_t> roots;  // tree t holds nodes [roots[t], roots[t + 1])
    std::vector<std::int32_t> parent; // -1 at a root
    std::vector<Missing> missing;
    std::vector<double> scores; // row-major, a row per leaf
    std::vector<double> base_score;

    std::vector<std::int32_t> used_features;      // features some split tests, ascending
    std::vector<std::uint8_t> lacks_missing_rule; // per feature: some split has no rule for NaN
    // Per tree: some split is decided by an earlier split on the same path, so that not every
    // leaf can be reached by real values.
    std::vector<std::uint8_t> tangled;
    int depth = 0;        // most splits on a path
    double magnitude = 0; // |base| + |threshold * average| + sum over trees of the largest |score|

  private:
    void append_tree(std::span<const StoredNode> stored, std::int32_t root);
    void inspect_tree(int tree);
};

} // namespace carve
