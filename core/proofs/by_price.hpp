// Cases of large-spread ensembles: no two trees share an axis, so that a price is all that a bound
// takes, and what it leaves is a knapsack that does not come out even.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "large_spread/knapsack.hpp"
#include "model/objective.hpp"
#include "search/cutting.hpp"
#include "search/domain.hpp"
#include "search/reduction.hpp"

namespace carve {

class ByPrice {
  public:
    ByPrice(const Reduction& reduction, const Domain& domain)
        : reduction_(reduction), domain_(domain) {}

    // The best price of the whole capacity, and what no attack in the domain brings the total
    // below at that price, objective.rounding_error() aside.
    struct Bound {
        double total;
        double price;
    };
    Bound bound(const Objective& objective);
    // After it: between taking and leaving the dearest demand of the leaves that it takes, in part
    // or whole; none if nothing costs anything. Small costs then fill the capacity almost evenly,
    // and what is above it by no more than rounding is seen where all is taken.
    std::optional<Cutting::Place> cut() const;

  private:
    const Reduction& reduction_;
    const Domain& domain_;
    Knapsack knapsack_;
    std::vector<Option> options_;
    std::int32_t partial_ = -1; // leaf
};

} // namespace carve
