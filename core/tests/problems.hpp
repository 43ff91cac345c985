// Small random ensembles, attackers and instances, and the truth about them by trying everything.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "tests/random.hpp"

namespace carve::tests {

struct Shape {
    int trees = 3;
    int depth = 2;
    int features = 3;   // of a tree, if they are apart; else of all trees together
    bool apart = false; // every tree has features of its own: large-spread
    int outputs = 1;
    bool mixed = false; // features of all grids
};

// Thresholds, values and budgets are often multiples of 1/4, so that they tie; scores are of one of
// several kinds (real, whole, almost equal, huge).
Ensemble random_ensemble(Random& random, const Shape& shape);
// With scales, fixed features and bounds at times.
Attacker random_attacker(Random& random, const Ensemble& ensemble, int norm);
// Rows, row-major, close to thresholds; a missing value now and then.
std::vector<double> random_rows(Random& random, const Ensemble& ensemble, int count);

// Calls visit(z, leaves) for every attack on the instance that matters: every choice, per feature,
// of its own value or of the nearest one in another cell, as far as limits and budget allow it.
using VisitAttack =
    std::function<void(const std::vector<double>& z, const std::vector<std::int32_t>& leaves)>;
void for_every_attack(const Ensemble& ensemble, const Attacker& attacker, Instance& instance,
                      const VisitAttack& visit);

} // namespace carve::tests
