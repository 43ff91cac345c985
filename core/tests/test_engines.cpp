// The large-spread algorithms and the search, on small ensembles of all kinds: what they say is
// what trying every attack says. Above all, a good deal of the engines for sanitizers to look at.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "large_spread/solver.hpp"
#include "model/objective.hpp"
#include "search/search.hpp"
#include "tests/check.hpp"
#include "tests/problems.hpp"

using namespace carve;
using tests::Random;
using tests::Shape;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::atomic<bool> nobody_cancels{false};

// The lowest total in reach, by trying every attack.
ExactSum lowest(const Ensemble& ensemble, const Attacker& attacker, Instance& instance,
                const Objective& objective) {
    ExactSum best;
    bool first = true;
    tests::for_every_attack(ensemble, attacker, instance, [&](const auto&, const auto& leaves) {
        const ExactSum total = objective.total(leaves);
        ExactSum difference = total;
        difference.subtract(best);
        if (first || difference.sign() < 0)
            best = total;
        first = false;
    });
    return best;
}

bool holds(const Enclosure& bounds, const Enclosure& truth) {
    return bounds.lower <= truth.lower && truth.upper <= bounds.upper;
}

struct Counts {
    int wins = 0;
    int never = 0;
    int both = 0;   // engines decided
    int looked = 0; // decided without the least total
};

void compare(Random& random, const Ensemble& ensemble, const Attacker& attacker,
             const Objective& objective, Counts& counts) {
    const Stopwatch forever(infinity, nobody_cancels);
    const std::vector<double> row = tests::random_rows(random, ensemble, 1);
    Instance instance(ensemble, attacker);
    instance.load(row.data());
    const ExactSum truth = lowest(ensemble, attacker, instance, objective);
    const bool wins = objective.wins(truth.sign());
    ++(wins ? counts.wins : counts.never);

    Search search(ensemble, attacker);
    if (random.chance(0.5))
        search.compact_always();
    for (const Goal goal : {Goal::decide, Goal::minimise, Goal::value}) {
        const Outcome found = search.run(instance, objective, goal, forever);
        CHECK(found.has_attack == wins);
        if (goal != Goal::value)
            CHECK(found.verdict == (wins ? Verdict::wins : Verdict::never));
        CHECK(holds(found.least, objective.enclose(truth)));
        if (!found.has_attack)
            continue;
        std::vector<double> z = row;
        std::vector<std::int32_t> changed;
        search.perturb(z.data(), changed);
        CHECK(attacker.affords(changed, row.data(), z.data()));
    }

    // Without time, what is said all the same is true.
    const Stopwatch hurry(random.pick({0.0, 1e-6, 1e-5}), nobody_cancels);
    const Outcome hurried = search.run(instance, objective, Goal::minimise, hurry);
    CHECK(hurried.verdict == Verdict::undecided ||
          hurried.verdict == (wins ? Verdict::wins : Verdict::never));
    CHECK(holds(hurried.least, objective.enclose(truth)) && (wins || !hurried.has_attack));

    LargeSpreadSolver solver(ensemble, attacker, {-1, true});
    if (!solver.load(instance))
        return;
    ++counts.both;
    const Enclosure least = objective.enclose(truth);
    for (const Goal goal : {Goal::decide, Goal::minimise}) {
        instance.load(row.data());
        CHECK(solver.load(instance));
        const Outcome found = solver.attack(objective, goal, forever);
        CHECK(found.verdict == (wins ? Verdict::wins : Verdict::never) && found.has_attack == wins);
        CHECK(holds(found.least, least));
        const bool known = holds(least, found.least);
        CHECK(known || goal == Goal::decide);
        counts.looked += known ? 0 : 1;
        std::vector<double> z = row;
        std::vector<std::int32_t> changed;
        solver.perturb(z.data(), changed);
        CHECK(attacker.affords(changed, row.data(), z.data()));
        instance.load(z.data());
        std::vector<std::int32_t> leaves;
        for (int tree = 0; tree < ensemble.n_trees(); ++tree)
            leaves.push_back(ensemble.leaf_of(tree, instance.routed));
        CHECK(objective.wins(objective.total(leaves).sign()) == wins);
    }
}

} // namespace

