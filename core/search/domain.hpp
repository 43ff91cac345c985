// Where the search stands: per feature the cells still open, per tree the leaves still alive, and
// how to get back.
//
// Everything closed here is closed by proof: no attack that the search still looks for uses it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "running/stopwatch.hpp"
#include "search/reduction.hpp"

namespace carve {

class Domain {
  public:
    // What propagate concludes: all that it can, or only what is out of reach.
    enum class Conclusions : std::uint8_t { all, reach };
    explicit Domain(const Reduction& reduction, Conclusions conclusions = Conclusions::all)
        : reduction_(reduction), conclusions_(conclusions) {}
    void reset();

    std::int32_t low(std::int32_t feature) const { return box_[feature].low; }
    std::int32_t high(std::int32_t feature) const { return box_[feature].high; }
    // The segments of a slot that are open, in whole or in part.
    const Reduction::Range& open(std::int32_t slot) const { return open_[slot]; }
    // The leaves alive are alive(tree, 0), …, alive(tree, alive_count(tree) - 1).
    std::int32_t alive_count(std::int32_t tree) const { return count_[tree]; }
    std::int32_t alive(std::int32_t tree, std::int32_t i) const {
        return order_[reduction_.trees[tree].leaf_begin + i];
    }
    std::int64_t all_alive() const { return all_alive_; }
    // The leaves alive with a demand on a slot.
    std::span<const Reduction::User> users(std::int32_t slot) const {
        return {users_.data() + reduction_.slots[slot].user_begin,
                static_cast<std::size_t>(user_count_[slot])};
    }
    // The least a feature costs in its open cells, and what the budget leaves for more.
    double committed(std::int32_t feature) const { return least_cost(feature, box_[feature]); }
    double remaining() const { return remaining_; }
    // The least that the feature costs in these cells.
    double least_cost(std::int32_t feature, const Reduction::Range& cells) const {
        const auto& f = reduction_.features[feature];
        const double* const cost = reduction_.cost.data() + f.first;
        return cells.low > f.home ? cost[cells.low] : cells.high < f.home ? cost[cells.high] : 0;
    }
    // The open cells of these segments.
    Reduction::Range cells_of(const Reduction::Slot& slot, const Reduction::Range& segments) const;
    // What a demand costs on top of what is committed to its feature.
    double extra_cost(const Reduction::Entry& entry) const {
        const auto& slot = reduction_.slots[entry.slot];
        return least_cost(slot.feature, cells_of(slot, reduction_.ranges[entry.range])) -
               committed(slot.feature);
    }

    // Keep only cells low to high of those open.
    void restrict(std::int32_t feature, std::int32_t low, std::int32_t high);
    // Let the i-th leaf alive die.
    void kill(std::int32_t tree, std::int32_t i);
    // Draws conclusions; false iff nothing is left, or time is up.
    bool propagate(const Stopwatch& stopwatch);

    struct Mark {
        std::size_t boxes;
        std::size_t counts;
    };
    Mark mark() const { return {boxes_.size(), counts_.size()}; }
    void undo(const Mark& mark);

  private:
    using Range = Reduction::Range;
    void set_box(std::int32_t feature, const Range& cells);
    void leave_slots(std::int32_t leaf);
    void return_to_slots(std::int32_t leaf);
    bool tighten_by_cost();
    bool propagate_tree(std::int32_t tree);

    const Reduction& reduction_;
    Conclusions conclusions_;
    std::vector<Range> box_;
    std::vector<Range> open_;
    std::vector<std::int32_t> order_;
    std::vector<std::int32_t> count_;
    std::int64_t all_alive_ = 0;
    std::vector<Reduction::User> users_;   // as in the reduction, per slot those alive first
    std::vector<std::int32_t> user_place_; // per entry: where its user is
    std::vector<std::int32_t> user_count_; // per slot: how many are alive
    double remaining_ = 0;
    std::vector<std::uint8_t> dirty_; // per tree: something changed since it was looked at
    double settled_remaining_ = 0;    // the least remaining_ at which all trees were looked at
    struct BoxUndo {
        std::int32_t feature;
        Range cells;
    };
    struct CountUndo {
        std::int32_t tree;
        std::int32_t count;
    };
    std::vector<BoxUndo> boxes_;
    std::vector<CountUndo> counts_;
    std::vector<double> extra_; // per range of the tree at hand
    std::vector<Range> hull_;
    std::vector<std::int32_t> nearest_;
    std::vector<std::int32_t> asked_;
};

} // namespace carve
