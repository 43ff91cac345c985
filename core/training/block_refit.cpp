#include "training/block_refit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "running/thread_pool.hpp"
#include "training/bits.hpp"

namespace carve {

namespace {

constexpr std::size_t block_size = RowBlocks::block_size;
constexpr std::size_t slot_blocks = 8; // summed by one thread; the sums of slots are added in order
constexpr std::size_t parts = 4;       // sums per leaf, so that additions need not wait for another
constexpr double first_moment = 0.9;   // Adam's
constexpr double second_moment = 0.999;
constexpr float forgotten = 0.2F; // of the average of the iterates, per step

// All blocks in random order, with the groups evenly mixed.
std::vector<std::uint32_t> mixed_blocks(const RowBlocks& rows, std::uint64_t seed) {
    std::vector<std::pair<double, std::uint32_t>> placed;
    std::size_t first = 0;
    for (const std::size_t end : rows.group_ends()) {
        std::vector<std::uint32_t> own(end - first);
        std::iota(own.begin(), own.end(), static_cast<std::uint32_t>(first));
        std::ranges::sort(own, {}, [&](std::uint32_t block) { return scrambled(seed, block); });
        for (std::size_t i = 0; i < own.size(); ++i)
            placed.emplace_back((static_cast<double>(i) + 0.5) / static_cast<double>(own.size()),
                                own[i]);
        first = end;
    }
    std::ranges::sort(placed);
    std::vector<std::uint32_t> blocks;
    for (const auto& [place, block] : placed)
        blocks.push_back(block);
    return blocks;
}

class Refit {
  public:
    Refit(const RowBlocks& rows, const BlockObjective& objective, BlockForest forest,
          std::span<const double> values, std::span<const double> bias, const RefitOptions& options,
          int threads)
        : rows_(rows), objective_(objective), forest_(std::move(forest)), options_(options),
          pool_(threads), bias_(bias.begin(), bias.end()), values_(values.begin(), values.end()),
          average_(values_), first_(values_.size()), second_(values_.size()) {}

    std::vector<double> run(const std::function<bool()>& go_on) {
        const std::size_t batch = std::min(
            rows_.blocks(), static_cast<std::size_t>(std::max(1, options_.blocks_per_batch)));
        std::vector<std::uint32_t> order;
        std::vector<std::uint32_t> drawn;
        std::size_t next = 0;
        std::uint64_t epochs = 0;
        for (int step = 1; step <= options_.steps && batch > 0 && go_on(); ++step) {
            drawn.clear();
            while (drawn.size() < batch) {
                if (next == order.size()) {
                    order = mixed_blocks(rows_, scrambled(options_.seed, epochs++));
                    next = 0;
                }
                drawn.push_back(order[next++]);
            }
            take_step(step, drawn);
        }
        return {average_.begin(), average_.end()};
    }

  private:
    // Memory of one slot.
    struct Slot {
        std::vector<float> sums;         // per tree, part and rank
        std::vector<std::uint8_t> ranks; // per tree: those of a block
        std::vector<float> scores;       // per lane and row of a block
        std::vector<float> common;
        std::vector<float> slopes; // per output and row: with its sign
    };

