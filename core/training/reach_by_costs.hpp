// Finds the leaves within reach where moves share a budget (norms 0, 1, 2, …), row by row.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "large_spread/reach.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "training/reached.hpp"

namespace carve {

// One per thread.
class ReachByCosts {
  public:
    ReachByCosts(const Ensemble& ensemble, const Attacker& attacker, const RoundedCosts& costs,
                 const LeafNumbers& numbers)
        : ensemble_(ensemble), numbers_(numbers), instance_(ensemble, attacker),
          reach_(ensemble, costs) {}

    // `chosen` are the block's rows.
    void find(const Rows& rows, std::span<const std::int64_t> chosen, Reached& reached);

  private:
    void find_row(Reached& reached);

    const Ensemble& ensemble_;
    const LeafNumbers& numbers_;
    Instance instance_;
    Reach reach_;
    std::vector<std::pair<float, std::int32_t>> others_;
};

} // namespace carve
