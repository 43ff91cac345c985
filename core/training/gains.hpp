// Values and gains: what rows that are given one value do to the loss.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "training/grower.hpp"
#include "training/sums.hpp"

namespace carve {

struct ValueBounds { // of the values in a subtree
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
};

// Sums as numbers: the gradient less its l1, and the hessian with its l2.
struct Figures {
    double leaning;
    double weight;

    double value(const ValueBounds& bounds) const {
        return weight > 0 ? std::clamp(-leaning / weight, bounds.low, bounds.high) : 0;
    }
    // How much the loss falls, twice, if the rows are given this value.
    double fall(double given) const { return -(2 * leaning * given + weight * given * given); }
    double fall(const ValueBounds& bounds) const { return fall(value(bounds)); }
    // < 0 iff this value, without bounds, is lower than the other; without divisions.
    double slant(const Figures& other) const {
        return other.leaning * weight - leaning * other.weight;
    }
};

class Gains {
  public:
    Gains(const SumUnits& sum_units, const GrowerOptions& options)
        : units(sum_units), options_(options) {}

    Figures figures(const Sums& sums) const {
        const double gradient = units.gradient(sums);
        const double rest = std::max(0.0, std::fabs(gradient) - options_.l1);
        return {gradient < 0 ? -rest : rest, units.hessian(sums) + options_.l2};
    }
    bool may_be_leaf(const Sums& sums) const {
        return units.rows(sums) >= options_.least_rows &&
               units.hessian(sums) >= options_.least_hessian;
    }

    SumUnits units;

  private:
    const GrowerOptions& options_;
};

// A split that a leaf may be given.
struct Cut {
    double gain = 0;
    int feature = -1;
    bool left_lower = true;
    int position = 0;
    bool missing_left = false;
    bool by_set = false;
    CodeSet set{};
    Sums left{};

    bool exists() const { return feature >= 0; }
};

// What a leaf is to those who look for its best cut.
struct LeafFigures {
    Sums sums;
    ValueBounds bounds;
    double before;      // its own fall, and the least gain
    std::uint64_t draw; // a number that looks random, of this leaf and feature
};

// The best cut of a categorical feature, if it is better than `best`; `bins` are sums per byte.
void find_best_set(const Gains& gains, const Codes& codes, int feature, const Sums* bins,
                   const LeafFigures& leaf, bool drawn, Cut& best);

} // namespace carve
