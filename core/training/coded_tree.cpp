#include "training/coded_tree.hpp"

#include <algorithm>
#include <limits>

namespace carve {

bool reachable_values(const CodedTree& tree, const Codes& codes, std::span<const double> values,
                      double* lowest, double* highest, int threads, const WatchFunction& watch) {
    constexpr std::int64_t block = 256;
    const auto work = [&](int, RowRange range, const std::atomic<bool>&) {
        std::vector<std::int32_t> pending;
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            double low = std::numeric_limits<double>::infinity();
            double high = -low;
            pending.assign(1, tree.splits.empty() ? ~0 : 0);
            while (!pending.empty()) {
                const std::int32_t here = pending.back();
                pending.pop_back();
                if (here < 0) {
                    const double value = values[static_cast<std::size_t>(~here)];
                    low = std::min(low, value);
                    high = std::max(high, value);
                    continue;
                }
                const auto& split = tree.splits[static_cast<std::size_t>(here)];
                const auto [from, to] = codes.at(i, split.feature);
                const int missing = codes.missing_code(split.feature);
                if (split.goes_left(tree, from, missing))
                    pending.push_back(split.left);
                if (!split.goes_left(tree, to, missing))
                    pending.push_back(split.right);
            }
            lowest[i] = low;
            highest[i] = high;
        }
    };
    return parallel_rows(codes.rows(), block, worker_count(threads, codes.rows(), block), work,
                         watch);
}

} // namespace carve
