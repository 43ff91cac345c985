// What is in reach is numbered as a whole, or said to be too large.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/reductions.hpp"

using namespace carve;
using tests::forever;
using tests::Random;

namespace {

// Stumps that ask three features of 8 states for {0, …, i}, twice, and a tree whose last leaf asks
// each of them for the even states, which are no runs in the order of the stumps.
Ensemble even_states() {
    constexpr std::int32_t features = 3;
    constexpr std::int32_t states = 8;
    Form form{0, features, 1, true, false, false};
    form.grid.assign(features, Grid::finite);
    form.sets.starts = {0};
    for (int set = 0; set < states; ++set) {
        form.sets.words.push_back(set + 1 < states ? (std::uint64_t{2} << set) - 1 : 0x55);
        form.sets.starts.push_back(set + 1);
    }
    std::vector<StoredNode> nodes;
    std::vector<std::int32_t> roots;
    std::vector<double> scores;
    const auto leaf = [&](double score) {
        nodes.push_back({0, -1, static_cast<std::int32_t>(scores.size()), -1, -1});
        scores.push_back(score);
    };
    const auto split = [&](double set, std::int32_t feature, std::int32_t left) {
        const auto here = static_cast<std::int32_t>(nodes.size());
        nodes.push_back({set, feature, here + left, here + 3 - left, 0});
    };
    for (std::int32_t feature = 0; feature < features; ++feature)
        for (int stump = 0; stump < 2 * (states - 1); ++stump) {
            const int set = stump / 2;
            roots.push_back(static_cast<std::int32_t>(nodes.size()));
            split(set, feature, 1);
            leaf(set);
            leaf(-set - 1);
        }
    roots.push_back(static_cast<std::int32_t>(nodes.size()));
    for (std::int32_t feature = 0; feature < features; ++feature) {
        split(states - 1, feature, 2);
        leaf(feature + 1);
    }
    leaf(-9);
    return Ensemble(nodes, roots, scores, {0}, form);
}

} // namespace

TEST(leaves_of_many_runs_are_all_there_or_too_large) {
    const Ensemble ensemble = even_states();
    Attacker attacker{norm_inf, 1, {}, {}, {}, {}};
    attacker.states = {{0, 1, 2, 3}, {0xff, 0xff, 0xff}};
    const Objective objective = Objective::binary(ensemble, true);
    const std::vector<double> row{1, 3, 5};
    Instance instance(ensemble, attacker);
    instance.load(row.data());
    Reduction all(ensemble, attacker);
    CHECK(all.prune(instance, objective, false, forever) == Reduction::Built::whole);
    CHECK(all.number(instance, forever) == Reduction::Built::whole);
    CHECK(all.leaves.size() > 160); // of 88 before they are split
    for (std::size_t most = 0; most <= all.entries.size(); ++most) {
        Reduction some(ensemble, attacker, most);
        const auto pruned = some.prune(instance, objective, false, forever);
        const auto built =
            pruned == Reduction::Built::whole ? some.number(instance, forever) : pruned;
        CHECK(built ==
              (most < all.entries.size() ? Reduction::Built::too_large : Reduction::Built::whole));
    }
}

TEST(random_reductions_are_whole_or_too_large) {
    Random random(61);
    int large = 0;
    for (int i = 0; i < 300; ++i) {
        tests::Question question(random,
                                 {random.between(2, 5), 3, random.between(2, 4), false, 1, true},
                                 random.pick({norm_inf, 0, 1, 2}));
        const Reduction& all = question.reduction;
        Reduction some(
            question.ensemble, question.attacker,
            static_cast<std::size_t>(random.below(static_cast<int>(all.entries.size()) + 1)));
        if (some.prune(question.instance, question.objective, false, forever) ==
                Reduction::Built::whole &&
            some.number(question.instance, forever) == Reduction::Built::whole)
            CHECK(some.leaves.size() == all.leaves.size());
        else
            ++large;
    }
    CHECK(large > 100);
}
