#include "training/block_objective.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace carve {

namespace {

constexpr int block_size = RowBlocks::block_size;
constexpr float least_hessian = 1e-6F; // of a row of weight 1 that is already decided
constexpr double least_rate = 1e-6;    // of a class, for the start
constexpr std::uint64_t all_rows = ~std::uint64_t{0};

void check(const RowBlocks& rows, Task task, int outputs, std::span<const double> targets,
           std::span<const double> weights) {
    const auto n = static_cast<std::size_t>(rows.source_rows());
    if (targets.size() != n || (!weights.empty() && weights.size() != n))
        throw std::invalid_argument("one target, and one weight if any, per row of X is needed");
    if (outputs < 1 || (task == Task::multiclass ? outputs < 2 : outputs != 1))
        throw std::invalid_argument("only multiclass has several outputs, and at least 2");
}

} // namespace

BlockObjective::BlockObjective(const RowBlocks& rows, Task task, int outputs,
                               std::span<const double> targets, std::span<const double> weights)
    : rows_(rows), kernel_(block_kernel()), task_(task), outputs_(outputs) {
    check(rows, task, outputs, targets, weights);
    const int classes = task == Task::binary ? 2 : outputs;
    const auto k = static_cast<std::size_t>(outputs);
    block_weights_.resize(rows.blocks());
    down_.resize(task == Task::regression ? 0 : rows.blocks() * k);
    numbers_.resize(task == Task::regression ? rows.padded_rows() : 0);
    weights_.resize(weights.empty() ? 0 : rows.padded_rows());
    double total = 0;
    double sum = 0; // of the targets, by weight
    for (std::size_t block = 0; block < rows.blocks(); ++block) {
        for (int i = 0; i < rows.rows_in(block); ++i) {
            const auto row = static_cast<std::size_t>(rows.source(block)[i]);
            const std::size_t place = block * block_size + static_cast<std::size_t>(i);
            const double target = targets[row];
            const double weight = weights.empty() ? 1.0 : weights[row];
            if (!(weight >= 0) || !std::isfinite(weight))
                throw std::invalid_argument("weights must be finite and not negative");
            if (!weights.empty())
                weights_[place] = static_cast<float>(weight);
            block_weights_[block] += weight;
            sum += weight * target;
            if (task == Task::regression) {
                if (!std::isfinite(target))
                    throw std::invalid_argument("targets must be finite");
                numbers_[place] = static_cast<float>(target);
                continue;
            }
            if (!(target >= 0 && target < classes) || target != std::floor(target))
                throw std::invalid_argument("a target is not a class index");
            const std::uint64_t bit = std::uint64_t{1} << i;
            if (task == Task::multiclass)
                down_[block * k + static_cast<std::size_t>(target)] |= bit;
            else if (target == 1)
                down_[block] |= bit;
        }
        total += block_weights_[block];
    }
    const double mean = total > 0 ? sum / total : 0;
    start_.assign(k, 0.0);
    if (task == Task::regression)
        start_[0] = mean;
    if (task == Task::binary) {
        const double rate = std::clamp(mean, least_rate, 1 - least_rate);
        start_[0] = std::log(rate / (1 - rate));
    }
}

void BlockObjective::add_tree(const BlockForest& forest, std::size_t tree, std::size_t block,
                              float* scores, std::uint8_t* ranks) const {
    find_worst(forest, tree, block, ranks);
    const float* const values = forest.sorted_values(tree);
    float* const lane = scores + forest.output(tree) * block_size;
    kernel_.add_values(ranks, values, forest.leaves_of(tree), lane);
    if (needs_both_ends())
        kernel_.add_values(ranks + block_size, values, forest.leaves_of(tree), lane + block_size);
}

void BlockObjective::find_worst(const BlockForest& forest, std::size_t tree, std::size_t block,
                                std::uint8_t* ranks) const {
    const BlockCodes codes = codes_of(rows_, block);
    if (needs_both_ends()) {
        forest.find_worst(kernel_, codes, tree, ranks, ranks + block_size);
        return;
    }
    const std::uint64_t pushed_down = down(block, forest.output(tree));
    if (pushed_down == rows_.valid(block)) {
        forest.find_worst(kernel_, codes, tree, ranks, nullptr);
    } else if (pushed_down == 0) {
        forest.find_worst(kernel_, codes, tree, nullptr, ranks);
    } else {
        std::uint8_t high[block_size];
        forest.find_worst(kernel_, codes, tree, ranks, high);
        for (int i = 0; i < block_size; ++i)
            ranks[i] = (pushed_down >> i & 1) != 0 ? ranks[i] : high[i];
    }
}

