// The attacker A(p, k), and how far it can move each feature of one instance.
#pragma once

#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "numbers/exact.hpp"

namespace carve {

inline constexpr int norm_inf = -1;

// What a distance of 1 costs: weight / scale; a weight of numerator / denominator.
struct Unit {
    double scale;
    double numerator;
    double denominator;
    friend auto operator<=>(const Unit&, const Unit&) = default;
};

struct Attacker {
    int norm;      // p: 0, 1, 2, …, or norm_inf
    double budget; // k
    // Per feature; an empty vector means: 1, changeable, unbounded.
    std::vector<double> scale; // downwards, and upwards unless `scale_up` says otherwise
    std::vector<std::uint8_t> changeable;
    std::vector<double> lower;
    std::vector<double> upper;
    std::vector<double> scale_up{}; // 0, here as above: that way is closed
    // Of whole features: the size of a step is numerator / denominator.
    std::vector<double> step_numerator{};
    std::vector<double> step_denominator{};
    // Of finite features, the states that they may be changed to: set f; empty where none.
    StateSets states{};
    // Where every row has bounds of its own: state s of finite feature f is open to a row iff its
    // upper bound in column state_columns[column_starts[f] + s] is above 0; empty: always.
    std::vector<std::int32_t> column_starts{};
    std::vector<std::int32_t> state_columns{};

    double scale_of(std::int32_t feature, bool up) const {
        const auto& own = up && !scale_up.empty() ? scale_up : scale;
        return own.empty() ? 1.0 : own[static_cast<std::size_t>(feature)];
    }
    Unit unit_of(std::int32_t feature, bool up) const {
        const auto f = static_cast<std::size_t>(feature);
        const double size = scale_of(feature, up);
        return step_numerator.empty() ? Unit{size, 1, 1}
                                      : Unit{size, step_numerator[f], step_denominator[f]};
    }
    // Does a distance of 1 cost 1, whatever the feature?
    bool has_one_unit() const {
        return scale.empty() && scale_up.empty() && step_numerator.empty();
    }
    bool may_change(std::int32_t feature) const {
        return changeable.empty() || changeable[static_cast<std::size_t>(feature)] != 0;
    }
    std::span<const std::uint64_t> states_of(std::int32_t feature) const {
        return states.empty() ? std::span<const std::uint64_t>{}
                              : states[static_cast<std::size_t>(feature)];
    }
    // Is moving features[i] from x to z[i], all of them together, within the budget? Exact.
    bool affords(std::span<const std::int32_t> features, const double* x, const double* z) const;
    // The smallest budget that affords the same. Exact.
    double distance(std::span<const std::int32_t> features, const double* x, const double* z) const;
};

// The numbers z on the input grid that the attacker may give one feature, on its own: [low, high].
struct Limits {
    double low;
    double high;
};

// Can values within the limits fall on both sides of the threshold?
inline bool crosses(const Limits& limits, double threshold) {
    return limits.low <= threshold && threshold < limits.high;
}

// One instance as the engines see it. Reused from row to row.
class Instance {
  public:
    Instance(const Ensemble& ensemble, const Attacker& attacker);

    // The row must stay where it is while the instance is in use, and so must bounds of its own
    // (null: those of the attacker).
    void load(const double* row, const RowBounds& bounds = {});
    void load(const float* row, const RowBounds& bounds = {});
    // The row of another instance, against another attacker.
    void load(const Instance& other);

    const double* x = nullptr;      // as given: distances are measured from here
    const double* routed = nullptr; // rounded to the input grid: splits look at this
    bool has_missing = false;

    // How far the attacker can move features, about; to be kept in registers by inner loops, and
    // valid until the next load.
    class Spans {
      public:
        // False only if the attacker cannot move the feature across the threshold; quick.
        bool may_cross(std::int32_t feature, double threshold) const {
            const double span = spans_ == nullptr ? span_ : spans_[feature];
            return !(std::fabs(x_[feature] - threshold) > span);
        }

      private:
        friend class Instance;
        Spans(const double* x, const double* spans, double span)
            : x_(x), spans_(spans), span_(span) {}
        const double* x_;
        const double* spans_;
        double span_;
    };
    Spans spans() const { return {x, spans_.empty() ? nullptr : spans_.data(), span_}; }
    bool may_cross(std::int32_t feature, double threshold) const {
        return spans().may_cross(feature, threshold);
    }
    // May the attacker change the state of a finite feature, and to which ones?
    bool may_switch(std::int32_t feature) const {
        const auto f = static_cast<std::size_t>(feature);
        return !can_switch_.empty() && can_switch_[f] != 0 && x[f] == x[f];
    }
    std::span<const std::uint64_t> states_of(std::int32_t feature) const {
        return row_states_.empty() ? attacker_.states_of(feature)
                                   : row_states_[static_cast<std::size_t>(feature)];
    }
    // May the attacker give the feature this value?
    bool allows(std::int32_t feature, double value);
    // May the attacker give any feature any number? False, too, where that is not known.
    bool moves_freely() const {
        return bounds_.lower == nullptr && sures_.empty() &&
               sure_ == std::numeric_limits<double>::max();
    }
    // Can the attacker move the feature across the threshold? `to` is the nearest number of its
    // grid on the other side. Exact; quick where the answer is clear.
    bool can_cross(std::int32_t feature, double threshold, double to) {
        const auto f = static_cast<std::size_t>(feature);
        const double sure = bounds_.lower != nullptr ? -1 : sures_.empty() ? sure_ : sures_[f];
        return std::fabs(to - x[f]) <= sure || crosses(limits(feature), threshold);
    }
    // What the attacker may do to the feature, exactly; found out when first asked for.
    const Limits& limits(std::int32_t feature) {
        const auto f = static_cast<std::size_t>(feature);
        if (known_[f] != row_)
            find_limits(feature);
        return limits_[f];
    }

  private:
    void find_limits(std::int32_t feature);
    Limits real_limits(std::int32_t feature) const;
    Limits whole_limits(std::int32_t feature) const;
    void finish_load();
    void find_states();

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    std::vector<double> x_;
    std::vector<double> routed_;
    std::vector<Limits> limits_;
    std::vector<std::uint32_t> known_; // the row for which limits_ hold
    std::uint32_t row_ = 0;
    RowBounds bounds_;
    StateSets row_states_;                 // empty: those of the attacker
    std::vector<std::uint8_t> can_switch_; // per feature: finite, and the budget is enough
    std::vector<Limits> steps_;            // per feature, if whole: -how many down, how many up
    double span_ = 0;                      // no feature can be moved further than this, …
    std::vector<double> spans_;            // … or a limit for each
    // Any number of its grid that is no further away is one that the attacker may give a feature;
    // negative: to be found out.
    double sure_ = -1;
    std::vector<double> sures_; // … or a limit for each
};

// Costs in exact arithmetic, all in one unit: (distance * weight / scale)^p times the product of
// the p-th powers of all divisors concerned (norm 0: the number of changed features).
class ExactCosts {
  public:
    ExactCosts(const Attacker& attacker, std::span<const std::int32_t> features);
    Dyadic of(int feature, double x, double z) const;
    Dyadic of_budget(double budget) const;
    // The smallest budget that affords the cost.
    double smallest_budget(const Dyadic& cost) const;

  private:
    const Attacker& attacker_;
    std::vector<Unit> units_;       // the distinct ones, but for closed ways
    std::vector<Dyadic> cofactors_; // numerator^p times the product of the other divisors
    Dyadic product_;                // the product of all divisors, (scale * denominator)^p
};

} // namespace carve
