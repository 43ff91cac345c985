// A first look at costs that add up: the leaf of every tree that gains most beyond its price, at a
// few prices of the capacity.
//
// At any price, no affordable choice gains more than the whole capacity is worth and what every
// tree can gain beyond its price, together: where the margin is larger, no attack wins. And what
// is chosen at a price is an attack if it is affordable. Most instances are decided so, by one walk
// and without the knapsack; their worst margin is not known then.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "large_spread/reach.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"

namespace carve {

// One per thread.
class FirstLook {
  public:
    FirstLook(const Ensemble& ensemble, const RoundedCosts& costs);

    // Walks all trees; fills `home` with the leaves of the instance itself, and returns their
    // total.
    LongSum walk(Reach& reach, Instance& instance, const Objective& objective,
                 std::vector<std::int32_t>& home);
    // No affordable choice gains more; objective.rounding_error() aside. And the price of the whole
    // capacity that says so.
    struct Most {
        double gain;
        double price;
    };
    Most most_gain() const;
    // An affordable choice that gains much, per tree; false if there is none.
    bool choose(std::vector<std::int32_t>& leaf) const;

  private:
    static constexpr std::size_t count = 4;
    using PerPrice = std::array<double, count>;
    struct Choice { // of one tree, per price
        PerPrice surplus;
        PerPrice cost;
        std::array<std::int32_t, count> leaf;
    };
    struct Visitor;

    const RoundedCosts& costs_;
    PerPrice of_capacity_;        // prices of all of it, rising
    PerPrice prices_;             // the same, of a unit of cost
    std::vector<Choice> choices_; // per tree
    PerPrice surplus_;            // of all trees
};

} // namespace carve
