// The cells of a finite feature: its states, joined where all that is asked of them is the same,
// and put in an order in which what is asked for is runs of cells, as far as that goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
    // `allowed` are the states that the attacker may choose; `masks` all that is asked for, of as
    // many words and one more.
    StateCells(std::span<const std::uint64_t> allowed, const std::vector<StateMask>& masks);

    std::int32_t count() const { return static_cast<std::int32_t>(states_.size()); }
    std::int32_t home() const { return 0; }
    // A state that stands for the cell; of that of the instance, -1.
    double state(std::int32_t cell) const { return states_[static_cast<std::size_t>(cell)]; }
    // The cells of a mask, which must be one of those asked for.
    std::vector<Run> runs(StateMask mask) const;

  private:
    std::vector<double> states_;
    std::vector<std::size_t> place_; // per cell: the bit of a mask that stands for it
};

} // namespace carve
