// What the path to a leaf demands of an instance that falls elsewhere: the features to move, and
// where to.
#pragma once

#include <cstdint>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"

namespace carve {

struct Move {
    std::int32_t feature;
    double to;
};

// One per thread.
class Demands {
  public:
    explicit Demands(const Ensemble& ensemble)
        : ensemble_(ensemble), range_of_(static_cast<std::size_t>(ensemble.n_features), -1) {}

    // The demands that the instance does not meet, each by the smallest move; until the next call.
    const std::vector<Move>& of(std::int32_t leaf, const Instance& instance);

  private:
    struct Range { // low < z <= high
        std::int32_t feature;
        double low;
        double high;
    };

    const Ensemble& ensemble_;
    std::vector<Range> ranges_;
    std::vector<std::int32_t> range_of_; // per feature: its position in ranges_, or -1
    std::vector<std::int32_t> states_;   // finite features that the path asks to change
    std::vector<Move> moves_;
};

} // namespace carve
