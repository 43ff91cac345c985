// The grower's parts without Python: teams, sums, codes, and trees that neither threads nor a
// division of the rows change.
#include "training/grower.hpp"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "running/team.hpp"
#include "tests/check.hpp"
#include "tests/joining.hpp"
#include "tests/problems.hpp"
#include "tests/random.hpp"
#include "training/sums.hpp"

namespace carve::tests {

TEST(a_team_does_every_piece_once_batch_after_batch) {
    for (const int members : {1, 2, 4}) {
        Team team(members);
        for (int batch = 0; batch < 200; ++batch) {
            std::vector<std::atomic<int>> done(static_cast<std::size_t>(batch % 7));
            team.share(batch % 7, [&](int piece) { ++done[static_cast<std::size_t>(piece)]; });
            for (const auto& times : done)
                CHECK(times == 1);
        }
    }
}

TEST(an_exception_in_a_team_reaches_the_caller_and_the_team_goes_on) {
    Team team(3);
    const auto fail = [](int piece) {
        if (piece == 2)
            throw std::runtime_error("piece 2");
    };
    CHECK_THROWS(std::runtime_error, team.share(5, fail));
    std::atomic<int> sum{0};
    team.share(4, [&](int piece) { sum += piece; });
    CHECK(sum == 6);
}

TEST(sums_are_the_same_in_any_order_and_come_apart_again) {
    Random random(3);
    std::vector<double> gradient;
    std::vector<double> hessian;
    for (int i = 0; i < 1000; ++i) {
        gradient.push_back((2 * random.real() - 1) * (i % 3 == 0 ? 1e-9 : 1));
        hessian.push_back(random.real() / 4);
    }
    const SumUnits units(1000, largest_of(gradient), largest_of(hessian));
    Sums forth;
    Sums back;
    Sums half;
    double total = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
        forth += units.of(gradient[i], hessian[i]);
        back += units.of(gradient[999 - i], hessian[999 - i]);
        if (i < 500)
            half += units.of(gradient[i], hessian[i]);
        total += gradient[i];
    }
    CHECK(forth.gradient == back.gradient && forth.packed == back.packed);
    CHECK(units.rows(forth) == 1000 && units.rows(forth - half) == 500);
    CHECK(std::fabs(units.gradient(forth) - total) < 1e-9);
}

struct Grown {
    CodedTree tree;
    std::vector<double> ends;
};

// With `join`, the rows are a part of `all` rows.
Grown grown(const std::vector<double>& rows, int features, int threads, std::int64_t all = 0,
            const Join& join = {}) {
    Random random(1);
    Ensemble ensemble = random_ensemble(random, {}); // codes ask it about its inputs alone
    ensemble.n_features = features;
    ensemble.float32_inputs = false;
    const Attacker attacker{norm_inf, 0.0625, {}, {}, {}, {}};
    std::vector<double> thresholds;
    std::vector<std::int64_t> offsets{0};
    for (int f = 0; f < features; ++f) {
        for (int t = 1; t < 16; ++t)
            thresholds.push_back(t / 16.0);
        offsets.push_back(static_cast<std::int64_t>(thresholds.size()));
    }
    Codes codes(thresholds, offsets);
    const auto count = static_cast<std::int64_t>(rows.size()) / features;
    const WatchFunction go_on = [](auto) { return true; };
    CHECK(codes.encode(ensemble, attacker, {rows.data(), false, count, features}, threads, go_on,
                       join));
    std::vector<std::uint8_t> down;
    std::vector<double> gradient;
    std::vector<double> hessian;
    std::vector<std::int32_t> used;
    for (std::int64_t i = 0; i < count; ++i) {
        const double* const x = rows.data() + i * features;
        down.push_back(x[0] + x[1] * x[2] > 0.7 ? 1 : 0);
        gradient.push_back(down.back() != 0 ? -0.5 : 0.5);
        hessian.push_back(0.25);
        used.push_back(static_cast<std::int32_t>(i));
    }
    const std::vector<std::uint8_t> every(static_cast<std::size_t>(features), 1);
    GrowerOptions options;
    options.leaves = 20;
    options.l2 = 1;
    options.feature_share = 0.5;
    const Whole whole{all, 0.5, 0.25, join};
    Grown found{grow_tree(
                    codes, {down, gradient, hessian, used, every}, options, threads,
                    [] { return true; }, join ? &whole : nullptr),
                {}};
    found.ends.resize(2 * static_cast<std::size_t>(count));
    CHECK(reachable_values(found.tree, codes, found.tree.values, found.ends.data(),
                           found.ends.data() + count, threads, go_on));
    return found;
}

TEST(a_tree_does_not_depend_on_threads) {
    Random random(11);
    std::vector<double> rows;
    for (int i = 0; i < 400 * 70; ++i)
        rows.push_back(random.real());
    const Grown one = grown(rows, 70, 1);
    CHECK(one.tree.values.size() == 20);
    for (const int threads : {2, 4}) {
        const Grown several = grown(rows, 70, threads);
        CHECK(several.tree.values == one.tree.values);
        CHECK(several.ends == one.ends);
    }
    for (std::size_t i = 0; i < 400; ++i)
        CHECK(one.ends[i] <= one.ends[400 + i]);
}

// Of `rows`, those whose number is `part` modulo `parts`; part 0 has none.
std::vector<double> part_of(const std::vector<double>& rows, int features, int part, int parts) {
    std::vector<double> found;
    const auto columns = static_cast<std::size_t>(features);
    for (std::size_t i = 0; i < rows.size() / columns; ++i)
        if (static_cast<int>(i) % (parts - 1) == part - 1)
            found.insert(found.end(), rows.begin() + static_cast<std::ptrdiff_t>(i * columns),
                         rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * columns));
    return found;
}

TEST(a_tree_of_parts_in_threads_is_that_of_the_whole) {
    Random random(12);
    std::vector<double> rows;
    for (int i = 0; i < 400 * 70; ++i)
        rows.push_back(random.real());
    const Grown one = grown(rows, 70, 1);
    for (const int parts : {2, 3, 4}) {
        std::vector<CodedTree> trees(static_cast<std::size_t>(parts));
        in_parts(parts, [&](int part, const Join& join) {
            trees[static_cast<std::size_t>(part)] =
                grown(part_of(rows, 70, part, parts), 70, 1 + part % 2, 400, join).tree;
        });
        for (const CodedTree& tree : trees) {
            CHECK(tree.values == one.tree.values);
            CHECK(tree.hessians == one.tree.hessians);
            CHECK(tree.rows == one.tree.rows);
        }
    }
}

TEST(an_exception_in_join_reaches_the_caller_from_amid_the_threads) {
    const std::vector<double> rows(400 * 70, 0.5);
    for (int calls = 0; calls < 3; ++calls) {
        int left = calls;
        const Join join = [&](const PartialSums&) {
            if (left-- == 0)
                throw std::runtime_error("gone");
        };
        CHECK_THROWS(std::runtime_error, grown(rows, 70, 3, 400, join));
    }
}

} // namespace carve::tests
