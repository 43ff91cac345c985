// What is left of an ensemble for one instance and one attacker: the trees pruned to the reach, in
// whole numbers.
//
// The thresholds that the attacker can cross cut each feature into cells 0, 1, …, so that all
// values of a cell take the same path everywhere; a leaf asks each feature on its path to be in a
// range of cells. Leaf values are whole multiples of one unit, rounded down, so that sums of them
// are exact, come in any order, and are lower bounds on the true totals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "large_spread/reach.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "numbers/units.hpp"
#include "running/stopwatch.hpp"
#include "search/blend.hpp"
#include "search/state_cells.hpp"

namespace carve {

class Domain;

// Where the parts of a compact reduction are in the whole.
struct Origin {
    std::vector<std::int32_t> tree;
    std::vector<std::int32_t> feature;
    std::vector<std::int32_t> cell; // per cell: the first of those that it joins
    // Of the whole, per cell, and per feature: where it is now; a feature that is nowhere: -1.
    std::vector<std::int32_t> joined;
    std::vector<std::int32_t> feature_of;
};

// Totals as multiples of 2^-shift, as fine as 64 bits allow for sums over all trees and features
// (numbers/units.hpp).
class FixedPoint {
  public:
    explicit FixedPoint(const Ensemble& ensemble);
    // Can the search count with an objective of this constant? All values of leaves fit with it.
    bool holds(double constant) const;
    // The largest multiple <= value, in units; `exact` is cleared unless it is the value itself.
    std::int64_t floor(double value, bool& exact) const;
    // The same for sum + error; at most one unit lower than the largest.
    std::int64_t floor(const TwoSum& value, bool& exact) const {
        return floor(value.sum, exact) + floor(value.error, exact);
    }
    // The largest double <= so many units.
    double lower(std::int64_t units) const;
    int shift() const { return shift_; }

  private:
    bool is_finite_; // the ensemble's magnitude
    int shift_ = 0;
};

class Reduction {
  public:
    struct Range { // of cells or segments, both included
        std::int32_t low;
        std::int32_t high;
    };
    struct Feature {
        std::int32_t id;    // in the ensemble
        std::int32_t home;  // the cell of the instance
        std::int32_t first; // its cells are [first, first + count) of `cost`
        std::int32_t count;
        std::int32_t first_cut;  // cut i, between cells i and i + 1, is cuts[first_cut + i]; if
                                 // finite, a state of cell i is
        std::int32_t slot_begin; // in slots_of_feature
        std::int32_t slot_end;
        bool finite;
        Range open;         // the cells that may hold anything of interest
        std::int32_t start; // the nearest of them to the instance
    };
    // A tree that looks at a feature; its own cuts join cells to segments.
    struct Slot {
        std::int32_t tree;
        std::int32_t feature;
        std::int32_t first; // segment s begins at cell segment_begin[first + s]
        std::int32_t count;
        std::int32_t range_begin; // in ranges
        std::int32_t range_end;
        std::int32_t user_begin; // in users
        std::int32_t user_end;
    };
    struct User { // a leaf with a demand on a slot
        std::int32_t leaf;
        std::int32_t range;
        std::int32_t entry; // the demand
    };
    struct Leaf {
        std::int64_t value;
        std::int32_t node; // in the ensemble
        std::int32_t rank; // by exact value among the leaves of its tree; equal values, equal ranks
        std::int32_t entry_begin;
        std::int32_t entry_end;
    };
    struct Entry { // a leaf's demand
        std::int32_t slot;
        std::int32_t range;
    };
    struct Tree {
        std::int32_t id;
        std::int32_t leaf_begin;
        std::int32_t leaf_end;
        std::int32_t slot_begin;
        std::int32_t slot_end;
        std::int64_t spread; // largest value less smallest
    };

    enum class Built { whole, interrupted, too_large };

    Reduction(const Ensemble& ensemble, const Attacker& attacker,
              std::size_t most_demands = units::most_demands);
    struct Compact {};
    // To be made a compact part of another one.
    Reduction(const Reduction& whole, Compact);
    // Prunes the trees to the reach of the instance; then `home`, `constant` and `least` are known.
    // Trees whose leaves all have the same value become constants, unless `keep_all`.
    Built prune(Instance& instance, const Objective& objective, bool keep_all,
                const Stopwatch& stopwatch);
    // After prune with `keep_all`: look at this instead of the objective.
    Built turn_to(const Blend& blend, const Stopwatch& stopwatch);
    // Completes what prune began, once: cells, slots, ranges.
    Built number(const Instance& instance, const Stopwatch& stopwatch);
    // Becomes what is left of a whole, numbered reduction of the same instance in a domain of it:
    // trees with one leaf alive are constants, cells that no leaf alive tells apart are one.
    void compact(const Reduction& whole, const Domain& domain, Origin& origin);

    // Totals that leaves, one of each tree, can add up to, whether or not they agree: the votes of
    // a forest are whole. The least that is not below this, and the largest that is below.
    std::int64_t total_from(std::int64_t least) const {
        const std::int64_t beyond = (least - some_total_) % step_;
        return beyond == 0 ? least : least - beyond + (beyond > 0 ? step_ : 0);
    }
    std::int64_t total_below(std::int64_t most) const { return total_from(most) - step_; }
    // The total of these leaves, one per tree of the ensemble, in units.
    std::int64_t total_of(const std::vector<std::int32_t>& nodes) const;