    void take_step(int step, std::span<const std::uint32_t> blocks) {
        double weight = 0;
        for (const std::uint32_t block : blocks)
            weight += objective_.weight(block);
        if (!(weight > 0))
            return;
        const std::size_t slots = (blocks.size() + slot_blocks - 1) / slot_blocks;
        slots_.resize(std::max(slots_.size(), slots));
        pool_.run(static_cast<int>(slots), [&](int, int task) {
            const std::size_t begin = static_cast<std::size_t>(task) * slot_blocks;
            Slot& slot = slots_[static_cast<std::size_t>(task)];
            slot.sums.assign(parts * values_.size(), 0);
            slot.ranks.resize(forest_.size() * ends() * block_size);
            const std::size_t end = std::min(begin + slot_blocks, blocks.size());
            for (std::size_t k = begin; k < end; ++k) {
                if (k + 1 < end)
                    rows_.prefetch(blocks[k + 1]);
                add_block(blocks[k], slot);
            }
        });
        const double progress =
            options_.steps > 1 ? static_cast<double>(step - 1) / (options_.steps - 1) : 0;
        const double rate = options_.rate * (1 - progress);
        const auto per_row = static_cast<float>(1 / weight);
        const auto scale = static_cast<float>(rate / (1 - std::pow(first_moment, step)));
        const auto correction = static_cast<float>(1 / (1 - std::pow(second_moment, step)));
        constexpr std::size_t trees_per_task = 8;
        pool_.run(static_cast<int>((forest_.size() + trees_per_task - 1) / trees_per_task),
                  [&](int, int task) {
                      const std::size_t begin = static_cast<std::size_t>(task) * trees_per_task;
                      for (std::size_t t = begin;
                           t < std::min(begin + trees_per_task, forest_.size()); ++t)
                          update_tree(t, slots, per_row, scale, correction);
                  });
    }

    std::size_t ends() const { return objective_.needs_both_ends() ? 2 : 1; }

    void add_block(std::size_t block, Slot& slot) const {
        const auto lanes = static_cast<std::size_t>(objective_.lanes());
        slot.scores.resize(lanes * block_size);
        slot.common.resize(lanes * block_size);
        slot.slopes.resize(bias_.size() * block_size);
        for (std::size_t i = 0; i < slot.scores.size(); ++i)
            slot.scores[i] = static_cast<float>(bias_[bias_.size() == 1 ? 0 : i / block_size]);
        const std::size_t stride = ends() * block_size;
        for (std::size_t t = 0; t < forest_.size(); ++t)
            objective_.add_tree(forest_, t, block, slot.scores.data(),
                                slot.ranks.data() + t * stride);
        objective_.prepare(block, slot.scores.data(), slot.common.data());
        std::uint8_t is_down[block_size];
        for (std::size_t output = 0; output < bias_.size(); ++output) {
            float* const slope = slot.slopes.data() + output * block_size;
            float hessian[block_size];
            const std::uint64_t down = objective_.derivatives(block, static_cast<int>(output),
                                                              slot.common.data(), slope, hessian);
            for (std::size_t i = 0; i < block_size; ++i) {
                is_down[i] = (down >> i & 1) != 0 ? 255 : 0;
                slope[i] = is_down[i] != 0 ? -slope[i] : slope[i];
            }
        }
        for (std::size_t t = 0; t < forest_.size(); ++t) {
            std::uint8_t* const ranks = slot.ranks.data() + t * stride;
            if (ends() == 2) // the end that is farther from the target
                for (std::size_t i = 0; i < block_size; ++i)
                    ranks[i] = static_cast<std::uint8_t>((ranks[i] & is_down[i]) |
                                                         (ranks[block_size + i] & ~is_down[i]));
            const float* const slope =
                slot.slopes.data() + static_cast<std::size_t>(forest_.output(t)) * block_size;
            const auto leaves = static_cast<std::size_t>(forest_.leaves_of(t));
            float* const sums = slot.sums.data() + parts * forest_.first_leaf(t);
            for (std::size_t i = 0; i < block_size; i += parts)
                for (std::size_t part = 0; part < parts; ++part)
                    sums[part * leaves + ranks[i + part]] += slope[i + part];
        }
    }

    void update_tree(std::size_t tree, std::size_t slots, float per_row, float scale,
                     float correction) {
        const std::size_t first = forest_.first_leaf(tree);
        const auto leaves = static_cast<std::size_t>(forest_.leaves_of(tree));
        const auto l2 = static_cast<float>(options_.l2);
        for (std::size_t rank = 0; rank < leaves; ++rank) {
            float slope = 0;
            for (std::size_t s = 0; s < slots; ++s)
                for (std::size_t part = 0; part < parts; ++part)
                    slope += slots_[s].sums[parts * first + part * leaves + rank];
            const std::size_t k = first + forest_.sorted_leaves(tree)[rank];
            slope = slope * per_row + l2 * values_[k];
            first_[k] += static_cast<float>(1 - first_moment) * (slope - first_[k]);
            second_[k] += static_cast<float>(1 - second_moment) * (slope * slope - second_[k]);
            values_[k] -= scale * first_[k] / (std::sqrt(second_[k] * correction) + 1e-8F);
            average_[k] += forgotten * (values_[k] - average_[k]);
        }
        forest_.set_values(tree, values_.data() + first);
    }

