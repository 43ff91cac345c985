// Witnesses for training: points within the attacker's budget at which the margins of rows are
// small, found by steps of all features at once. For any ensemble, and any norm.
//
// The thresholds of a feature cut it into cells; moving feature f to cell c costs cost(f, c), and
// from the current point it would change the margin by
//
//   effect(f, c) = sum over trees of the change of their leaf's value, other features fixed.
//
// One traversal of every tree finds all effects of up to 64 rows, a bit for each: on the way to a
// node it knows the rows whose point gets there, and, per feature, the rows that would if that
// feature alone were moved. A pass then moves features to the cells that
//
//   minimise   sum over f of effect(f, c_f)   subject to   sum over f of cost(f, c_f) <= capacity
//
// over the lower convex hulls of (cost, effect), greedily: the best effect per cost first. As
// effects do not add up where features share trees, a share of the features, drawn anew in every
// pass, stays where it is. The lowest point seen is the witness.
//
// A witness gives an upper bound on the worst margin; it need not be the worst. The result of a
// row depends on its seed and the number of passes, not on the other rows or the clock.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "large_spread/reach.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "training/cut_trees.hpp"

namespace carve {

// A feature that a witness moves, and the cell it moves it to.
struct CellMove {
    std::int32_t feature;
    std::int32_t cell;
};

// One per thread.
class WitnessFinder {
  public:
    static constexpr std::size_t most_rows = 64;

    struct Effort {
        int passes = 2;
        double staying = 0.5; // share of the features that stay where they are in a pass
    };
    struct Row {
        std::int64_t number;
        std::int32_t label;          // the class whose margin is lowered
        std::uint64_t seed;          // draws the features that stay
        std::vector<CellMove> moves; // to the point to start from, then to the witness
        double margin = std::numeric_limits<double>::infinity(); // there, as a raw score
        int rival = 0;                      // that it is against; several outputs only
        std::vector<std::int32_t> leaves{}; // per tree: the row of the scores
    };

    WitnessFinder(const Ensemble& ensemble, const CutTrees& trees, const Attacker& attacker);

    // Improves the witnesses of at most `most_rows` rows; scores have a row per leaf and a column
    // per output.
    void improve(const Rows& rows, std::span<Row> block, const double* scores,
                 const Effort& effort);
    // The moves from the row to z; none where z is not affordable.
    std::vector<CellMove> moves_to(const Rows& rows, std::int64_t row, const double* z);
    // Writes a witness over z, which holds the row. False: it is not within the budget, exactly,
    // which does not happen to what `improve` found.
    bool write(const Rows& rows, std::int64_t row, std::span<const CellMove> moves, double* z);

  private:
    using Bits = std::uint64_t; // a bit per row of the block

    struct Segment { // of a feature's hull
        double rate; // effect per cost, >= 0
        double cost;
        std::int32_t feature;
        std::int32_t cell;
    };
    struct Corner { // of a feature's hull
        double cost;
        double effect;
        std::int32_t cell;
    };
    struct Range { // cells within reach, and the row's own
        std::int32_t low;
        std::int32_t high;
        std::int32_t home;
    };
    struct Known { // the range of the value of a feature seen last
        double value = std::numeric_limits<double>::quiet_NaN();
        Range range{};
    };
    // What a path asks of a feature: a cell in [low, high], or in the set of cells at `set`.
    struct Demand {
        std::int32_t feature;
        std::int32_t low;
        std::int32_t high;
        std::int32_t set; // in set_words_; -1: an interval
        Bits rows;        // that would get here if this feature alone were moved
    };
    struct Visit { // of a node
        std::int32_t node;
        Bits rows;         // whose point gets there
        std::size_t begin; // of its demands
        std::size_t count;
    };
    struct Target { // a leaf that moving one feature leads to
        Demand demand;
        std::int32_t tree;
        std::int32_t leaf;
    };

    bool is_finite(std::int32_t feature) const {
        return has_states_ && ensemble_.grid_of(feature) == Grid::finite;
    }
    std::size_t at(std::int32_t feature, std::size_t row) const {
        return row * to_.size() + static_cast<std::size_t>(feature);
    }
    const Range& range(std::int32_t feature) const { return ranges_[at(feature, row_)]; }
    double value(std::int32_t leaf) const {
        const auto row = static_cast<std::size_t>(leaf) * outputs_;
        return outputs_ == 1 ? sign_ * scores_[row] : scores_[row + plus_] - scores_[row + minus_];
    }
    // The block:
    void load(const Rows& rows, std::span<const std::int64_t> numbers);
    Range find_range(std::int32_t feature);
    void place(std::int32_t feature, std::int32_t cell);
    Bits rows_left(const CutTrees::Node& node, Bits rows) const;
    void find_leaves(bool with_targets);
    void descend(const CutTrees::Node& node, bool to_left, Bits on, Bits rows, Visit& child);
    std::int32_t set_below(const CutTrees::Node& node, bool to_left, std::int32_t above);
    // Row `row_` of it, which `select` loads:
    void select(const Rows& rows, std::int64_t number, std::size_t row);
    double find_margin(std::int32_t label);
    void add_effects();
    void choose_moves(double staying, bool at_home, std::uint64_t& random);
    // Takes the segments that fit into what is left of the capacity, in their order.
    void spend(double left);
    // Is the point that was chosen within the budget? Exact.
    bool is_affordable();
    void add_segments(std::int32_t feature);
    void add_best_state(std::int32_t feature);
    double value_of(std::int32_t feature, std::int32_t cell) const;
    double cost(std::int32_t feature, std::int32_t cell) const;
    void move(std::int32_t feature, std::int32_t cell);
    void place_moves();
    std::vector<CellMove> moves() const;

    const Ensemble& ensemble_;
    const CutTrees& trees_;
    const Attacker& attacker_;
    RoundedCosts costs_;
    double capacity_; // what costs more, after rounding, is not affordable
    double sure_;     // what costs no more is
    Instance instance_;
    bool has_states_; // of any feature

    const double* scores_ = nullptr;
    std::size_t outputs_;
    double sign_ = 1;
    std::size_t plus_ = 0;
    std::size_t minus_ = 0;

    // The block: per row and feature, per cut, per feature.
    std::size_t rows_ = 0;
    std::vector<Known> known_;
    std::vector<Range> ranges_;
    std::vector<std::int32_t> cells_; // of the current points
    std::vector<Bits> left_;          // rows whose point is left of the cut
    std::vector<Bits> can_left_;      // rows that can be moved there
    std::vector<Bits> can_right_;
    std::vector<Bits> missing_;
    std::vector<Bits> may_switch_;
    std::vector<std::int32_t> leaves_; // per row and tree
    std::vector<Visit> pending_;
    std::vector<Demand> demands_;
    std::vector<Bits> set_words_;
    std::vector<Target> targets_;
    std::vector<std::vector<std::uint32_t>> reached_; // per row, of targets_

    // The selected row:
    std::size_t row_ = 0;
    std::vector<double> to_;           // per feature that is moved: its value
    std::vector<std::int32_t> moved_;  // features off home, and perhaps others
    std::vector<std::uint8_t> listed_; // per feature: is it in moved_?
    std::vector<std::int32_t> chosen_; // per feature that is moved: its cell
    std::vector<std::int32_t> changed_;
    std::vector<double> total_;  // per output
    std::vector<double> effect_; // per cell: differences of neighbours, then sums
    std::vector<std::int32_t> touched_;
    std::vector<std::uint8_t> is_touched_;
    std::vector<Corner> hull_;
    std::vector<Segment> segments_;
    std::vector<std::uint8_t> is_full_;
};

} // namespace carve
