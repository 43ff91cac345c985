// What the attacker pushes down: the margin of the class that holds the decision.
//
// total value = constant + sum over trees of value(leaf), in units of raw score times `average`;
// the attack wins iff the total falls below zero, or to zero where a tie goes to the other side.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/ensemble.hpp"
#include "numbers/exact.hpp"
#include "numbers/multiples.hpp"

namespace carve {

class Objective {
  public:
    // Binary: the margin of the positive (or negative) class.
    static Objective binary(const Ensemble& ensemble, bool positive);
    // Multiclass: score of `held` less score of `rival`; the first of equal scores wins.
    static Objective rivals(const Ensemble& ensemble, int held, int rival);
    // Regression: the output itself (times average), or its negative.
    static Objective output(const Ensemble& ensemble, bool negated);
    // How far the output is from falling (or rising) by more than `limit`, a sum of doubles in the
    // units of totals, below (above) what it is in the leaves `home`: the attack wins iff it does.
    static Objective change(const Ensemble& ensemble, const std::vector<std::int32_t>& home,
                            bool rises, std::span<const double> limit);

    double value(std::int32_t leaf) const {
        return single_ ? sign_ * ensemble_->nodes[static_cast<std::size_t>(leaf)].threshold
                       : ensemble_->score(leaf, plus_) - ensemble_->score(leaf, minus_);
    }
    // value(leaf) and what rounding took from it, where that is needed.
    TwoSum exact_value(std::int32_t leaf) const {
        return single_ ? TwoSum{value(leaf), 0.0}
                       : two_sum(ensemble_->score(leaf, plus_), -ensemble_->score(leaf, minus_));
    }
    // No leaf below a node has a smaller value.
    double least(std::int32_t node) const {
        if (!single_)
            return -std::numeric_limits<double>::infinity();
        const auto n = static_cast<std::size_t>(node);
        return sign_ > 0 ? ensemble_->lowest[n] : -ensemble_->highest[n];
    }
    bool single_output() const { return single_; }
    double sign() const { return sign_; }
    // value(a) < value(b), exactly.
    bool less(std::int32_t a, std::int32_t b) const;
    // |value(a) - value(b)|, exactly.
    Dyadic difference(std::int32_t a, std::int32_t b) const;
    // The same in the units of all scores; the ensemble's.
    Wide difference(std::int32_t a, std::int32_t b, const Multiples& scores) const;
    double constant() const { return rounded_constant_; }
    // The total value of one leaf per tree, exactly.
    ExactSum total(const std::vector<std::int32_t>& leaves) const;
    // Adds value(leaf) to a sum that began with the constant.
    void add(LongSum& sum, std::int32_t leaf) const {
        if (single_)
            sum.add(value(leaf));
        else
            sum.add(exact_value(leaf));
    }
    LongSum start() const;
    // Of the total that `sum` stands for, exactly; `leaves` are those it was made of.
    int sign(const LongSum& sum, const std::vector<std::int32_t>& leaves) const;
    // Of total / average, exactly.
    Enclosure enclose(const LongSum& sum, const std::vector<std::int32_t>& leaves) const;
    Enclosure enclose(const ExactSum& total) const;
    // total / average, rounded, with the sign that the total has.
    double rounded(const LongSum& sum, const std::vector<std::int32_t>& leaves) const;

    bool wins(int sign_of_total) const {
        return sign_of_total < 0 || (tie_wins_ && sign_of_total == 0);
    }
    bool tie_wins() const { return tie_wins_; }
    // No rounded total (sum of values, gains, bounds) is further than this from the exact one.
    double rounding_error() const { return rounding_error_; }

  private:
    // `magnitude`: the sizes of the constant and of all values add up to no more.
    Objective(const Ensemble& ensemble, double magnitude);
    void set_constant(std::vector<double> terms);
    int compare(const LongSum& sum, const std::vector<std::int32_t>& leaves, double quotient) const;
    void add(ExactSum& sum, std::int32_t leaf, double factor) const;

    const Ensemble* ensemble_;
    bool single_ = true;
    double sign_ = 1;
    int plus_ = 0;
    int minus_ = 0;
    bool tie_wins_ = false;
    std::vector<double> constant_;
    double rounded_constant_ = 0;
    double rounding_error_ = 0;
    double long_error_ = 0; // no LongSum over all trees is further than this from the exact sum
};

} // namespace carve
