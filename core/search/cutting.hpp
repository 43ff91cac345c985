// Where to cut a domain in two.
//
// A good cut leaves little on either side. A leaf weighs what its tree would lose at least in being
// denied it, compared with the tree's other leaves; a cut of a feature denies leaves that lie on
// its other side, and those that the budget does not pay for any more. The cut whose two sides are
// denied the most, as a product, is taken. (Bounds of the dual say less: where they are far from
// the truth, they are about the same on both sides of every cut.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/domain.hpp"
#include "search/reduction.hpp"

namespace carve {

class Cutting {
  public:
    Cutting(const Reduction& reduction, const Domain& domain)
        : reduction_(reduction), domain_(domain) {}

    struct Place {
        std::int32_t feature;
        std::int32_t last; // cells up to this one go left
    };
    // None if every feature has one cell left.
    std::optional<Place> choose();

  private:
    void weigh_leaves();
    void price_leaves();
    double priced_out(double extra) const;

    const Reduction& reduction_;
    const Domain& domain_;
    std::vector<double> weight_; // per leaf
    struct Room {
        double left;   // of the budget, once a leaf is paid for
        double weight; // of the leaves that leave no more
    };
    std::vector<Room> room_;
    std::vector<double> ending_; // per cell of the feature at hand
    std::vector<double> beginning_;
};

} // namespace carve
