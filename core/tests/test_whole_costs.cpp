// Ways of the large-spread engine that count in whole numbers, against those that do not.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "large_spread/changes.hpp"
#include "large_spread/fine_costs.hpp"
#include "large_spread/solver.hpp"
#include "model/objective.hpp"
#include "tests/check.hpp"
#include "tests/random.hpp"

using namespace carve;
using tests::Random;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();
const std::atomic<bool> nobody_cancels{false};

// Trees in which no feature of another tree occurs, and often the same one twice on a path.
Ensemble random_ensemble(Random& random, int trees, int depth) {
    std::vector<StoredNode> nodes;
    std::vector<std::int32_t> roots;
    std::vector<double> scores;
    const int features = random.between(2, 6);
    const auto grow = [&](auto&& self, int tree, int left, double low,
                          double high) -> std::int32_t {
        const auto here = nodes.size();
        nodes.push_back({0, -1, static_cast<std::int32_t>(scores.size()), -1, 1});
        if (left == 0 || random.chance(0.1)) {
            scores.push_back(random.pick({0.25, 1.0, 1.0 / 3}) * random.between(-4, 4));
            return static_cast<std::int32_t>(here);
        }
        // One feature is tested within what its path leaves of it, the others once.
        const bool again = random.chance(0.4) && high - low > 0.01;
        const double threshold =
            again ? low + (high - low) * random.pick({0.25, 0.5}) : 0.125 * random.between(1, 7);
        const std::int32_t feature = tree * 64 + (again ? 0 : 1 + (features * left) % 60);
        const auto go_left = self(self, tree, left - 1, low, again ? threshold : high);
        const auto go_right = self(self, tree, left - 1, again ? threshold : low, high);
        nodes[here] = {threshold, feature, go_left, go_right, 1};
        return static_cast<std::int32_t>(here);
    };
    for (int tree = 0; tree < trees; ++tree) {
        roots.push_back(static_cast<std::int32_t>(nodes.size()));
        grow(grow, tree, depth, 0, 1);
    }
    return Ensemble(nodes, roots, scores, {0.5 * random.between(-2, 2)},
                    Form{0, trees * 64, 1, random.chance(0.5), false, false});
}

} // namespace

TEST(changes_counted_in_a_pass_bring_the_total_down_as_far_as_walks_do) {
    Random random(40);
    const Stopwatch forever(infinity, nobody_cancels);
    int passes = 0;
    for (int i = 0; i < 600; ++i) {
        const Ensemble ensemble = random_ensemble(random, random.between(1, 12), 4);
        const auto n = static_cast<std::size_t>(ensemble.n_features);
        const Attacker free{0, static_cast<double>(random.below(6)), {}, {}, {}, {}};
        Attacker bounded = free; // by bounds that bound nothing: a case for walks
        bounded.lower.assign(n, -largest);
        bounded.upper.assign(n, largest);
        std::vector<double> row;
        for (std::size_t f = 0; f < n; ++f)
            row.push_back(0.125 * random.between(0, 8));
        const Objective objective = Objective::binary(ensemble, random.chance(0.5));
        Instance one(ensemble, free);
        Instance other(ensemble, bounded);
        one.load(row.data());
        other.load(row.data());
        const Multiples scores(ensemble.scores, 2 * ensemble.roots.size());
        passes += Changes(ensemble, free, scores).apply(one, objective) ? 1 : 0;
        CHECK(!Changes(ensemble, bounded, scores).apply(other, objective));
        LargeSpreadSolver pass(ensemble, free, {});
        LargeSpreadSolver walk(ensemble, bounded, {});
        CHECK(pass.load(one) && walk.load(other));
        const Outcome found = pass.attack(objective, Goal::minimise, forever);
        const Outcome known = walk.attack(objective, Goal::minimise, forever);
        CHECK(found.least.lower == known.least.lower && found.least.upper == known.least.upper);
        CHECK(found.verdict == known.verdict && found.margin == known.margin);
        std::vector<double> z = row;
        std::vector<std::int32_t> changed;
        pass.perturb(z.data(), changed);
        CHECK(free.affords(changed, row.data(), z.data()));
    }
    CHECK(passes > 300);
}

TEST(fine_costs_are_never_above_the_truth_and_hardly_below) {
    Random random(41);
    for (const int norm : {1, 2})
        for (int i = 0; i < 4000; ++i) {
            const double size = std::ldexp(1.0, random.between(-300, 300));
            const Attacker attacker{norm, size * (0.5 + random.real()), {}, {}, {}, {}};
            const FineCosts fine(attacker);
            CHECK(fine.apply());
            const std::int32_t feature = 0;
            const ExactCosts exact(attacker, {&feature, 1});
            const double x = size * random.pick({0.0, 0.1, 1e-35, 3.0, 1e9}) * random.real();
            const double z = x + attacker.budget * (2 * random.real() - 1) *
                                     random.pick({1.0, 1e-3, 1e-17, 0.0});
            // In units of the budget's own cost: of(x, z) <= cost < of(x, z) + error.
            const auto scaled = [](const Dyadic& number, const Wide& by) {
                return number * (Dyadic::integer(static_cast<std::uint64_t>(by >> 64)) *
                                     Dyadic::magnitude(0x1p64) +
                                 Dyadic::integer(static_cast<std::uint64_t>(by)));
            };
            const Dyadic budget = exact.of_budget(attacker.budget);
            const Dyadic cost = exact.of(feature, x, z);
            const Wide found = fine.of(x, z);
            const Wide capacity = fine.capacity();
            CHECK(capacity >> 109 != Wide{0});
            // budget / (capacity + 1) < unit <= budget / capacity
            CHECK(scaled(budget, found) <= scaled(cost, capacity + 1));
            CHECK(scaled(cost, capacity) < scaled(budget, found + FineCosts::error));
        }
}

TEST(fine_costs_apply_where_a_distance_costs_itself) {
    CHECK(FineCosts({1, 0.1, {}, {}, {}, {}}).apply());
    CHECK(!FineCosts({3, 0.1, {}, {}, {}, {}}).apply());
    CHECK(!FineCosts({1, 0.0, {}, {}, {}, {}}).apply());
    CHECK(!FineCosts({2, 0.1, {2.0}, {}, {}, {}}).apply());
}
