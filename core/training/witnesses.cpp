#include "training/witnesses.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "numbers/units.hpp"
#include "training/bits.hpp"

namespace carve {

Witnesses::Witnesses(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                     const std::int32_t* label)
    : ensemble_(ensemble), attacker_(attacker), rows_(rows), label_(label, label + rows.count),
      trees_(ensemble, attacker), moves_(static_cast<std::size_t>(rows.count)) {}

Witnesses::~Witnesses() = default;

template <class Work>
bool Witnesses::for_blocks(std::int64_t count, int threads, const WatchFunction& watch,
                           Work&& work) {
    const int workers = worker_count(threads, count, block_size);
    if (finders_.size() < static_cast<std::size_t>(workers))
        finders_.resize(static_cast<std::size_t>(workers));
    const auto block = [&](int number, RowRange range, const std::atomic<bool>&) {
        auto& finder = finders_[static_cast<std::size_t>(number)];
        if (!finder)
            finder = std::make_unique<WitnessFinder>(ensemble_, trees_, attacker_);
        work(*finder, number, range);
    };
    return parallel_rows(count, block_size, workers, block, watch);
}

bool Witnesses::start_at(const Rows& points, int threads, const WatchFunction& watch) {
    const auto work = [&](WitnessFinder& finder, int, RowRange range) {
        std::vector<double> z(static_cast<std::size_t>(points.columns));
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            with_row(points, i, [&](const auto* row) { std::copy_n(row, z.size(), z.begin()); });
            moves_[static_cast<std::size_t>(i)] = finder.moves_to(rows_, i, z.data());
        }
    };
    return for_blocks(rows_.count, threads, watch, work);
}

bool Witnesses::improve(std::span<const std::int32_t> batch, const double* scores,
                        const Effort& effort, bool keep_leaves, double* margin, int threads,
                        const WatchFunction& watch) {
    const auto trees = static_cast<std::size_t>(ensemble_.n_trees());
    improved_.clear();
    if (keep_leaves) {
        leaves_.resize(batch.size() * trees);
        rival_.resize(batch.size());
    }
    const auto work = [&](WitnessFinder& finder, int, RowRange range) {
        std::vector<WitnessFinder::Row> block;
        for (std::int64_t p = range.begin; p < range.end; ++p) {
            const std::int32_t row = batch[static_cast<std::size_t>(p)];
            const auto place = static_cast<std::size_t>(row);
            // A number of the row's own: it does not matter which worker takes the row, or when.
            const std::uint64_t seed = scrambled(effort.seed, place);
            const bool anew = static_cast<double>(seed >> 11) * 0x1p-53 < effort.anew;
            block.push_back({row, label_[place], seed,
                             anew ? std::vector<CellMove>{} : std::move(moves_[place])});
        }
        finder.improve(rows_, block, scores, effort);
        for (std::size_t i = 0; i < block.size(); ++i) {
            const std::size_t p = static_cast<std::size_t>(range.begin) + i;
            margin[p] = block[i].margin;
            moves_[static_cast<std::size_t>(batch[p])] = std::move(block[i].moves);
            if (!keep_leaves)
                continue;
            std::ranges::copy(block[i].leaves,
                              leaves_.begin() + static_cast<std::ptrdiff_t>(p * trees));
            rival_[p] = block[i].rival;
        }
    };
    if (!for_blocks(static_cast<std::int64_t>(batch.size()), threads, watch, work))
        return false;
    if (keep_leaves)
        improved_.assign(batch.begin(), batch.end());
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
    const auto add = [&](std::size_t p, std::vector<std::int64_t>& own) {
        const int label = label_[static_cast<std::size_t>(improved_[p])];
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
    const auto work = [&](WitnessFinder&, int worker, RowRange range) {
        auto& own = sums[static_cast<std::size_t>(worker)];
        own.resize(score_count(), 0);
        for (std::int64_t p = range.begin; p < range.end; ++p)
            add(static_cast<std::size_t>(p), own);
    };
    if (!for_blocks(count, threads, watch, work))
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
    const auto work = [&](WitnessFinder& finder, int, RowRange range) {
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            const auto row = static_cast<std::size_t>(i);
            if (!finder.write(rows_, i, moves_[row], output + row * columns))
                throw std::logic_error("a witness is not within the budget");
        }
    };
    return for_blocks(rows_.count, threads, watch, work);
}

} // namespace carve
