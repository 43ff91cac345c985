// What a search pushes down: one objective, or a weighted mean of several that must all be won.
//
// An attack that brings every one of them down brings any mean of them down; how far the mean can
// fall says more than how far one can, as leaves that help against one may hurt against another.
#pragma once

#include <cstdint>
#include <vector>

#include "model/objective.hpp"
#include "running/stopwatch.hpp"

namespace carve {

class FixedPoint;
class Reduction;

class Blend {
  public:
    Blend() = default;
    explicit Blend(const Objective& only) : parts_{{&only, whole}} {}
    // The mean of which the sum of every tree's least leaf in the reduction is about the largest;
    // the best found so far if time is up.
    Blend(const std::vector<const Objective*>& all, const Reduction& reduction,
          const Stopwatch& stopwatch);
    // Counts those for more that these leaves, one per tree, do not bring down.
    void lean(const std::vector<std::int32_t>& leaves, double rate);

    // Of a leaf, and of what all leaves have in common, in units, rounded down; `exact` is cleared
    // if that took anything.
    std::int64_t value(std::int32_t node, const FixedPoint& fixed, bool& exact) const;
    std::int64_t constant(const FixedPoint& fixed, bool& exact) const;
    bool is_held_by(const FixedPoint& fixed) const;
    // May an attack that wins leave the mean at zero?
    bool tie_wins() const;
    // Of every objective, in their order: its part in the mean, of 2^whole_bits.
    static constexpr int whole_bits = 6;
    std::vector<std::int64_t> weights(const std::vector<const Objective*>& all) const;

  private:
    static constexpr std::int64_t whole = std::int64_t{1} << whole_bits;
    struct Part {
        const Objective* objective;
        std::int64_t weight; // all add up to `whole`
    };
    template <class Value> std::int64_t mean(const Value& value, bool& exact) const;
    void lean_by(const std::vector<double>& totals, double rate);
    void round();

    std::vector<const Objective*> all_;
    std::vector<double> weights_; // per objective; they add up to 1
    std::vector<Part> parts_;     // the same, rounded
};

} // namespace carve
