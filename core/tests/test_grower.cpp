// The grower's parts without Python: teams, sums, codes, and trees that threads do not change.
#include "training/grower.hpp"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "running/team.hpp"
#include "tests/check.hpp"
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
    const SumUnits units(gradient, hessian);
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

Grown grown(const std::vector<double>& rows, int features, int threads) {
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
    CHECK(codes.encode(ensemble, attacker, {rows.data(), false, count, features}, threads, go_on));
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
    const std::vector<std::uint8_t> all(static_cast<std::size_t>(features), 1);
    GrowerOptions options;
    options.leaves = 20;
    options.l2 = 1;
    options.feature_share = 0.5;
    Grown found{grow_tree(codes, {down, gradient, hessian, used, all}, options, threads,
                          [] { return true; }),
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

} // namespace carve::tests
