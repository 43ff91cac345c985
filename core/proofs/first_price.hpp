// Of a large-spread ensemble, before any case: the best price of the whole capacity, from one walk
// over the trees. Where a first look is too coarse, it is often enough, and no reduction is built.
#pragma once

#include <cstdint>
#include <vector>

#include "large_spread/knapsack.hpp"
#include "large_spread/reach.hpp"
#include "model/objective.hpp"

namespace carve {

// One per thread.
class FirstPrice {
  public:
    explicit FirstPrice(const RoundedCosts& costs) : costs_(costs) {}

    // No attack brings the total below this at that price, objective.rounding_error() aside.
    struct Bound {
        double total;
        double price;
    };
    Bound bound(Reach& reach, Instance& instance, const Objective& objective);

  private:
    struct Visitor;

    const RoundedCosts& costs_;
    Knapsack knapsack_;
    std::vector<Option> options_;
};

} // namespace carve
