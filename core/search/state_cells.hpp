// The cells of a finite feature: its states, joined where all that is asked of them is the same,
// and put in an order in which what is asked for is runs of cells, as far as that goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace carve {

// A set of states as bits in words; the last word is 1 iff the instance's own state is in it, be it
// one that the attacker may choose or not.
using StateMask = std::span<const std::uint64_t>;

class StateCells {
  public:
    struct Run { // of cells, both included
        std::int32_t low;
        std::int32_t high;
    };
    struct Asked { // by leaves
        StateMask mask;
        double lean; // how much higher their values are than those of others, in total
        double leaves;
    };
    // `allowed` are the states that the attacker may choose; masks have as many words and one more,
    // and no mask is asked for twice.
    StateCells(std::span<const std::uint64_t> allowed, const std::vector<Asked>& asked);

    std::int32_t count() const { return static_cast<std::int32_t>(states_.size()); }
    std::int32_t home() const { return home_; }
    // A state that stands for the cell; of that of the instance, -1.
    double state(std::int32_t cell) const { return states_[static_cast<std::size_t>(cell)]; }
    // The places of all states, the instance's own (after all others) first, and their cells.
    const std::vector<std::pair<std::size_t, std::int32_t>>& members() const { return members_; }
    // The cells of a mask, which must be one of those asked for.
    std::vector<Run> runs(StateMask mask) const;

  private:
    using Members = std::vector<std::uint64_t>; // which masks hold a cell, as bits
    double runs_in(const std::vector<const Members*>& order, const std::vector<Asked>& asked) const;

    std::vector<double> states_;
    std::int32_t home_ = 0;
    std::vector<std::pair<std::size_t, std::int32_t>> members_;
    std::vector<std::size_t> place_; // per cell: the bit of a mask that stands for it
};

} // namespace carve
