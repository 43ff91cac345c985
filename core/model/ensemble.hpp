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

// As the Python side stores a node (carvegbm.model.nodes.NODE).
struct StoredNode {
    double threshold;
    std::int32_t feature; // -1 at a leaf
    std::int32_t left;    // at a leaf: its row in the scores
    std::int32_t right;
    std::int32_t missing; // 1 left, 0 right, -1 no rule
};
static_assert(sizeof(StoredNode) == 24);

// x goes left (to the next node) iff x[feature] <= threshold, else to `right`; at a split by a set
// of states iff the state x[axis()] is in the set.
struct Node {
    double threshold;     // at a leaf of a single-output ensemble: its score; of a set: its number
    std::int32_t feature; // -1 at a leaf; -2 - axis at a split by a set
    std::int32_t right;   // at a leaf: its row in the scores
    bool is_leaf() const { return feature == -1; }
    bool is_by_set() const { return feature < -1; }
    // The feature that any split looks at; -1 at a leaf.
    std::int32_t axis() const { return feature >= -1 ? feature : -2 - feature; }
};
static_assert(sizeof(Node) == 16);

// What values of a feature look like to its splits.
enum class Grid : std::uint8_t {
    real,   // numbers, rounded to the precision of the inputs
    whole,  // whole numbers: steps of a lattice, never rounded
    finite, // one of the states 0, 1, …, in no order; -1: none of them
};

// Sets of states: set i is the bits of words [starts[i], starts[i + 1]); no state beyond is in it.
struct StateSets {
    std::vector<std::int64_t> starts;
    std::vector<std::uint64_t> words;
    bool empty() const { return starts.empty(); }
    std::span<const std::uint64_t> operator[](std::size_t set) const {
        const auto begin = static_cast<std::size_t>(starts[set]);
        return {words.data() + begin, static_cast<std::size_t>(starts[set + 1]) - begin};
    }
    bool holds(std::size_t set, double state) const {
        if (!(state >= 0))
            return false;
        const auto bits = (*this)[set];
        const auto place = static_cast<std::size_t>(state);
        return place / 64 < bits.size() && (bits[place / 64] >> (place % 64) & 1) != 0;
    }
};

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
    std::vector<Grid> grid{}; // per feature; empty: all real
    StateSets sets{};         // that splits of finite features ask for
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
    Grid grid_of(std::int32_t feature) const {
        return grid.empty() ? Grid::real : grid[static_cast<std::size_t>(feature)];
    }
    // The next number above `value` on the grid of the feature.
    double next_above(std::int32_t feature, double value) const {
        if (grid_of(feature) == Grid::whole)
            return value + 1;
        return float32_inputs ? std::nextafter(static_cast<float>(value), HUGE_VALF)
                              : next_up(value);
    }
    // Of a split by a set: 64 of the states in it, as bits.
    std::uint64_t listed(const Node& split, std::size_t word) const {
        const auto bits = sets[static_cast<std::size_t>(split.threshold)];
        return word < bits.size() ? bits[word] : 0;
    }
    // Is the state in it?
    bool lists(const Node& split, double state) const {
        return sets.holds(static_cast<std::size_t>(split.threshold), state);
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
    // Per tree: some split is by a set, or is decided by an earlier split on the same path, so that
    // not every leaf can be reached by real values.
    std::vector<std::uint8_t> tangled;
    std::vector<std::uint8_t> repeats; // per tree: some path tests a feature twice
    // Per node, of ensembles with one output: the smallest and the largest score below it.
    std::vector<double> lowest;
    std::vector<double> highest;
    int depth = 0;        // most splits on a path
    double magnitude = 0; // |base| + |threshold * average| + sum over trees of the largest |score|

  private:
    void append_tree(std::span<const StoredNode> stored, std::int32_t root);
    void inspect_tree(int tree);
    void find_extremes();
};

} // namespace carve