void BlockObjective::prepare(std::size_t block, const float* scores, float* common) const {
    if (task_ == Task::binary) { // the probability of the wrong class
        const std::uint64_t pushed_down = down(block, 0);
        for (int i = 0; i < block_size; ++i)
            common[i] = (pushed_down >> i & 1) != 0 ? scores[i] : -scores[i];
        kernel_.exponentials(common);
        for (int i = 0; i < block_size; ++i)
            common[i] = 1.0F / (1.0F + common[i]);
    } else if (task_ == Task::multiclass) { // the probability of each class
        float most[block_size];
        float sum[block_size] = {};
        std::copy_n(scores, block_size, most);
        for (int k = 1; k < outputs_; ++k)
            for (int i = 0; i < block_size; ++i)
                most[i] = std::max(most[i], scores[k * block_size + i]);
        for (int k = 0; k < outputs_; ++k) {
            float* const lane = common + k * block_size;
            for (int i = 0; i < block_size; ++i)
                lane[i] = scores[k * block_size + i] - most[i];
            kernel_.exponentials(lane);
            for (int i = 0; i < block_size; ++i)
                sum[i] += lane[i];
        }
        for (int k = 0; k < outputs_; ++k)
            for (int i = 0; i < block_size; ++i)
                common[k * block_size + i] /= sum[i];
    } else { // the distances to both ends
        const float* const target = numbers_.data() + block * block_size;
        for (int i = 0; i < block_size; ++i) {
            common[i] = target[i] - scores[i];
            common[block_size + i] = scores[block_size + i] - target[i];
        }
    }
}

std::uint64_t BlockObjective::derivatives(std::size_t block, int output, const float* common,
                                          float* gradient, float* hessian) const {
    const std::uint64_t valid = rows_.valid(block);
    std::uint64_t pushed_down = 0;
    if (task_ == Task::regression) {
        for (int i = 0; i < block_size; ++i) {
            const float below = common[i];
            const float above = common[block_size + i];
            pushed_down |= static_cast<std::uint64_t>(below >= above) << i;
            gradient[i] = std::max(std::max(below, above), 0.0F);
            hessian[i] = 1.0F;
        }
        pushed_down &= valid;
    } else {
        // 1 - p for rows of the class, where p is the probability that `prepare` found, else p. For
        // two classes p is that of the wrong class already.
        const float* const p = common + output * block_size;
        const float factor = task_ == Task::multiclass
                                 ? static_cast<float>(outputs_) / static_cast<float>(outputs_ - 1)
                                 : 1.0F; // as in LightGBM
        pushed_down = down(block, output);
        const std::uint64_t own = task_ == Task::multiclass ? pushed_down : 0;
        for (int i = 0; i < block_size; ++i) {
            gradient[i] = (own >> i & 1) != 0 ? 1.0F - p[i] : p[i];
            hessian[i] = std::max(factor * p[i] * (1.0F - p[i]), least_hessian);
        }
    }
    if (!weights_.empty()) {
        const float* const weight = weights_.data() + block * block_size;
        for (int i = 0; i < block_size; ++i) {
            gradient[i] *= weight[i];
            hessian[i] *= weight[i];
        }
    }
    if (valid != all_rows)
        for (int i = 0; i < block_size; ++i)
            if ((valid >> i & 1) == 0)
                gradient[i] = hessian[i] = 0;
    return pushed_down;
}

double BlockObjective::loss(std::size_t block, const float* scores) const {
    double sum = 0;
    for (int i = 0; i < rows_.rows_in(block); ++i) {
        const std::size_t place = block * block_size + static_cast<std::size_t>(i);
        double own = 0;
        if (task_ == Task::regression) {
            const double target = numbers_[place];
            const double distance = std::max(target - static_cast<double>(scores[i]),
                                             static_cast<double>(scores[block_size + i]) - target);
            own = distance * distance / 2;
        } else if (task_ == Task::binary) {
            const double score = scores[i];
            const double margin = (down(block, 0) >> i & 1) != 0 ? score : -score;
            own = std::max(-margin, 0.0) + std::log1p(std::exp(-std::abs(margin)));
        } else {
            double most = scores[i];
            for (int k = 1; k < outputs_; ++k)
                most = std::max(most, static_cast<double>(scores[k * block_size + i]));
            double exponentials = 0;
            for (int k = 0; k < outputs_; ++k) {
                const double score = scores[k * block_size + i];
                exponentials += std::exp(score - most);
                own -= (down(block, k) >> i & 1) != 0 ? score : 0.0;
            }
            own += most + std::log(exponentials);
        }
        sum += weights_.empty() ? own : own * static_cast<double>(weights_[place]);
    }
    return sum;
}

} // namespace carve
