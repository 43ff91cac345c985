// What the search is made of: totals of points, lattices of totals, means of objectives; each
// against its definition.
#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "model/objective.hpp"
#include "search/blend.hpp"
#include "search/position.hpp"
#include "search/reduction.hpp"
#include "tests/check.hpp"
#include "tests/problems.hpp"

using namespace carve;
using tests::Random;

namespace {

const std::atomic<bool> nobody_cancels{false};
const Stopwatch forever(std::numeric_limits<double>::infinity(), nobody_cancels);

// A numbered reduction of a random question, and what it is of.
struct Question {
    Question(Random& random, int norm)
        : ensemble(tests::random_ensemble(random, {random.between(2, 5), 3, random.between(1, 3),
                                                   false, 1, random.chance(0.5)})),
          attacker(tests::random_attacker(random, ensemble, norm)),
          row(tests::random_rows(random, ensemble, 1)), instance(ensemble, attacker),
          objective(Objective::binary(ensemble, true)), reduction(ensemble, attacker) {
        instance.load(row.data());
        built = reduction.prune(instance, objective, false, forever) == Reduction::Built::whole &&
                reduction.number(instance, forever) == Reduction::Built::whole;
    }
    Ensemble ensemble;
    Attacker attacker;
    std::vector<double> row;
    Instance instance;
    Objective objective;
    Reduction reduction;
    bool built = false;
};

double cost_of(const Reduction& reduction, const std::vector<std::int32_t>& cells) {
    double cost = 0;
    for (std::size_t f = 0; f < cells.size(); ++f)
        cost += reduction.cost[reduction.features[f].first + cells[f]];
    return cost;
}

// Calls visit(cells) for every choice of open cells that the budget affords.
template <class Visit> void for_every_point(const Reduction& reduction, Visit&& visit) {
    std::vector<std::int32_t> cells;
    for (const auto& feature : reduction.features)
        cells.push_back(feature.open.low);
    for (;;) {
        if (reduction.affordable(cells, cost_of(reduction, cells)))
            visit(cells);
        std::size_t f = 0;
        while (f < cells.size() && cells[f] == reduction.features[f].open.high) {
            cells[f] = reduction.features[f].open.low;
            ++f;
        }
        if (f == cells.size())
            return;
        ++cells[f];
    }
}

// The total at a point, by routing.
std::int64_t routed_total(const Question& question, const Reduction& reduction,
                          const std::vector<std::int32_t>& cells) {
    std::vector<double> routed(question.instance.routed,
                               question.instance.routed + question.ensemble.n_features);
    for (std::size_t f = 0; f < cells.size(); ++f)
        if (const auto& feature = reduction.features[f]; cells[f] != feature.home)
            routed[feature.id] = reduction.value(feature, cells[f]);
    std::vector<std::int32_t> leaves;
    for (int tree = 0; tree < question.ensemble.n_trees(); ++tree)
        leaves.push_back(question.ensemble.leaf_of(tree, routed.data()));
    return question.reduction.total_of(leaves);
}

std::size_t points_of(const Reduction& reduction) {
    std::size_t points = 1;
    for (const auto& feature : reduction.features)
        points = std::min<std::size_t>(points * feature.count, 1'000'000);
    return points;
}

} // namespace

