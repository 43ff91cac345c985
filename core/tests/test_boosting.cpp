// The parts of robust training: the thread pool, the kernel on every instruction set, and leaves in
// reach of random trees, found one by one.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "running/thread_pool.hpp"
#include "tests/check.hpp"
#include "tests/random.hpp"
#include "training/block_forest.hpp"
#include "training/block_refit.hpp"

using namespace carve;
using carve::tests::Random;

namespace {

// Three features of numbers, of which the second may be missing, and one of categories.
struct Problem {
    std::vector<double> X;
    std::vector<double> bounds;
    std::vector<std::int64_t> bound_offsets{0};
    std::vector<std::uint8_t> can_left;
    std::vector<std::uint8_t> must_left;
    std::vector<std::int64_t> threshold_offsets{0};
    std::vector<FeatureKind> kinds{FeatureKind::numbers, FeatureKind::numbers_or_missing,
                                   FeatureKind::numbers, FeatureKind::categories};
    static constexpr int bound_count = 40;

    Problem(Random& random, std::size_t rows) {
        for (std::size_t i = 0; i < rows; ++i)
            for (int f = 0; f < 4; ++f)
                X.push_back(f == 1 && random.chance(0.3) ? std::numeric_limits<double>::quiet_NaN()
                                                         : random.below(bound_count));
        for (int f = 0; f < 4; ++f) {
            for (int b = 0; b < bound_count; ++b)
                bounds.push_back(b + 0.5);
            bound_offsets.push_back(static_cast<std::int64_t>(bounds.size()));
            for (int j = 0; f < 3 && j < 20; ++j) {
                must_left.push_back(static_cast<std::uint8_t>(j));
                can_left.push_back(static_cast<std::uint8_t>(j + f * 3));
            }
            threshold_offsets.push_back(static_cast<std::int64_t>(can_left.size()));
        }
    }
    BinTable table() const {
        return {bounds, bound_offsets, can_left, must_left, threshold_offsets, kinds};
    }
};

CodedTree random_tree(Random& random, const RowBlocks& rows, int leaves) {
    CodedTree tree;
    std::vector<std::int32_t> parent(static_cast<std::size_t>(leaves), -1);
    std::vector<bool> is_left(static_cast<std::size_t>(leaves), false);
    for (int i = 0; i + 1 < leaves; ++i) {
        const auto leaf = static_cast<std::size_t>(random.below(i + 1));
        if (parent[leaf] >= 0) {
            auto& above = tree.splits[static_cast<std::size_t>(parent[leaf])];
            (is_left[leaf] ? above.left : above.right) = i;
        }
        const int f = random.below(rows.features());
        CodedTree::Split split{f, 0, ~static_cast<std::int32_t>(leaf), ~(i + 1), 0};
        if (rows.kind(f) == FeatureKind::categories) {
            split.set = static_cast<std::int32_t>(tree.sets.size());
            tree.sets.emplace_back();
            for (int code = 0; code < rows.bins(f); ++code)
                if (random.chance(0.5))
                    tree.sets.back().add(code);
        } else {
            split.position = random.below(rows.positions(f));
            split.missing_left = random.chance(0.5) && split.position < rows.thresholds(f) ? 1 : 0;
        }
        tree.splits.push_back(split);
        parent[leaf] = parent[static_cast<std::size_t>(i) + 1] = i;
        is_left[leaf] = true;
    }
    for (int i = 0; i < leaves; ++i)
        tree.values.push_back(random.between(-50, 50));
    return tree;
}

// The lowest (sign 1) or highest (sign -1) value in reach below a node, of one row of X.
double worst_below(const CodedTree& tree, const RowBlocks& rows, const double* x, std::int32_t node,
                   int sign) {
    if (node < 0)
        return tree.values[static_cast<std::size_t>(~node)];
    const auto& split = tree.splits[static_cast<std::size_t>(node)];
    const double value = x[split.feature]; // a whole number, and its own code
    bool left = false;
    bool right = false;
    if (split.set >= 0) {
        left = tree.sets[static_cast<std::size_t>(split.set)].holds(static_cast<int>(value));
        right = !left;
    } else if (value != value) {
        left = split.missing_left != 0;
        right = !left;
    } else {
        left = value <= rows.can_left(split.feature)[split.position];
        right = value > rows.must_left(split.feature)[split.position];
    }
    double worst = sign * std::numeric_limits<double>::infinity();
    for (const auto& [reached, child] : {std::pair{left, split.left}, {right, split.right}})
        if (reached) {
            const double found = worst_below(tree, rows, x, child, sign);
            worst = sign > 0 ? std::min(worst, found) : std::max(worst, found);
        }
    return worst;
}

} // namespace

