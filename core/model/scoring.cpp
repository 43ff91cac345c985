#include "model/scoring.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "model/attacker.hpp"

namespace carve {

bool score_rows(const Ensemble& ensemble, const Rows& rows, double* output, int threads,
                const WatchFunction& watch) {
    const auto outputs = static_cast<std::size_t>(ensemble.n_outputs());
    const Attacker nobody{norm_inf, 0, {}, {}, {}, {}};
    const auto work = [&](int, RowRange range, const std::atomic<bool>&) {
        Instance instance(ensemble, nobody);
        std::vector<double> sum;
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            with_row(rows, i, [&](const auto* row) { instance.load(row); });
            sum = ensemble.base_score;
            for (int tree = 0; tree < ensemble.n_trees(); ++tree) {
                const auto leaf = ensemble.leaf_of(tree, instance.routed);
                for (std::size_t o = 0; o < outputs; ++o) {
                    sum[o] += ensemble.score(leaf, static_cast<int>(o));
                    if (ensemble.float32_sums)
                        sum[o] = static_cast<float>(sum[o]);
                }
            }
            for (std::size_t o = 0; o < outputs; ++o) {
                const double mean = sum[o] / ensemble.average;
                output[static_cast<std::size_t>(i) * outputs + o] =
                    ensemble.float32_sums ? static_cast<float>(mean) : mean;
            }
        }
    };
    return parallel_rows(rows.count, 256, worker_count(threads, rows.count, 256), work, watch);
}

bool count_rows(const Ensemble& ensemble, const Rows& rows, std::span<std::int64_t> counts,
                int threads, const WatchFunction& watch) {
    constexpr std::int64_t block = 256;
    const int workers = worker_count(threads, rows.count, block);
    const Attacker nobody{norm_inf, 0, {}, {}, {}, {}};
    std::vector<std::vector<std::int64_t>> found(static_cast<std::size_t>(workers));
    const auto work = [&](int worker, RowRange range, const std::atomic<bool>&) {
        auto& own = found[static_cast<std::size_t>(worker)];
        own.resize(counts.size());
        Instance instance(ensemble, nobody);
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            with_row(rows, i, [&](const auto* row) { instance.load(row); });
            for (int tree = 0; tree < ensemble.n_trees(); ++tree) {
                const auto leaf = ensemble.leaf_of(tree, instance.routed);
                const Node& node = ensemble.nodes[static_cast<std::size_t>(leaf)];
                ++own[static_cast<std::size_t>(node.right)];
            }
        }
    };
    const bool finished = parallel_rows(rows.count, block, workers, work, watch);
    for (const auto& own : found)
        std::transform(own.begin(), own.end(), counts.begin(), counts.begin(), std::plus<>());
    return finished;
}

namespace {

// Are all |values| < limit? Looks at all of them, many at a time.
template <class Number> bool are_plain(const Number* values, std::int64_t count, double limit) {
    int others = 0;
    for (std::int64_t i = 0; i < count; ++i)
        others += std::fabs(static_cast<double>(values[i])) < limit ? 0 : 1;
    return others == 0;
}

} // namespace

bool first_bad_value(const Ensemble& ensemble, const Rows& rows, bool allow_infinite,
                     std::int64_t& place, int threads, const WatchFunction& watch) {
    // Finite in the precision of the model: below what rounds to infinity (for float32 the middle
    // between its largest number and 2^128, which itself rounds up).
    const double limit =
        ensemble.float32_inputs ? 0x1.ffffffp127 : std::numeric_limits<double>::infinity();
    const auto is_bad = [&](double value, std::int64_t column) {
        if (std::fabs(value) < limit)
            return false;
        return std::isnan(value)
                   ? ensemble.lacks_missing_rule[static_cast<std::size_t>(column)] != 0
                   : !allow_infinite;
    };
    // Blocks are looked at in any order; the first place of all blocks is kept.
    std::atomic<std::int64_t> first{rows.count * rows.columns};
    const BlockFunction work = [&](int, RowRange range, const std::atomic<bool>& cancelled) {
        for (std::int64_t row = range.begin; row < range.end && !cancelled; ++row) {
            if (row * rows.columns >= first.load(std::memory_order_relaxed))
                return;
            with_row(rows, row, [&](const auto* values) {
                if (are_plain(values, rows.columns, limit))
                    return;
                for (std::int64_t column = 0; column < rows.columns; ++column) {
                    if (!is_bad(values[column], column))
                        continue;
                    const std::int64_t here = row * rows.columns + column;
                    std::int64_t known = first.load();
                    while (here < known && !first.compare_exchange_weak(known, here)) {
                    }
                    return;
                }
            });
        }
    };
    // A block worth a thread's while: about a millisecond.
    const std::int64_t block = std::max<std::int64_t>(
        1, (std::int64_t{1} << 20) / std::max<std::int64_t>(1, rows.columns));
    const bool finished =
        parallel_rows(rows.count, block, worker_count(threads, rows.count, block), work, watch);
    place = first.load() < rows.count * rows.columns ? first.load() : -1;
    return finished;
}

} // namespace carve