namespace {

void compare_all(Random& random, bool mixed) {
    for (const int norm : {norm_inf, 0, 1, 2, 3}) {
        Counts counts;
        for (int i = 0; i < 400; ++i) {
            const bool apart = random.chance(0.5);
            const Shape shape{random.between(1, 4),
                              random.between(1, 3),
                              apart ? random.between(1, 2) : random.between(1, 4),
                              apart,
                              random.chance(0.3) ? 3 : 1,
                              mixed};
            const Ensemble ensemble = tests::random_ensemble(random, shape);
            const Attacker attacker = tests::random_attacker(random, ensemble, norm);
            const int held = random.below(std::max(2, shape.outputs));
            compare(random, ensemble, attacker,
                    shape.outputs == 1 ? Objective::binary(ensemble, held == 1)
                                       : Objective::rivals(ensemble, held, (held + 1) % 3),
                    counts);
        }
        CHECK(counts.wins > 100 && counts.never > 40 && counts.both > 100);
        CHECK(norm > 0 ? counts.looked > 30 : counts.looked == 0);
    }
}

} // namespace

TEST(engines_say_what_trying_every_attack_says) {
    Random random(20);
    compare_all(random, false);
}

TEST(engines_say_what_trying_every_attack_says_of_steps_and_states) {
    Random random(22);
    compare_all(random, true);
}

// Too many attacks to try: one engine's word against the other's.
TEST(engines_agree_on_larger_ensembles) {
    Random random(21);
    const Stopwatch forever(infinity, nobody_cancels);
    for (const int norm : {norm_inf, 0, 1, 2, 3})
        for (int i = 0; i < 10; ++i) {
            const Ensemble ensemble = tests::random_ensemble(random, {25, 3, 2, true, 1});
            const Attacker attacker = tests::random_attacker(random, ensemble, norm);
            const Objective objective = Objective::binary(ensemble, random.chance(0.5));
            const std::vector<double> row = tests::random_rows(random, ensemble, 1);
            Instance instance(ensemble, attacker);
            instance.load(row.data());
            LargeSpreadSolver solver(ensemble, attacker, {-1, true});
            CHECK(solver.load(instance));
            const Outcome one = solver.attack(objective, Goal::minimise, forever);
            CHECK(one.verdict != Verdict::undecided);
            const Outcome quick = solver.attack(objective, Goal::decide, forever);
            CHECK(quick.verdict == one.verdict && holds(quick.least, one.least));
            for (const bool compact : {false, true}) {
                Search search(ensemble, attacker);
                if (compact)
                    search.compact_always();
                const Outcome other = search.run(instance, objective, Goal::minimise, forever);
                CHECK(other.verdict == one.verdict);
                CHECK(holds(other.least, one.least));
            }
        }
}

// Which of all classes an attack makes win is a question about several objectives at once.
TEST(an_attack_on_all_rivals_is_found_iff_trying_every_attack_finds_one) {
    Random random(23);
    const Stopwatch forever(infinity, nobody_cancels);
    for (const int norm : {norm_inf, 0, 1, 2, 3}) {
        int wins = 0;
        int never = 0;
        for (int i = 0; i < 400; ++i) {
            const Ensemble ensemble =
                tests::random_ensemble(random, {random.between(2, 6), 3, random.between(1, 3),
                                                false, random.between(3, 5), random.chance(0.5)});
            const Attacker attacker = tests::random_attacker(random, ensemble, norm);
            const std::vector<double> row = tests::random_rows(random, ensemble, 1);
            Instance instance(ensemble, attacker);
            instance.load(row.data());
            const int label = random.below(ensemble.n_outputs());
            std::vector<Objective> rivals;
            for (int rival = 0; rival < ensemble.n_outputs(); ++rival)
                if (rival != label)
                    rivals.push_back(Objective::rivals(ensemble, rival, label));
            bool truth = false;
            const auto wins_all = [&](const auto& leaves) {
                return std::ranges::all_of(rivals, [&](const Objective& rival) {
                    return rival.wins(rival.total(leaves).sign());
                });
            };
            tests::for_every_attack(
                ensemble, attacker, instance,
                [&](const auto&, const auto& leaves) { truth = truth || wins_all(leaves); });
            ++(truth ? wins : never);
            std::vector<const Objective*> others;
            for (std::size_t rival = 1; rival < rivals.size(); ++rival)
                others.push_back(&rivals[rival]);
            Search search(ensemble, attacker);
            if (random.chance(0.5))
                search.compact_always();
            const Outcome found =
                search.run(instance, rivals.front(), Goal::decide, forever, others);
            CHECK(found.verdict == (truth ? Verdict::wins : Verdict::never));
            CHECK(found.has_attack == truth);
        }
        CHECK(wins > 50 && never > 50);
    }
}
