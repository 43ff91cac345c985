// Budgets of bits that depend on run-time sizes, and what happens beyond them.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "numbers/units.hpp"
#include "search/marks.hpp"
#include "search/search.hpp"
#include "tests/check.hpp"
#include "tests/problems.hpp"
#include "training/worst_cases.hpp"

using namespace carve;
using tests::Random;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::atomic<bool> nobody_cancels{false};

// One split at 0.5, with a score on either side.
Ensemble stump(double left, double right, double threshold = 0) {
    const std::vector<StoredNode> nodes{{0.5, 0, 1, 2, 0}, {0, -1, 0, -1, -1}, {0, -1, 1, -1, -1}};
    const std::vector<std::int32_t> roots{0};
    return Ensemble(nodes, roots, {left, right}, {0}, {threshold, 1, 1, true, false, false});
}

Outcome search(const Ensemble& ensemble, const Attacker& attacker, const Objective& objective) {
    const double row = 0.25;
    Instance instance(ensemble, attacker);
    instance.load(&row);
    return Search(ensemble, attacker)
        .run(instance, objective, Goal::decide, Stopwatch(infinity, nobody_cancels));
}

} // namespace

TEST(places_that_cannot_be_numbered_throw) {
    CHECK(units::index(0) == 0 && units::index(2147483647) == 2147483647);
    CHECK_THROWS(std::length_error, units::index(2147483648));
    CHECK(units::exponent(-1073741823) == -1073741823);
    CHECK_THROWS(std::overflow_error, units::exponent(std::int64_t{1} << 30));
}

TEST(values_of_all_trees_and_multipliers_of_all_features_fit) {
    for (std::size_t features = 0; features < 5000; ++features) {
        // (features + 1) * 2^bits: no more than the budget, and no less than half of it.
        const double product =
            std::ldexp(static_cast<double>(features) + 1, units::bits_of_values(features));
        CHECK(product <= 0x1p56 && product > 0x1p55 - 1);
    }
}

TEST(fixed_point_numbers_are_the_largest_multiples_below) {
    Random random(40);
    for (int i = 0; i < 200; ++i) {
        const Ensemble ensemble = tests::random_ensemble(random, {3, 2, 3, false, 1});
        const FixedPoint fixed(ensemble);
        for (const Node& node : ensemble.nodes) {
            if (!node.is_leaf())
                continue;
            const double score = node.threshold;
            bool exact = true;
            const std::int64_t units = fixed.floor(score, exact);
            CHECK(std::llabs(units) <= units::two_to(56));
            CHECK(fixed.lower(units) <= score && score <= fixed.lower(units + 1));
            CHECK(exact == (fixed.lower(units) == score));
        }
    }
}

TEST(an_objective_far_beyond_the_ensemble_is_not_searched_rather_than_wrong) {
    const Ensemble ensemble = stump(1, -1);
    const Attacker attacker{norm_inf, 1, {}, {}, {}, {}};
    const std::vector<std::int32_t> home{ensemble.leaf_of(0, std::vector<double>{0.25}.data())};
    const auto changes_by_more_than = [&](double limit) {
        const std::vector<double> limits{limit};
        return search(ensemble, attacker, Objective::change(ensemble, home, false, limits)).verdict;
    };
    CHECK(changes_by_more_than(1) == Verdict::wins);
    CHECK(changes_by_more_than(2) == Verdict::never);
    CHECK(changes_by_more_than(4) == Verdict::never); // four times the magnitude
    CHECK(changes_by_more_than(1e30) == Verdict::undecided);
    CHECK(changes_by_more_than(std::numeric_limits<double>::max()) == Verdict::undecided);
}

TEST(scores_that_cannot_be_added_up_are_not_searched_rather_than_wrong) {
    const double largest = std::numeric_limits<double>::max();
    const Ensemble ensemble = stump(largest, -largest, largest / 2);
    CHECK(ensemble.magnitude == infinity);
    const Attacker attacker{norm_inf, 1, {}, {}, {}, {}};
    CHECK(search(ensemble, attacker, Objective::binary(ensemble, true)).verdict ==
          Verdict::undecided);
}

// No budget has no price: 0 / 0 is no number to count with. Totals in units, each rounded down, do
// not decide these: the search goes on, and prices its budget.
TEST(a_budget_of_no_changes_is_searched) {
    const Attacker attacker{0, 0, {}, {}, {}, {}};
    const double row = 0.25;
    for (const double score : {-0x1p-20, -0x1p-19, -0x1p-18})
        for (const bool positive : {true, false})
            for (const double threshold : {0.0, -0x1p-19}) {
                const Ensemble ensemble = stump(score, -0x1p40, threshold);
                const Objective objective = Objective::binary(ensemble, positive);
                const bool wins =
                    objective.wins(objective.total({ensemble.leaf_of(0, &row)}).sign());
                CHECK(wins == (positive == (score < threshold)));
                CHECK(search(ensemble, attacker, objective).verdict ==
                      (wins ? Verdict::wins : Verdict::never));
            }
}

TEST(marks_of_a_round_long_ago_do_not_come_back) {
    Random random(41);
    constexpr std::int32_t things = 200; // most are not marked for many rounds
    Marks<std::uint8_t> marks;           // which runs out of rounds every 256
    marks.reset(things);
    for (int round = 0; round < 3000; ++round) {
        marks.wipe();
        const std::int32_t marked = random.below(things);
        marks.mark(marked);
        for (std::int32_t thing = 0; thing < things; ++thing)
            CHECK(marks.is_marked(thing) == (thing == marked));
    }
}

// Nine million rows that all pull at one score as hard as they can.
TEST(slopes_of_more_rows_than_units_of_force_fit) {
    constexpr std::int64_t count = 9'000'000;
    const Ensemble ensemble = stump(-1e6, -1e6);
    const Attacker attacker{norm_inf, 0, {}, {}, {}, {}};
    const std::vector<float> rows(count, 0.25f);
    const std::vector<std::int32_t> labels(count, 1);
    WorstCases cases(ensemble, attacker, {rows.data(), true, count, 1}, {labels, {}}, {});
    const auto go_on = [](std::span<const RowRange>) { return true; };
    CHECK(cases.collect(2, go_on));
    std::vector<double> margin(count);
    std::vector<double> slope(2);
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(cases.blocks()));
    std::iota(blocks.begin(), blocks.end(), 0);
    WorstCases::Outcomes outcomes;
    outcomes.margin = margin.data();
    CHECK(cases.judge(ensemble.scores.data(), 1.0, outcomes, 2, go_on));
    CHECK(cases.slope(ensemble.scores.data(), 1.0, {nullptr, blocks}, slope.data(), 2, go_on));
    CHECK(margin[0] == -1e6 && margin.back() == -1e6);
    CHECK(slope[0] == -static_cast<double>(count) && slope[1] == 0);
}