TEST(a_position_knows_its_total_and_what_every_move_adds) {
    Random random(31);
    int moves = 0;
    for (const int norm : {norm_inf, 0, 1, 2})
        for (int i = 0; i < 100; ++i) {
            Question question(random, norm);
            const Reduction& reduction = question.reduction;
            if (!question.built || points_of(reduction) > 2000)
                continue;
            Position position(reduction);
            for_every_point(reduction, [&](const std::vector<std::int32_t>& cells) {
                for (std::size_t f = 0; f < cells.size(); ++f)
                    position.move(static_cast<std::int32_t>(f), cells[f]);
                CHECK(position.total() == routed_total(question, reduction, cells));
                for (std::size_t f = 0; f < cells.size(); ++f) {
                    const std::vector<std::int64_t> profile =
                        position.profile(static_cast<std::int32_t>(f));
                    std::vector<std::int32_t> moved = cells;
                    for (moved[f] = 0; moved[f] < reduction.features[f].count; ++moved[f]) {
                        if (!reduction.affordable(moved, cost_of(reduction, moved)))
                            continue;
                        const std::int64_t there = routed_total(question, reduction, moved);
                        CHECK(position.total() + profile[moved[f]] == there);
                        ++moves;
                    }
                }
            });
        }
    CHECK(moves > 10'000);
}

TEST(no_total_is_between_two_neighbours_of_the_lattice) {
    Random random(32);
    int coarse = 0;
    for (int i = 0; i < 300; ++i) {
        Question question(random, random.pick({norm_inf, 0, 1}));
        const Reduction& reduction = question.reduction;
        if (!question.built || reduction.trees.empty() || points_of(reduction) > 2000)
            continue;
        const std::int64_t one = reduction.total_of(reduction.home);
        const std::int64_t step = reduction.total_from(one + 1) - one;
        CHECK(step >= 1 && reduction.total_from(one) == one);
        CHECK(reduction.total_below(one) == one - step);
        CHECK(reduction.total_from(one - step + 1) == one);
        coarse += step > 1;
        for_every_point(reduction, [&](const std::vector<std::int32_t>& cells) {
            CHECK((routed_total(question, reduction, cells) - one) % step == 0);
        });
    }
    CHECK(coarse > 20);
}

TEST(a_mean_of_objectives_is_not_above_what_it_is_the_mean_of) {
    Random random(34);
    for (int i = 0; i < 100; ++i) {
        const Ensemble ensemble = tests::random_ensemble(random, {3, 3, 3, false, 4});
        std::vector<Objective> rivals;
        for (int rival = 1; rival < 4; ++rival)
            rivals.push_back(Objective::rivals(ensemble, rival, 0));
        const std::vector<const Objective*> all{&rivals[0], &rivals[1], &rivals[2]};
        const FixedPoint fixed(ensemble);
        const Attacker anything = tests::random_attacker(random, ensemble, norm_inf);
        const std::vector<double> row = tests::random_rows(random, ensemble, 1);
        Instance instance(ensemble, anything);
        instance.load(row.data());
        Reduction reduction(ensemble, anything);
        if (reduction.prune(instance, rivals[0], true, forever) != Reduction::Built::whole)
            continue;
        const Blend blend(all, reduction, forever);
        bool exact = true;
        for (const auto& leaf : reduction.leaves) {
            std::int64_t low = units::unbounded;
            std::int64_t high = -units::unbounded;
            for (const Objective* rival : all) {
                const std::int64_t value = fixed.floor(rival->exact_value(leaf.node), exact);
                low = std::min(low, value);
                high = std::max(high, value);
            }
            const std::int64_t mean = blend.value(leaf.node, fixed, exact);
            CHECK(low <= mean && mean <= high);
        }
    }
}

TEST(a_reduction_turns_to_no_mean_when_time_is_up) {
    Random random(35);
    const Ensemble ensemble = tests::random_ensemble(random, {3, 3, 3, false, 4});
    const Objective first = Objective::rivals(ensemble, 1, 0);
    const Objective second = Objective::rivals(ensemble, 2, 0);
    const Attacker anything = tests::random_attacker(random, ensemble, norm_inf);
    const std::vector<double> row = tests::random_rows(random, ensemble, 1);
    Instance instance(ensemble, anything);
    instance.load(row.data());
    Reduction reduction(ensemble, anything);
    CHECK(reduction.prune(instance, first, true, forever) == Reduction::Built::whole);
    const Stopwatch over(0, nobody_cancels);
    const Blend blend({&first, &second}, reduction, over);
    CHECK(reduction.turn_to(blend, over) == Reduction::Built::interrupted);
    CHECK(reduction.turn_to(blend, forever) == Reduction::Built::whole);
}