    // The states of a finite feature, and the cells they are in: the instance's own first, then
    // those that the attacker may choose.
    std::vector<std::pair<std::int32_t, std::int32_t>> states_of(std::int32_t feature,
                                                                 const Instance& instance) const;
    // The value that stands for a cell: the one nearest to the instance.
    double value(const Feature& feature, std::int32_t cell) const;
    // The cells of these segments of a slot, and the segments that these cells are part of.
    Range cells_of(const Slot& slot, const Range& segments) const {
        const std::int32_t* const begin = segment_begin.data() + slot.first;
        const std::int32_t end = segments.high + 1 < slot.count ? begin[segments.high + 1]
                                                                : features[slot.feature].count;
        return {begin[segments.low], end - 1};
    }
    Range segments_of(const Slot& slot, const Range& cells) const;
    // The sum of the rounded costs of cells, one per feature.
    double cost_of(const std::vector<std::int32_t>& cells) const;
    // Are these cells, one per feature, an attack within the budget? Exact; `cost` is the sum of
    // their rounded costs.
    bool affordable(const std::vector<std::int32_t>& cells, double cost) const;
    // Rounded costs of an affordable move differ from the exact ones by at most this in total.
    double slack() const { return slack_; }
    double capacity() const { return costs_.capacity(); }
    bool has_costs() const { return attacker_.norm != norm_inf; }

    std::vector<std::int32_t> home;    // per tree of the ensemble: the leaf of the instance, or the
                                       // only one
    std::vector<std::int32_t> settled; // the leaves of the trees that compact made constants
    std::int64_t constant = 0;         // of the objective and of the trees that are not in `trees`
    std::int64_t least = 0;            // constant + sum over trees of the smallest value
    std::int64_t doubt = 0;            // 0 <= true total - total in units <= doubt
    bool is_rounded = false;           // are values in `trees`, not constants alone?
    FixedPoint fixed;

    std::vector<Tree> trees;
    std::vector<Leaf> leaves;
    std::vector<Entry> entries;
    std::vector<Slot> slots;
    std::vector<Range> ranges;
    std::vector<User> users;
    std::vector<std::int32_t> segment_begin;
    std::vector<Feature> features;
    std::vector<std::int32_t> slots_of_feature;
    std::vector<double> cuts;
    std::vector<double> cost; // per cell, in units of the budget as RoundedCosts has it

  private:
    struct Interval { // (low, high]: what the path so far says of a feature
        double low = -std::numeric_limits<double>::infinity();
        double high = std::numeric_limits<double>::infinity();
    };
    struct Demand {
        std::int32_t feature;
        Interval interval; // of a finite feature, once its cells are known: the first and the last
        std::int64_t mask; // of a finite feature: where its states begin in masks_; -1
    };
    struct Pending {
        std::int32_t node;
        std::int32_t feature;
        double threshold;
        double cost;
        double spent;
        std::size_t trail;
        bool is_left;
        bool is_by_set;
    };
    struct Undo {
        std::int32_t feature;
        double spent;
        Interval interval;
    };
    bool walk(std::int32_t tree, Instance& instance, const Stopwatch& stopwatch);
    std::int32_t fork(std::int32_t split, double cost, const Instance& instance);
    void ask(std::int32_t leaf, const Instance& instance);
    StateMask mask_of(const Demand& demand) const;
    void enter(const Pending& step);
    double price(const Instance& instance, std::int32_t feature, const Interval& interval) const;
    struct Sizes { // before a tree
        std::size_t crossed;
        std::size_t masks;
    };
    void settle(std::int32_t tree, const Objective& objective, bool keep, const Sizes& before);
    // Has more been found than is worth searching?
    bool is_too_large() const {
        return demands_.size() > most_demands_ || masks_.size() > units::most_mask_words;
    }
    void add_feature(std::size_t& crossed, const Instance& instance);
    void add_finite_feature(std::size_t& crossed, const Instance& instance);
    // Leaves that ask a finite feature for several runs of cells become as many leaves.
    Built split_leaves(const Instance& instance, const Stopwatch& stopwatch);
    void choose_runs(const Leaf& leaf, std::vector<Demand>& chosen, std::size_t next, double spent);
    struct Ask {
        std::int32_t feature;
        Range cells;
        std::int32_t entry;
    };
    void list_asks(const Tree& tree);
    void add_slots(Tree& tree);
    void index_slots();
    void find_step();
    void join_cells(const Reduction& whole, const Domain& domain, Origin& origin);
    void add_alive(const Reduction& whole, const Domain& domain, std::int32_t tree,
                   const Origin& origin);
    std::int32_t cell_above(const Feature& feature, double threshold) const;

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    Blend blend_; // what values are those of
    std::size_t most_demands_;
    const double* x_ = nullptr; // the instance
    bool numbered_ = false;
    double lift_; // keeps tiny distances and budgets away from underflow
    RoundedCosts costs_;
    double slack_ = 0;
    std::int64_t step_ = 1; // all totals are some_total_ and a multiple of this
    std::int64_t some_total_ = 0;
    std::vector<std::uint64_t> masks_;
    std::vector<std::unique_ptr<StateCells>> cells_; // per feature of `features`, if it is finite
    std::vector<Demand> demands_; // of leaf i: demands_[leaves[i].entry_begin, entry_end)
    std::vector<std::pair<std::int32_t, double>> crossed_; // features and thresholds in reach
    std::vector<Ask> asks_;                                // of the tree at hand
    std::vector<Pending> pending_;
    std::vector<Undo> trail_;
    std::vector<double> spent_;
    std::vector<Interval> interval_;
    std::vector<std::int32_t> local_; // per feature of the ensemble: its place here, or -1
};

} // namespace carve
