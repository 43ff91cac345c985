// Witnesses for training: a point within the attacker's budget at which one instance's margin is
// small, found by steps of all features at once. For any ensemble, and any norm.
//
// The thresholds of a feature cut it into cells; moving feature f to cell c costs cost(f, c), and
// from where the finder stands it would change the margin by
//
//   effect(f, c) = sum over trees of the change of their leaf's value, other features staying put.
//
// Walking every tree once, with at most one feature off its cell, yields all effects. A pass then
// moves features to the cells that
//
//   minimise   sum over f of effect(f, c_f)   subject to   sum over f of cost(f, c_f) <= capacity
//
// over the lower convex hulls of (cost, effect), greedily: the best effect per cost first. As
// effects do not add up where features share trees, a share of the features, drawn anew in every
// pass, stays where it is. The lowest point that was passed is the witness.
//
// What is found is real: an upper bound on the worst margin. It need not be the worst; verdicts
// come from elsewhere. The work depends on the number of passes alone, never on the clock.
#pragma once

#include <cstdint>
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

// One per thread. An instance is loaded, a start chosen, then pressed.
class WitnessFinder {
  public:
    struct Effort {
        int passes = 2;
        double staying = 0.5; // share of the features that stay where they are in a pass
    };

    WitnessFinder(const Ensemble& ensemble, const CutTrees& trees, const Attacker& attacker);

    // The row must stay where it is while it is pressed. Stands at the instance itself afterwards.
    void load(const Rows& rows, std::int64_t row);
    // Stands at a witness of the loaded instance.
    void stand_at(std::span<const CellMove> moves);
    // Stands where z is; false, and at the instance itself, where z is not affordable.
    bool stand_at(const double* z);

    // The lowest margin found of class `label` against any other, as a raw score, with scores that
    // have a row per leaf and a column per output; `seed` draws the features that stay.
    double press(const double* scores, int label, const Effort& effort, std::uint64_t seed);

    // Of the lowest point found last:
    std::span<const std::int32_t> leaves() const { return best_leaves_; } // rows of the scores
    int rival() const { return best_rival_; }                             // several outputs only
    const std::vector<CellMove>& moves() const { return best_moves_; }

    // The witness that the finder stands at.
    std::vector<CellMove> standing();
    // Writes a witness of the loaded instance over z, which holds the instance. False: it is not
    // within the budget, exactly; which does not happen to what was found here.
    bool write(std::span<const CellMove> moves, double* z);

  private:
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
    struct Pending {
        std::int32_t node;
        std::int32_t feature;
        std::int32_t low; // cells; of a finite feature: listed_states_[low … high)
        std::int32_t high;
    };
    struct Range { // cells within reach, and the instance's own
        std::int32_t low;
        std::int32_t high;
        std::int32_t home;
    };

    bool goes_left(const CutTrees::Node& node) const {
        const double value = at_[static_cast<std::size_t>(node.feature)];
        if (value <= node.threshold)
            return true;
        return value != value ? node.missing_left : node.by_set && lists(node, value);
    }
    bool lists(const CutTrees::Node& node, double state) const {
        return ensemble_.sets.holds(static_cast<std::size_t>(node.place), state);
    }
    bool is_finite(std::int32_t feature) const {
        return has_states_ && ensemble_.grid_of(feature) == Grid::finite;
    }
    double value(std::int32_t leaf) const {
        const auto row = static_cast<std::size_t>(leaf) * outputs_;
        return outputs_ == 1 ? sign_ * scores_[row] : scores_[row + plus_] - scores_[row + minus_];
    }
    const Range& range(std::int32_t feature) {
        const auto f = static_cast<std::size_t>(feature);
        if (known_[f] != load_)
            find_range(feature);
        return range_[f];
    }
    void find_range(std::int32_t feature);
    double value_of(std::int32_t feature, std::int32_t cell);
    double cost(std::int32_t feature, std::int32_t cell);
    void move(std::int32_t feature, std::int32_t cell);
    double margin_here(int label);
    void find_effects();
    void find_effects_below(Pending step, double here);
    // The child that the step goes on to; the other one may be put aside.
    std::int32_t step_by_set(Pending& step);
    void list_others(std::int32_t feature, const CutTrees::Node& split, bool goes);
    void add_effect(const Pending& leaf, double change);
    void choose_moves(double staying, bool at_home, std::uint64_t& random);
    // Takes the segments that fit into what is left of the capacity, in their order.
    void spend(double left);
    // Is the point where the finder stands within the budget? Exact.
    bool is_affordable();
    void add_segments(std::int32_t feature);
    void add_best_state(std::int32_t feature);
    void keep();

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

    std::vector<double> at_;           // per feature: where the finder stands
    std::vector<std::int32_t> cell_;   // per feature that is moved: its cell
    std::vector<std::int32_t> moved_;  // features off home, and perhaps others
    std::vector<std::uint8_t> listed_; // per feature: is it in moved_?
    std::vector<std::int32_t> changed_;
    std::vector<Range> range_;
    std::vector<std::uint32_t> known_; // the load for which range_ holds
    std::uint32_t load_ = 0;

    std::vector<std::int32_t> leaves_; // per tree
    std::vector<double> total_;        // per output
    std::vector<double> effect_;       // per cell: differences of neighbours, then sums
    std::vector<std::int32_t> touched_;
    std::vector<std::uint8_t> is_touched_;
    std::vector<Pending> pending_;
    std::vector<std::int32_t> listed_states_; // of the steps put aside
    std::vector<Corner> hull_;
    std::vector<Segment> segments_;
    std::vector<std::uint8_t> is_full_;

    std::vector<std::int32_t> best_leaves_;
    std::vector<CellMove> best_moves_;
    int best_rival_ = 0;
};

} // namespace carve
