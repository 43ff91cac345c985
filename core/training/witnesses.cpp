#include "training/witnesses.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "numbers/units.hpp"
#include "training/bits.hpp"

namespace carve {

Witnesses::Witnesses(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                     const std::int32_t* label)
    : ensemble_(ensemble), attacker_(attacker), rows_(rows), label_(label, label + rows.count),
      trees_(ensemble, attacker), moves_(static_cast<std::size_t>(rows.count)) {}

Witnesses::~Witnesses() = default;

template <class Work>
bool Witnesses::for_each(std::int64_t count, int threads, const WatchFunction& watch, Work&& work) {
    const int workers = worker_count(threads, count, block_size);
    if (finders_.size() < static_cast<std::size_t>(workers))
        finders_.resize(static_cast<std::size_t>(workers));
    const auto block = [&](int number, RowRange range, const std::atomic<bool>& cancelled) {
        auto& finder = finders_[static_cast<std::size_t>(number)];
        if (!finder)
            finder = std::make_unique<WitnessFinder>(ensemble_, trees_, attacker_);
        for (std::int64_t i = range.begin; i < range.end && !cancelled; ++i)
            work(*finder, number, i);
    };
    return parallel_rows(count, block_size, workers, block, watch);
}

bool Witnesses::stand_at(const Rows& points, int threads, const WatchFunction& watch) {
    return for_each(rows_.count, threads, watch, [&](WitnessFinder& finder, int, std::int64_t i) {
        std::vector<double> z(static_cast<std::size_t>(points.columns));
        with_row(points, i, [&](const auto* row) { std::copy_n(row, z.size(), z.begin()); });
        finder.load(rows_, i);
        finder.stand_at(z.data());
        moves_[static_cast<std::size_t>(i)] = finder.standing();
    });
}

bool Witnesses::press(std::span<const std::int32_t> batch, const double* scores,
                      const Effort& effort, bool keep_leaves, double* margin, int threads,
                      const WatchFunction& watch) {
    const auto trees = static_cast<std::size_t>(ensemble_.n_trees());
    pressed_.clear();
    if (keep_leaves) {
        leaves_.resize(batch.size() * trees);
        rival_.resize(batch.size());
    }
    const auto work = [&](WitnessFinder& finder, int, std::int64_t position) {
        const auto p = static_cast<std::size_t>(position);
        const std::int32_t row = batch[p];
        auto& kept = moves_[static_cast<std::size_t>(row)];
        // A number of the row's own: it does not matter which worker takes the row, or when.
        const std::uint64_t seed = scrambled(effort.seed, static_cast<std::uint64_t>(row));
        finder.load(rows_, row);
        if (static_cast<double>(seed >> 11) * 0x1p-53 >= effort.anew)
            finder.stand_at(kept);
        margin[p] = finder.press(scores, label_[static_cast<std::size_t>(row)], effort, seed);
        kept = finder.moves();
        if (!keep_leaves)
            return;
        std::ranges::copy(finder.leaves(),
                          leaves_.begin() + static_cast<std::ptrdiff_t>(p * trees));
        rival_[p] = finder.rival();
    };
    if (!for_each(static_cast<std::int64_t>(batch.size()), threads, watch, work))
        return false;
    if (keep_leaves)
        pressed_.assign(batch.begin(), batch.end());
    return true;
}

bool Witnesses::slope(std::span<const double> force, double* output, int threads,
                      const WatchFunction& watch) {
    const auto count = static_cast<std::int64_t>(force.size());
    const auto trees = static_cast<std::size_t>(ensemble_.n_trees());
    const auto outputs = static_cast<std::size_t>(ensemble_.n_outputs());
    double largest_force = 0;
    for (const double one : force) {
        if (!std::isfinite(one))
            throw std::invalid_argument("forces must be finite");
        largest_force = std::max(largest_force, std::fabs(one));
    }
    int exponent = 0;
    std::frexp(largest_force, &exponent); // largest_force < 2^exponent
    const double unit = std::ldexp(units::slope_unit(count), std::max(exponent, -900));
    std::vector<std::vector<std::int64_t>> sums(
        static_cast<std::size_t>(worker_count(threads, count, block_size)));
    const auto work = [&](WitnessFinder&, int worker, std::int64_t position) {
        const auto p = static_cast<std::size_t>(position);
        auto& own = sums[static_cast<std::size_t>(worker)];
        own.resize(score_count(), 0);
        const int label = label_[static_cast<std::size_t>(pressed_[p])];
        const auto pull = static_cast<std::int64_t>(std::llround(force[p] / unit));
        for (std::size_t t = 0; t < trees; ++t) {
            const auto row = static_cast<std::size_t>(leaves_[p * trees + t]) * outputs;
            if (outputs == 1) {
                own[row] += label == 1 ? pull : -pull;
                continue;
            }
            const std::int32_t only = trees_.output[t];
            if (only < 0 || only == label)
                own[row + static_cast<std::size_t>(label)] += pull;
            if (only < 0 || only == rival_[p])
                own[row + static_cast<std::size_t>(rival_[p])] -= pull;
        }
    };
    if (!for_each(count, threads, watch, work))
        return false;
    for (std::size_t s = 0; s < score_count(); ++s) {
        std::int64_t sum = 0;
        for (const auto& own : sums)
            sum += own.empty() ? 0 : own[s];
        output[s] = static_cast<double>(sum) * (unit / ensemble_.average);
    }
    return true;
}

bool Witnesses::points(double* output, int threads, const WatchFunction& watch) {
    const auto columns = static_cast<std::size_t>(rows_.columns);
    return for_each(rows_.count, threads, watch, [&](WitnessFinder& finder, int, std::int64_t i) {
        finder.load(rows_, i);
        if (!finder.write(moves_[static_cast<std::size_t>(i)],
                          output + static_cast<std::size_t>(i) * columns))
            throw std::logic_error("a witness is not within the budget");
    });
}

} // namespace carve
