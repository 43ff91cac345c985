// The knapsack against trying every choice, in numbers of all sizes.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "large_spread/knapsack.hpp"
#include "tests/check.hpp"
#include "tests/random.hpp"

using carve::Dyadic;
using carve::ExactOption;
using carve::Knapsack;
using carve::Option;
using carve::Stopwatch;
using carve::WholeOption;
using carve::Wide;
using carve::tests::Random;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::atomic<bool> nobody_cancels{false};

// A cost or gain: whole * 2^60 + part, of which a double holds the first only. As an exact number
// it has 70 bits or, if it is `long`, as many zeros after them as 128 bits do not hold.
struct Number {
    int whole = 0;
    int part = 0;

    double rounded() const { return whole * 0x1p60; }
    Dyadic exact(bool is_long) const {
        const Dyadic one =
            is_long ? Dyadic::magnitude(1.0) * Dyadic::magnitude(1.0) : Dyadic::integer(1);
        return (Dyadic::integer(static_cast<std::uint64_t>(whole)) *
                    Dyadic::integer(std::uint64_t{1} << 60) +
                Dyadic::integer(static_cast<std::uint64_t>(part))) *
               one;
    }
};

struct Item {
    Number cost;
    Number gain;
};

struct Problem {
    std::vector<std::vector<Item>> groups;
    Number capacity;
    bool is_long = false;

    ExactOption exact(int group, std::int32_t leaf) const {
        const Item& item = groups[static_cast<std::size_t>(group)][static_cast<std::size_t>(leaf)];
        return {item.cost.exact(is_long), item.gain.exact(is_long)};
    }
    Dyadic exact_capacity() const { return capacity.exact(is_long); }
};

constexpr carve::Slack slack{64, 64}; // what rounding takes from a few parts

Problem random_problem(Random& random, bool fine) {
    Problem problem;
    problem.is_long = random.chance(0.3);
    const int most = random.pick({3, 12, 1000});
    const auto number = [&](int least) {
        return Number{random.between(least, most), fine ? random.below(4) : 0};
    };
    int sum = 0;
    for (int g = random.between(1, 6); g > 0; --g) {
        std::vector<Item> group;
        for (int o = random.between(1, 4); o > 0; --o)
            group.push_back({number(1), number(1)});
        sum += group.back().cost.whole;
        problem.groups.push_back(group);
    }
    problem.capacity = {random.between(0, sum), fine ? random.below(8) : 0};
    return problem;
}

void load(Knapsack& knapsack, const Problem& problem) {
    knapsack.clear(slack);
    for (std::size_t g = 0; g < problem.groups.size(); ++g) {
        const auto& group = problem.groups[g];
        std::vector<Option> options;
        for (std::size_t o = 0; o < group.size(); ++o)
            options.push_back(
                {group[o].cost.rounded(), group[o].gain.rounded(), static_cast<std::int32_t>(o)});
        knapsack.add_group(static_cast<int>(g), options, [&](std::int32_t a, std::int32_t b) {
            const Number& left = group[static_cast<std::size_t>(a)].gain;
            const Number& right = group[static_cast<std::size_t>(b)].gain;
            return left.whole == right.whole && left.part == right.part;
        });
    }
}

// Calls visit(cost, gain) for every choice.
template <class Visit>
void for_every_choice(const Problem& problem, Visit&& visit, std::size_t group = 0,
                      const Dyadic& cost = {}, const Dyadic& gain = {}) {
    if (group == problem.groups.size()) {
        visit(cost, gain);
        return;
    }
    for_every_choice(problem, visit, group + 1, cost, gain);
    for (std::size_t o = 0; o < problem.groups[group].size(); ++o) {
        const ExactOption option =
            problem.exact(static_cast<int>(group), static_cast<std::int32_t>(o));
        for_every_choice(problem, visit, group + 1, cost + option.cost, gain + option.gain);
    }
}

