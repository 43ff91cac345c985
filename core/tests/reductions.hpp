// Random questions to the search, reduced and numbered, and what the trees themselves say of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/objective.hpp"
#include "running/stopwatch.hpp"
#include "search/reduction.hpp"
#include "tests/check.hpp"
#include "tests/problems.hpp"

namespace carve::tests {

inline const std::atomic<bool> nobody_cancels{false};
inline const Stopwatch forever(std::numeric_limits<double>::infinity(), nobody_cancels);

struct Question {
    Question(Random& random, const Shape& shape, int norm)
        : ensemble(random_ensemble(random, shape)),
          attacker(random_attacker(random, ensemble, norm)),
          objective(Objective::binary(ensemble, random.chance(0.5))),
          row(random_rows(random, ensemble, 1)), instance(ensemble, attacker),
          reduction(ensemble, attacker) {
        instance.load(row.data());
        CHECK(reduction.prune(instance, objective, false, forever) == Reduction::Built::whole);
        CHECK(reduction.number(instance, forever) == Reduction::Built::whole);
    }
    // The total, in units, that cells of any reduction of the instance reach: by routing.
    std::int64_t reached(const Reduction& of, const std::vector<std::int32_t>& cells) const {
        std::vector<double> routed(instance.routed, instance.routed + ensemble.n_features);
        for (std::size_t f = 0; f < cells.size(); ++f)
            if (const auto& feature = of.features[f]; cells[f] != feature.home)
                routed[static_cast<std::size_t>(feature.id)] = of.value(feature, cells[f]);
        std::vector<std::int32_t> leaves;
        for (int tree = 0; tree < ensemble.n_trees(); ++tree)
            leaves.push_back(ensemble.leaf_of(tree, routed.data()));
        return reduction.total_of(leaves);
    }
    Ensemble ensemble;
    Attacker attacker;
    Objective objective;
    std::vector<double> row;
    Instance instance;
    Reduction reduction;
};

// Calls visit(cells) for every choice, per feature, of a cell from low(f) to high(f) that the
// budget affords.
template <class Low, class High, class Visit>
void for_every_point(const Reduction& reduction, const Low& low, const High& high,
                     const Visit& visit) {
    const auto count = static_cast<std::int32_t>(reduction.features.size());
    std::vector<std::int32_t> cells;
    for (std::int32_t f = 0; f < count; ++f)
        cells.push_back(low(f));
    for (;;) {
        if (reduction.affordable(cells, reduction.cost_of(cells)))
            visit(cells);
        std::int32_t f = 0;
        while (f < count && cells[f] == high(f)) {
            cells[f] = low(f);
            ++f;
        }
        if (f == count)
            return;
        ++cells[f];
    }
}

} // namespace carve::tests