TEST(a_thread_pool_runs_every_task_once) {
    for (const int threads : {1, 2, 5}) {
        ThreadPool pool(threads);
        CHECK(pool.size() == threads);
        for (int tasks = 0; tasks < 300; ++tasks) {
            std::vector<int> runs(static_cast<std::size_t>(tasks), 0);
            std::atomic<int> misplaced{0};
            pool.run(tasks, [&](int worker, int task) {
                misplaced += worker < 0 || worker >= threads ? 1 : 0;
                ++runs[static_cast<std::size_t>(task)];
            });
            CHECK(misplaced == 0 && runs == std::vector<int>(runs.size(), 1));
        }
        CHECK_THROWS(std::domain_error, pool.run(100, [](int, int task) {
            if (task == 50)
                throw std::domain_error("task 50");
        }));
        int last = 0;
        pool.run(1, [&](int, int) { last = 1; }); // it works on after a failure
        CHECK(last == 1);
    }
}

TEST(score_bounds_are_those_of_leaves_found_one_by_one) {
    Random random(1);
    constexpr std::size_t n = 300;
    const Problem problem(random, n);
    std::vector<std::int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    const std::vector<std::int64_t> groups{100, 0, 200};
    RowBlocks rows(problem.table());
    const auto go_on = [](std::span<const RowRange>) { return true; };
    CHECK(rows.encode({problem.X.data(), false, n, 4}, order, groups, 2, go_on));
    for (const int leaves : {1, 2, 3, 32, 256}) {
        const CodedTree tree = random_tree(random, rows, leaves);
        BlockForest forest;
        forest.add(rows, tree, 0, tree.values);
        std::vector<double> low(n);
        std::vector<double> high(n);
        const std::vector<double> bias{0.0};
        CHECK(find_score_bounds(rows, forest, tree.values, bias, nullptr, low.data(), high.data(),
                                2, go_on));
        for (std::size_t i = 0; i < n; ++i) {
            const double* const x = problem.X.data() + 4 * i;
            const std::int32_t root = leaves > 1 ? 0 : ~0;
            CHECK(low[i] == worst_below(tree, rows, x, root, 1));
            CHECK(high[i] == worst_below(tree, rows, x, root, -1));
        }
        for (const BlockKernel* const kernel : supported_kernels())
            for (std::size_t block = 0; block < rows.blocks(); ++block) {
                std::uint8_t ranks[4][64];
                forest.find_worst(*kernel, codes_of(rows, block), 0, ranks[0], ranks[1]);
                forest.find_worst(*kernel, codes_of(rows, block), 0, ranks[2], nullptr);
                forest.find_worst(*kernel, codes_of(rows, block), 0, nullptr, ranks[3]);
                CHECK(std::memcmp(ranks[0], ranks[2], 64) == 0);
                CHECK(std::memcmp(ranks[1], ranks[3], 64) == 0);
                for (std::size_t i = 0; i < static_cast<std::size_t>(rows.rows_in(block)); ++i) {
                    const auto row = static_cast<std::size_t>(rows.source(block)[i]);
                    CHECK(forest.sorted_values(0)[ranks[0][i]] == static_cast<float>(low[row]));
                    CHECK(forest.sorted_values(0)[ranks[1][i]] == static_cast<float>(high[row]));
                }
            }
    }
}

TEST(exponentials_are_equal_on_all_instruction_sets_and_accurate) {
    Random random(2);
    for (int repeat = 0; repeat < 1000; ++repeat) {
        float x[64];
        for (float& value : x)
            value = static_cast<float>(random.real() * 180 - 90);
        std::vector<float> expected(x, x + 64);
        block_kernel().exponentials(expected.data());
        for (const BlockKernel* const kernel : supported_kernels()) {
            std::vector<float> found(x, x + 64);
            kernel->exponentials(found.data());
            CHECK(std::memcmp(found.data(), expected.data(), sizeof x) == 0);
        }
        for (int i = 0; i < 64; ++i) {
            const double exact = std::exp(std::clamp(static_cast<double>(x[i]), -87.0, 87.0));
            CHECK(std::fabs(static_cast<double>(expected[static_cast<std::size_t>(i)]) - exact) <=
                  4e-7 * exact);
        }
    }
}
