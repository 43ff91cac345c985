// The dual's bounds are bounds: no attack that is left has a total below them.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "search/domain.hpp"
#include "search/dual.hpp"
#include "search/reduction.hpp"
#include "tests/check.hpp"
#include "tests/problems.hpp"

using namespace carve;
using tests::Random;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::atomic<bool> nobody_cancels{false};

struct Attack {
    std::vector<std::int32_t> cells; // per feature of the reduction
    std::int64_t total;              // in units
};

// All affordable attacks on a reduction, one per choice of cells.
std::vector<Attack> all_attacks(const Ensemble& ensemble, const Reduction& reduction,
                                const Objective& objective, const Instance& instance) {
    std::vector<Attack> attacks;
    std::vector<std::int32_t> cells(reduction.features.size(), 0);
    for (;;) {
        std::vector<double> routed(instance.routed, instance.routed + ensemble.n_features);
        double cost = 0;
        for (std::size_t f = 0; f < cells.size(); ++f) {
            const auto& feature = reduction.features[f];
            cost += reduction.cost[static_cast<std::size_t>(feature.first + cells[f])];
            if (cells[f] != feature.home)
                routed[static_cast<std::size_t>(feature.id)] = reduction.value(feature, cells[f]);
        }
        if (reduction.affordable(cells, cost)) {
            std::int64_t total = reduction.constant;
            bool exact = true;
            for (const auto& tree : reduction.trees)
                total += reduction.fixed.floor(
                    objective.exact_value(ensemble.leaf_of(tree.id, routed.data())), exact);
            attacks.push_back({cells, total});
        }
        std::size_t f = 0;
        while (f < cells.size() && cells[f] == reduction.features[f].count - 1)
            cells[f++] = 0;
        if (f == cells.size())
            return attacks;
        ++cells[f];
    }
}

// The least total of the attacks whose cell of `feature` is within [low, high].
std::int64_t least(const std::vector<Attack>& attacks, std::int32_t feature, std::int32_t low,
                   std::int32_t high) {
    std::int64_t total = units::unbounded;
    for (const Attack& attack : attacks) {
        const std::int32_t cell = attack.cells[static_cast<std::size_t>(feature)];
        if (low <= cell && cell <= high)
            total = std::min(total, attack.total);
    }
    return total;
}

} // namespace

TEST(bounds_of_the_dual_are_below_every_attack) {
    Random random(50);
    int bounded = 0;
    int tight = 0;
    for (int i = 0; i < 600; ++i) {
        const int norm = random.pick({norm_inf, 0, 1, 2});
        const tests::Shape shape{
            random.between(2, 6), random.between(1, 3), random.between(1, 4), false, 1,
            random.chance(0.5)};
        const Ensemble ensemble = tests::random_ensemble(random, shape);
        const Attacker attacker = tests::random_attacker(random, ensemble, norm);
        const Objective objective = Objective::binary(ensemble, random.chance(0.5));
        const std::vector<double> row = tests::random_rows(random, ensemble, 1);
        const Stopwatch forever(infinity, nobody_cancels);
        Instance instance(ensemble, attacker);
        instance.load(row.data());
        Reduction reduction(ensemble, attacker);
        CHECK(reduction.prune(instance, objective, false, forever) == Reduction::Built::whole);
        CHECK(reduction.number(instance, forever) == Reduction::Built::whole);
        if (reduction.features.empty())
            continue;
        ++bounded;
        std::vector<Attack> attacks = all_attacks(ensemble, reduction, objective, instance);
        Domain domain(reduction);
        Dual dual(reduction, domain);
        domain.reset();
        dual.reset();
        // The whole domain first, then parts of it, as the search cuts them.
        for (int depth = 0; depth < 3; ++depth) {
            if (!domain.propagate(forever)) {
                CHECK(attacks.empty());
                break;
            }
            const std::int64_t truth = least(attacks, 0, domain.low(0), domain.high(0));
            CHECK(reduction.least <= truth);
            dual.refresh();
            for (int sweep = 0; sweep < 12; ++sweep) {
                const std::int64_t bound = dual.evaluate();
                CHECK(bound <= truth && bound < units::never);
                dual.reprice();
                dual.sweep(forever);
                for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction.features.size());
                     ++f)
                    for (std::int32_t cell = domain.low(f); cell <= domain.high(f); ++cell)
                        CHECK(dual.bound_of_cell(f, cell) <= least(attacks, f, cell, cell));
            }
            tight += dual.evaluate() == truth ? 1 : 0;
            for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction.features.size()); ++f)
                for (std::int32_t cut = domain.low(f); cut < domain.high(f); ++cut) {
                    CHECK(dual.evaluate_if(f, domain.low(f), cut) <=
                          least(attacks, f, domain.low(f), cut));
                    CHECK(dual.evaluate_if(f, cut + 1, domain.high(f)) <=
                          least(attacks, f, cut + 1, domain.high(f)));
                }
            const std::int32_t f = random.below(static_cast<int>(reduction.features.size()));
            if (domain.low(f) == domain.high(f))
                continue;
            const std::int32_t cut = random.between(domain.low(f), domain.high(f) - 1);
            const bool left = random.chance(0.5);
            const std::int32_t low = left ? domain.low(f) : cut + 1;
            const std::int32_t high = left ? cut : domain.high(f);
            domain.restrict(f, low, high);
            std::erase_if(attacks, [&](const Attack& attack) {
                const std::int32_t cell = attack.cells[static_cast<std::size_t>(f)];
                return cell < low || cell > high;
            });
        }
    }
    CHECK(bounded > 300 && tight > bounded); // and not only because they are low
}