Dyadic best_gain(const Problem& problem) {
    const Dyadic capacity = problem.exact_capacity();
    Dyadic best;
    for_every_choice(problem, [&](const Dyadic& cost, const Dyadic& gain) {
        if (cost <= capacity && best < gain)
            best = gain;
    });
    return best;
}

ExactOption picked(const Knapsack& knapsack, const Problem& problem) {
    ExactOption total;
    for (const auto& [group, leaf] : knapsack.picks) {
        const ExactOption option = problem.exact(group, leaf);
        total = {total.cost + option.cost, total.gain + option.gain};
    }
    return total;
}

const Stopwatch& forever() {
    static const Stopwatch stopwatch(infinity, nobody_cancels);
    return stopwatch;
}

} // namespace

TEST(the_knapsack_gains_as_much_as_trying_every_choice) {
    Random random(30);
    Knapsack knapsack;
    for (int i = 0; i < 1500; ++i) {
        const Problem problem = random_problem(random, false);
        load(knapsack, problem);
        const Dyadic best = best_gain(problem);
        const auto totals = knapsack.maximise(problem.capacity.rounded(), forever());
        CHECK(!knapsack.gave_up());
        CHECK(Dyadic::magnitude(totals.gain) == best); // whole numbers are not rounded
        const ExactOption total = picked(knapsack, problem);
        CHECK(total.gain == best && total.cost <= problem.exact_capacity());
        CHECK(best <= Dyadic::magnitude(knapsack.most_gain()));
    }
}

TEST(the_knapsack_is_exact_where_doubles_are_not) {
    Random random(31);
    Knapsack knapsack;
    for (int i = 0; i < 1500; ++i) {
        const Problem problem = random_problem(random, true);
        load(knapsack, problem);
        const Dyadic best = best_gain(problem);
        const Dyadic capacity = problem.exact_capacity();
        const auto lookup = [&](int group, std::int32_t leaf) {
            return problem.exact(group, leaf);
        };
        const auto totals = knapsack.maximise(problem.capacity.rounded() + 1024, forever());
        CHECK(totals.gain <= knapsack.most_gain());
        if (knapsack.is_certain() && picked(knapsack, problem).cost <= capacity)
            CHECK(picked(knapsack, problem).gain == best);
        knapsack.maximise_exactly(problem.capacity.rounded(), capacity, lookup, forever());
        CHECK(!knapsack.gave_up());
        const ExactOption total = picked(knapsack, problem);
        CHECK(total.gain == best && total.cost <= capacity);
    }
}

TEST(the_knapsack_gains_as_much_in_whole_numbers) {
    Random random(34);
    Knapsack knapsack;
    const auto whole = [](const Number& number) {
        return (Wide{static_cast<std::uint64_t>(number.whole)} << 60) +
               Wide{static_cast<std::uint64_t>(number.part)};
    };
    for (int i = 0; i < 1500; ++i) {
        const Problem problem = random_problem(random, random.chance(0.7));
        load(knapsack, problem);
        const auto lookup = [&](int group, std::int32_t leaf) {
            const Item& item =
                problem.groups[static_cast<std::size_t>(group)][static_cast<std::size_t>(leaf)];
            return WholeOption{whole(item.cost), whole(item.gain)};
        };
        const auto cost = knapsack.maximise_whole(problem.capacity.rounded(),
                                                  whole(problem.capacity), lookup, forever());
        CHECK(cost.has_value() && !knapsack.gave_up());
        Wide total = 0;
        for (const auto& [group, leaf] : knapsack.picks)
            total += lookup(group, leaf).cost;
        CHECK(total == *cost && *cost <= whole(problem.capacity));
        CHECK(picked(knapsack, problem).gain == best_gain(problem));
    }
}

