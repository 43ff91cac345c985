// The attacker A(p, k), and how far it can move each feature of one instance.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/ensemble.hpp"
#include "numbers/exact.hpp"

namespace carve {

inline constexpr int norm_inf = -1;

struct Attacker {
    int norm;      // p: 0, 1, 2, …, or norm_inf
    double budget; // k
    // Per feature; an empty vector means: 1, changeable, unbounded.
    std::vector<double> scale;
    std::vector<std::uint8_t> changeable;
    std::vector<double> lower;
    std::vector<double> upper;

    double scale_of(int feature) const {
        return scale.empty() ? 1.0 : scale[static_cast<std::size_t>(feature)];
    }
    bool may_change(int feature) const {
        return changeable.empty() || changeable[static_cast<std::size_t>(feature)] != 0;
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

    // The row must stay where it is while the instance is in use.
    void load(const double* row);
    void load(const float* row);
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
    // What the attacker may do to the feature, exactly; found out when first asked for.
    const Limits& limits(std::int32_t feature) {
        const auto f = static_cast<std::size_t>(feature);
        if (known_[f] != row_)
            find_limits(feature);
        return limits_[f];
    }

  private:
    void find_limits(std::int32_t feature);
    void finish_load();

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    std::vector<double> x_;
    std::vector<double> routed_;
    std::vector<Limits> limits_;
    std::vector<std::uint32_t> known_; // the row for which limits_ hold
    std::uint32_t row_ = 0;
    double span_ = 0;           // no feature can be moved further than this, …
    std::vector<double> spans_; // … or a limit for each
};

// Costs in exact arithmetic, all in one unit: (distance / scale)^p times the product of the p-th
// powers of all scales concerned (norm 0: the number of changed features).
class ExactCosts {
  public:
    ExactCosts(const Attacker& attacker, std::span<const std::int32_t> features);
    Dyadic of(int feature, double x, double z) const;
    Dyadic of_budget(double budget) const;
    // The smallest budget that affords the cost.
    double smallest_budget(const Dyadic& cost) const;

  private:
    const Attacker& attacker_;
    std::vector<double> scales_;    // the distinct scales
    std::vector<Dyadic> cofactors_; // product of the other scales' p-th powers
    Dyadic product_;                // product of all scales' p-th powers
};

} // namespace carve
