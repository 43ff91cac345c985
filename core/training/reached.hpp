// Leaves within reach of a block of rows: found once, stored small, used for many scores.
//
// There are two forms. Where the limits of each feature say it all (norm inf), every leaf within
// reach can be had for nothing, and rows are looked at tree by tree, while the tree's scores are at
// hand: reach_by_limits.hpp. Where moves share a budget, leaves have costs, and a row's trees are
// looked at together: reach_by_costs.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/ensemble.hpp"

namespace carve {

// Leaves by number: those of a tree follow one another, in the order of its nodes.
class LeafNumbers {
  public:
    explicit LeafNumbers(const Ensemble& ensemble);

    std::size_t size() const { return row_.size(); }
    // Tree t has the leaves [first(t), first(t + 1)).
    std::int32_t first(int tree) const { return first_[static_cast<std::size_t>(tree)]; }
    std::int32_t of(std::int32_t node) const { return number_[static_cast<std::size_t>(node)]; }
    // Where the scores have the leaf.
    std::int32_t row(std::int32_t number) const { return row_[static_cast<std::size_t>(number)]; }
    // Leaves counted within their tree fit in 16 bits.
    bool narrow() const { return narrow_; }

  private:
    std::vector<std::int32_t> first_;
    std::vector<std::int32_t> number_; // per node; at a split without meaning
    std::vector<std::int32_t> row_;
    bool narrow_ = true;
};

struct Reached {
    // By limits: tree by tree, row by row, the number of leaves less one, then these leaves,
    // counted within their tree, in ascending order. One of the two is used.
    std::vector<std::uint16_t> narrow;
    std::vector<std::uint32_t> wide;

    // By costs, row by row:
    struct Contest {       // a tree with several leaves within reach
        std::int32_t tree; //
        std::int32_t end;  // of its entries in `leaf` and `cost`
    };
    std::vector<std::int32_t> home; // per row and tree: the number of the leaf the row falls into
    std::vector<std::int32_t> end;  // per row: of its contests
    std::vector<Contest> contests;
    std::vector<std::int32_t> leaf; // numbers of other leaves within reach, by increasing cost
    std::vector<float> cost;

    void clear();
    void shrink();
    std::size_t memory() const; // in bytes
};

} // namespace carve
