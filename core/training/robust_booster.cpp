#include "training/robust_booster.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "training/bits.hpp"

namespace carve {

namespace {

constexpr int draws = 20; // of rows and features, before a round is given up
constexpr std::size_t block_size = RowBlocks::block_size;
constexpr std::size_t chunk = 32; // blocks per task

bool is_fraction(double value) { return value > 0 && value <= 1; }

void check(const BoostingOptions& options) {
    if (options.num_leaves < 1 || options.num_leaves > static_cast<int>(BlockForest::most_leaves) ||
        !(options.lambda_l1 >= 0) || !(options.lambda_l2 >= 0) ||
        !is_fraction(options.bagging_fraction) || !is_fraction(options.feature_fraction) ||
        !is_fraction(options.feature_fraction_bynode) || !std::isfinite(options.learning_rate))
        throw std::invalid_argument("a boosting option is out of range");
}

// Calls work(begin, end) for pieces of [0, n).
template <class Work> void for_chunks(ThreadPool& pool, std::size_t n, const Work& work) {
    pool.run(static_cast<int>((n + chunk - 1) / chunk), [&](int, int task) {
        const std::size_t begin = static_cast<std::size_t>(task) * chunk;
        work(begin, std::min(n, begin + chunk));
    });
}

} // namespace

RobustBooster::RobustBooster(const RowBlocks& rows, Task task, int outputs,
                             std::span<const double> targets, std::span<const double> weights,
                             const BoostingOptions& options, int threads)
    : rows_(rows), task_(task), options_(options), pool_((check(options), threads)),
      objective_(rows, task, outputs, targets, weights), grower_(rows, options_, pool_),
      bias_(objective_.start()), seen_(rows.blocks()) {
    if (rows.rows() == 0)
        throw std::invalid_argument("training needs at least one row");
    if (rows.padded_rows() > std::size_t{1} << 29)
        throw std::invalid_argument("training takes at most 2^29 rows");
    scores_ = start_scores(rows);
}

// The scores of rows without trees.
std::vector<float> RobustBooster::start_scores(const RowBlocks& rows) const {
    const auto lanes = static_cast<std::size_t>(objective_.lanes());
    std::vector<float> found(rows.padded_rows() * lanes);
    for (std::size_t i = 0; i < found.size(); ++i)
        found[i] =
            static_cast<float>(bias_[objective_.outputs() == 1 ? 0 : i / block_size % lanes]);
    return found;
}

void RobustBooster::watch(const RowBlocks& rows, std::span<const double> targets,
                          std::span<const double> weights) {
    BlockObjective objective(rows, task_, objective_.outputs(), targets, weights);
    double weight = 0;
    for (std::size_t block = 0; block < rows.blocks(); ++block)
        weight += objective.weight(block);
    watched_.emplace(Watched{rows, std::move(objective), start_scores(rows), weight});
}

void RobustBooster::update_watched() {
    if (!watched_)
        return;
    Watched& own = *watched_;
    std::vector<double> sums(own.rows.blocks());
    for_chunks(pool_, own.rows.blocks(), [&](std::size_t begin, std::size_t end) {
        std::uint8_t ranks[2 * block_size];
        for (std::size_t block = begin; block < end; ++block) {
            float* const scores = own.scores.data() +
                                  block * block_size * static_cast<std::size_t>(objective_.lanes());
            for (std::size_t tree = own.seen; tree < forest_.size(); ++tree)
                own.objective.add_tree(forest_, tree, block, scores, ranks);
            sums[block] = own.objective.loss(block, scores);
        }
    });
    own.seen = forest_.size();
    loss_ = std::accumulate(sums.begin(), sums.end(), 0.0) / own.weight;
}

void RobustBooster::set_values(std::span<const double> values) {
    if (values.size() != forest_.leaves())
        throw std::invalid_argument("values must have one number per leaf of all trees");
    for (std::size_t tree = 0; tree < trees_.size(); ++tree) {
        const double* const own = values.data() + forest_.first_leaf(tree);
        forest_.set_values(tree, own);
        std::copy_n(own, trees_[tree].values.size(), trees_[tree].values.begin());
    }
    scores_ = start_scores(rows_);
    std::ranges::fill(seen_, std::size_t{0});
    if (watched_) {
        watched_->scores = start_scores(watched_->rows);
        watched_->seen = 0;
    }
}

void RobustBooster::set_scores(std::span<const double> low, std::span<const double> high) {
    const auto lanes = static_cast<std::size_t>(objective_.lanes());
    const std::size_t outputs = objective_.needs_both_ends() ? 1 : lanes;
    const std::size_t size = static_cast<std::size_t>(rows_.source_rows()) * outputs;
    if (low.size() != size || high.size() != size)
        throw std::invalid_argument("one score per row of X and output is needed");
    for (std::size_t block = 0; block < rows_.blocks(); ++block) {
        const std::int64_t* const source = rows_.source(block);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const auto& given = lane >= outputs ? high : low;
            float* const own = scores(block) + lane * block_size;
            for (std::size_t i = 0; i < static_cast<std::size_t>(rows_.rows_in(block)); ++i)
                own[i] = static_cast<float>(
                    given[static_cast<std::size_t>(source[i]) * outputs + lane % outputs]);
        }
        seen_[block] = forest_.size();
    }
}

