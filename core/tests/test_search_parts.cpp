// What the search is made of: totals of points, lattices of totals, means of objectives; each
// against its definition.
#include <algorithm>
#include <vector>

#include "search/blend.hpp"
#include "search/minima.hpp"
#include "search/position.hpp"
#include "tests/reductions.hpp"

using namespace carve;
using tests::forever;
using tests::Question;
using tests::Random;

namespace {

Question small_question(Random& random, int norm) {
    return {random,
            {random.between(2, 5), 3, random.between(1, 3), false, 1, random.chance(0.5)},
            norm};
}

// Calls visit(cells) for every choice of open cells that the budget affords.
template <class Visit> void for_every_point(const Reduction& reduction, const Visit& visit) {
    tests::for_every_point(
        reduction, [&](std::int32_t f) { return reduction.features[f].open.low; },
        [&](std::int32_t f) { return reduction.features[f].open.high; }, visit);
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
            const Question question = small_question(random, norm);
            const Reduction& reduction = question.reduction;
            if (points_of(reduction) > 2000)
                continue;
            Position position(reduction);
            for_every_point(reduction, [&](const std::vector<std::int32_t>& cells) {
                for (std::size_t f = 0; f < cells.size(); ++f)
                    position.move(static_cast<std::int32_t>(f), cells[f]);
                CHECK(position.total() == question.reached(reduction, cells));
                for (std::size_t f = 0; f < cells.size(); ++f) {
                    const std::vector<std::int64_t> profile =
                        position.profile(static_cast<std::int32_t>(f));
                    std::vector<std::int32_t> moved = cells;
                    for (moved[f] = 0; moved[f] < reduction.features[f].count; ++moved[f]) {
                        if (!reduction.affordable(moved, reduction.cost_of(moved)))
                            continue;
                        const std::int64_t there = question.reached(reduction, moved);
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
        const Question question = small_question(random, random.pick({norm_inf, 0, 1}));
        const Reduction& reduction = question.reduction;
        if (reduction.trees.empty() || points_of(reduction) > 2000)
            continue;
        const std::int64_t one = reduction.total_of(reduction.home);
        const std::int64_t step = reduction.total_from(one + 1) - one;
        CHECK(step >= 1 && reduction.total_from(one) == one);
        CHECK(reduction.total_below(one) == one - step);
        CHECK(reduction.total_from(one - step + 1) == one);
        coarse += step > 1;
        for_every_point(reduction, [&](const std::vector<std::int32_t>& cells) {
            CHECK((question.reached(reduction, cells) - one) % step == 0);
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
    const Stopwatch over(0, tests::nobody_cancels);
    const Blend blend({&first, &second}, reduction, over);
    CHECK(reduction.turn_to(blend, over) == Reduction::Built::interrupted);
    CHECK(reduction.turn_to(blend, forever) == Reduction::Built::whole);
}

TEST(the_least_of_every_run_is_among_its_numbers) {
    Random random(72);
    Minima minima;
    for (const std::int32_t count : {1, 2, 15, 16, 17, 32, 33, 100, 5, 259}) {
        std::vector<std::int64_t> numbers;
        for (std::int32_t i = 0; i < count; ++i)
            numbers.push_back(random.between(-1000, 1000));
        minima.build(numbers.data(), count);
        for (std::int32_t first = 0; first < count; ++first)
            for (std::int32_t last = first; last < count; ++last)
                CHECK(minima.least(first, last) ==
                      *std::min_element(numbers.begin() + first, numbers.begin() + last + 1));
    }
}