    const RowBlocks& rows_;
    const BlockObjective& objective_;
    BlockForest forest_;
    const RefitOptions& options_;
    ThreadPool pool_;
    std::vector<double> bias_;
    std::vector<float> values_; // per leaf, like the rest
    std::vector<float> average_;
    std::vector<float> first_;
    std::vector<float> second_;
    std::vector<Slot> slots_;
};

} // namespace

std::vector<double> refit_leaves(const RowBlocks& rows, const BlockObjective& objective,
                                 BlockForest forest, std::span<const double> values,
                                 std::span<const double> bias, const RefitOptions& options,
                                 int threads, const std::function<bool()>& go_on) {
    return Refit(rows, objective, std::move(forest), values, bias, options, threads).run(go_on);
}

bool find_score_bounds(const RowBlocks& rows, const BlockForest& forest,
                       std::span<const double> values, std::span<const double> bias,
                       const BlockObjective* objective, double* low, double* high, int threads,
                       const WatchFunction& watch) {
    constexpr std::int64_t chunk = 16; // blocks
    const std::size_t outputs = bias.size();
    std::vector<double> sorted(values.size()); // by tree and rank
    for (std::size_t t = 0; t < forest.size(); ++t)
        for (int rank = 0; rank < forest.leaves_of(t); ++rank) {
            const std::size_t first = forest.first_leaf(t);
            sorted[first + static_cast<std::size_t>(rank)] =
                values[first + forest.sorted_leaves(t)[rank]];
        }
    const std::size_t ends = objective != nullptr ? 1 : 2;
    const BlockKernel& kernel = block_kernel();
    const auto n = static_cast<std::int64_t>(rows.blocks());
    const auto work = [&](int, RowRange range, const std::atomic<bool>& cancelled) {
        std::vector<double> sums(ends * outputs * block_size);
        std::uint8_t ranks[2 * block_size];
        for (std::int64_t b = range.begin; b < range.end && !cancelled; ++b) {
            const auto block = static_cast<std::size_t>(b);
            for (std::size_t i = 0; i < sums.size(); ++i)
                sums[i] = bias[outputs == 1 ? 0 : i / block_size % outputs];
            for (std::size_t t = 0; t < forest.size(); ++t) {
                if (objective != nullptr)
                    objective->find_worst(forest, t, block, ranks);
                else
                    forest.find_worst(kernel, codes_of(rows, block), t, ranks, ranks + block_size);
                const double* const own = sorted.data() + forest.first_leaf(t);
                double* const lane =
                    sums.data() + static_cast<std::size_t>(forest.output(t)) * block_size;
                for (std::size_t i = 0; i < block_size; ++i)
                    lane[i] += own[ranks[i]];
                for (std::size_t i = block_size; i < ends * block_size; ++i)
                    lane[(outputs - 1) * block_size + i] += own[ranks[i]];
            }
            for (std::size_t i = 0; i < static_cast<std::size_t>(rows.rows_in(block)); ++i)
                for (std::size_t k = 0; k < outputs; ++k) {
                    const std::size_t place =
                        static_cast<std::size_t>(rows.source(block)[i]) * outputs + k;
                    low[place] = sums[k * block_size + i];
                    if (ends == 2)
                        high[place] = sums[(outputs + k) * block_size + i];
                }
        }
    };
    return parallel_rows(n, chunk, worker_count(threads, n, chunk), work, watch);
}

} // namespace carve