float* RobustBooster::scores(std::size_t block) {
    return scores_.data() + block * block_size * static_cast<std::size_t>(objective_.lanes());
}

// The same fraction of the blocks of every group, ascending.
std::vector<std::uint32_t> RobustBooster::draw_blocks(std::uint64_t seed) const {
    std::vector<std::uint32_t> drawn;
    std::size_t first = 0;
    for (const std::size_t end : rows_.group_ends()) {
        auto wanted = static_cast<double>(std::max<long long>(
            1, std::llround(options_.bagging_fraction * static_cast<double>(end - first))));
        for (std::size_t block = first; block < end; ++block) {
            const double random = static_cast<double>(scrambled(seed, block) >> 11) * 0x1p-53;
            if (random * static_cast<double>(end - block) < wanted) {
                drawn.push_back(static_cast<std::uint32_t>(block));
                wanted -= 1;
            }
        }
        first = end;
    }
    return drawn;
}

void RobustBooster::update_scores(std::span<const std::uint32_t> blocks) {
    for_chunks(pool_, blocks.size(), [&](std::size_t begin, std::size_t end) {
        std::uint8_t ranks[2 * block_size];
        for (std::size_t j = begin; j < end; ++j) {
            for (std::size_t& tree = seen_[blocks[j]]; tree < forest_.size(); ++tree)
                objective_.add_tree(forest_, tree, blocks[j], scores(blocks[j]), ranks);
        }
    });
}

SumFormat RobustBooster::find_gradients(std::span<const std::uint32_t> blocks, int output,
                                        std::uint64_t seed) {
    struct Totals {
        double gradient = 0;
        double hessian = 0;
        std::int64_t rows = 0;
    };
    std::vector<Totals> totals((blocks.size() + chunk - 1) / chunk);
    gradients_.resize(blocks.size() * 2 * block_size);
    down_.resize(blocks.size());
    packed_.resize(blocks.size() * block_size);
    for_chunks(pool_, blocks.size(), [&](std::size_t begin, std::size_t end) {
        std::vector<float> common(block_size * static_cast<std::size_t>(objective_.lanes()));
        Totals& own = totals[begin / chunk];
        for (std::size_t j = begin; j < end; ++j) {
            const std::size_t block = blocks[j];
            float* const gradient = gradients_.data() + j * 2 * block_size;
            float* const hessian = gradient + block_size;
            objective_.prepare(block, scores(block), common.data());
            down_[j] = objective_.derivatives(block, output, common.data(), gradient, hessian);
            float g[8] = {}; // the same order of additions on every processor
            float h[8] = {};
            for (std::size_t i = 0; i < block_size; ++i) {
                g[i % 8] += gradient[i];
                h[i % 8] += hessian[i];
            }
            for (std::size_t i = 0; i < 8; ++i) {
                own.gradient += static_cast<double>(g[i]);
                own.hessian += static_cast<double>(h[i]);
            }
            own.rows += rows_.rows_in(block);
        }
    });
    Totals all;
    for (const Totals& part : totals) {
        all.gradient += part.gradient;
        all.hessian += part.hessian;
        all.rows += part.rows;
    }
    const SumFormat format(all.rows, all.gradient, all.hessian);
    for_chunks(pool_, blocks.size(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t j = begin; j < end; ++j) {
            const std::size_t block = blocks[j];
            const float* const gradient = gradients_.data() + j * 2 * block_size;
            block_kernel().quantise(gradient, gradient + block_size, format,
                                    static_cast<std::uint32_t>(scrambled(seed, block)),
                                    packed_.data() + j * block_size);
        }
    });
    return format;
}

bool RobustBooster::round(const std::function<bool()>& go_on) {
    const bool draws_anything = options_.bagging_fraction < 1 || options_.feature_fraction < 1 ||
                                options_.feature_fraction_bynode < 1 || options_.extra_trees;
    bool continues = true;
    const auto proceed = [&] { return continues = continues && go_on(); };
    for (int attempt = 0; attempt < (draws_anything ? draws : 1); ++attempt) {
        const std::uint64_t seed = scrambled(options_.seed, rounds_++);
        const std::vector<std::uint32_t> blocks = draw_blocks(seed);
        update_scores(blocks);
        std::vector<CodedTree> grown;
        bool has_split = false;
        for (int output = 0; output < objective_.outputs() && proceed(); ++output) {
            const std::uint64_t own = scrambled(~seed, static_cast<std::uint64_t>(output));
            const SumFormat format = find_gradients(blocks, output, own);
            grown.push_back(grower_.grow({blocks, down_, packed_, format}, own, proceed));
            has_split = has_split || !grown.back().splits.empty();
        }
        if (!continues)
            return false;
        if (!has_split)
            continue;
        for (std::size_t output = 0; output < grown.size(); ++output) {
            forest_.add(rows_, grown[output], static_cast<int>(output), grown[output].values);
            trees_.push_back(std::move(grown[output]));
        }
        update_watched();
        return true;
    }
    return false;
}

} // namespace carve