TEST(a_knapsack_that_is_stopped_has_a_choice_within_the_capacity) {
    Random random(35);
    const std::atomic<bool> cancelled{true};
    const Stopwatch over(0, cancelled);
    Knapsack knapsack;
    knapsack.clear({1e-12, 1e-12});
    std::vector<double> costs;
    std::vector<Option> options;
    for (int group = 0; group < 400; ++group) { // hard: all gain about what they cost
        costs.push_back(0.5 + random.real());
        options = {{costs.back(), costs.back() + 1e-6 * random.real(), 0}};
        knapsack.add_group(group, options, [](std::int32_t, std::int32_t) { return true; });
    }
    const auto lookup = [&](int group, std::int32_t) {
        const auto units =
            static_cast<std::uint64_t>(costs[static_cast<std::size_t>(group)] * 1e12);
        return WholeOption{Wide{units}, Wide{units}};
    };
    const Wide capacity{static_cast<std::uint64_t>(100.3 * 1e12)};
    CHECK(!knapsack.maximise_whole(100.3, capacity, lookup, over) && knapsack.gave_up());
    double cost = 0;
    for (const auto& [group, leaf] : knapsack.picks)
        cost += costs[static_cast<std::size_t>(group)];
    CHECK(50 < cost && cost <= 100.3 && cost <= knapsack.most_gain());
}

TEST(the_knapsack_finds_the_cheapest_way_to_a_gain) {
    Random random(32);
    Knapsack knapsack;
    int found = 0;
    for (int i = 0; i < 1500; ++i) {
        const Problem problem = random_problem(random, random.chance(0.7));
        load(knapsack, problem);
        const Dyadic capacity = problem.exact_capacity();
        const Number wanted{random.below(20), random.below(6)};
        const Dyadic target = wanted.exact(problem.is_long);
        const bool strict = random.chance(0.5);
        bool possible = false;
        Dyadic least;
        for_every_choice(problem, [&](const Dyadic& cost, const Dyadic& gain) {
            if (!(cost <= capacity) || gain < target || (strict && gain == target))
                return;
            if (!possible || cost < least)
                least = cost;
            possible = true;
        });
        Dyadic cheapest;
        const auto lookup = [&](int group, std::int32_t leaf) {
            return problem.exact(group, leaf);
        };
        const bool reached = knapsack.minimise_exactly(
            problem.capacity.rounded(), capacity, {&target, strict}, lookup, cheapest, forever());
        CHECK(!knapsack.gave_up() && reached == possible);
        if (!reached)
            continue;
        ++found;
        CHECK(cheapest == least && picked(knapsack, problem).cost == least);
        CHECK(target <= picked(knapsack, problem).gain);
    }
    CHECK(found > 300);
}

TEST(the_relaxation_is_a_bound_that_a_choice_and_a_part_reach) {
    Random random(33);
    Knapsack knapsack;
    for (int i = 0; i < 1500; ++i) {
        const Problem problem = random_problem(random, false);
        load(knapsack, problem);
        const auto relaxed = knapsack.relaxation(problem.capacity.rounded());
        CHECK(best_gain(problem).to_double() <= relaxed.gain * (1 + 1e-12));
        CHECK(0 <= relaxed.share && relaxed.share < 1);
        // The whole picks, and the share of a step from one group's pick to `last`.
        const ExactOption whole = picked(knapsack, problem);
        double cost = whole.cost.to_double();
        double gain = whole.gain.to_double();
        if (relaxed.share > 0) {
            const ExactOption last = problem.exact(relaxed.last.group, relaxed.last.leaf);
            ExactOption from;
            for (const auto& [group, leaf] : knapsack.picks)
                if (group == relaxed.last.group)
                    from = problem.exact(group, leaf);
            cost += relaxed.share * (last.cost - from.cost).to_double();
            gain += relaxed.share * (last.gain - from.gain).to_double();
            CHECK(std::fabs(cost - problem.capacity.rounded()) <= 1e-12 * cost);
        }
        CHECK(cost <= problem.capacity.rounded() * (1 + 1e-12));
        CHECK(std::fabs(gain - relaxed.gain) <= 1e-12 * gain);
    }
}
