#include "training/worst_cases.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

namespace carve {

WorstCases::WorstCases(const Ensemble& ensemble, const Attacker& attacker,
                       const std::int32_t* label, std::int64_t count)
    : ensemble_(ensemble), attacker_(attacker), costs_(ensemble, attacker),
      label_(label, label + count), slope_unit_(units::slope_unit(count)),
      blocks_(static_cast<std::size_t>((count + block_size - 1) / block_size)) {}

bool WorstCases::collect(const Rows& rows, int threads, const WatchFunction& watch) {
    const bool has_costs = attacker_.norm != norm_inf;
    const auto work = [&](int, RowRange range, const std::atomic<bool>&) {
        Instance instance(ensemble_, attacker_);
        Reach reach(ensemble_, costs_);
        std::vector<std::pair<float, std::int32_t>> others;
        Block& block = blocks_[static_cast<std::size_t>(range.begin / block_size)];
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            with_row(rows, i, [&](const auto* row) { instance.load(row); });
            for (int tree = 0; tree < ensemble_.n_trees(); ++tree) {
                std::int32_t home = -1;
                others.clear();
                reach.walk(tree, instance, false, [&](std::int32_t node, double cost) {
                    const auto leaf = ensemble_.nodes[static_cast<std::size_t>(node)].right;
                    if (home < 0)
                        home = leaf;
                    else
                        others.emplace_back(static_cast<float>(cost), leaf);
                });
                block.home.push_back(home);
                if (others.empty())
                    continue;
                std::ranges::sort(others);
                for (const auto& [cost, leaf] : others) {
                    block.leaf.push_back(leaf);
                    if (has_costs)
                        block.cost.push_back(cost);
                }
                block.contests.push_back({tree, units::index(block.leaf.size())});
            }
            block.end.push_back(units::index(block.contests.size()));
        }
        block.home.shrink_to_fit();
        block.contests.shrink_to_fit();
        block.leaf.shrink_to_fit();
        block.cost.shrink_to_fit();
    };
    return parallel_rows(rows.count, block_size, worker_count(threads, rows.count, block_size),
                         work, watch);
}

std::size_t WorstCases::memory() const {
    std::size_t bytes = 0;
    for (const Block& block : blocks_)
        bytes += block.home.capacity() * sizeof(std::int32_t) +
                 block.end.capacity() * sizeof(std::int32_t) +
                 block.contests.capacity() * sizeof(Contest) +
                 block.leaf.capacity() * sizeof(std::int32_t) +
                 block.cost.capacity() * sizeof(float);
    return bytes;
}

// The worst case of one row at a time, and the slopes of all rows it was shown.
class WorstCases::Worker {
  public:
    Worker(const WorstCases& cases, const double* scores, bool wants_slope)
        : cases_(cases), scores_(scores),
          outputs_(static_cast<std::size_t>(cases.ensemble_.n_outputs())),
          pick_(static_cast<std::size_t>(cases.ensemble_.n_trees())) {
        if (wants_slope)
            slope.assign(cases.score_count(), 0);
    }

    // Row `row` of `block`, which has class `label`: its margin against the worst rival.
    double attack(const Block& block, std::size_t row, int label) {
        const int classes = std::max<int>(2, static_cast<int>(outputs_));
        double worst = std::numeric_limits<double>::infinity();
        for (int rival = 0; rival < classes; ++rival) {
            if (rival == label)
                continue;
            set_objective(label, rival);
            double margin = attack(block, row);
            const bool tie_wins =
                outputs_ == 1 ? (label == 1) != cases_.ensemble_.tie_positive : rival < label;
            if (margin == 0 && tie_wins)
                margin = just_below_zero;
            if (margin < worst) {
                worst = margin;
                std::swap(pick_, worst_pick_);
                std::swap(part_, worst_part_);
                worst_plus_ = plus_;
                worst_minus_ = minus_;
                worst_sign_ = sign_;
            }
        }
        return worst;
    }

    // Adds `factor` times the slope of the margin found last.
    void descend(double factor) {
        for (const std::int32_t leaf : worst_pick_)
            add(leaf, factor);
        if (worst_part_.share > 0) {
            add(worst_part_.from, -factor * worst_part_.share);
            add(worst_part_.to, factor * worst_part_.share);
        }
    }

    std::vector<std::int64_t> slope;

  private:
    static constexpr double just_below_zero = -1e-300;
    struct Part { // of one tree's pick: `share` of it is `to` instead of `from`
        std::int32_t from = 0;
        std::int32_t to = 0;
        double share = 0;
    };

    void set_objective(int label, int rival) {
        const Ensemble& ensemble = cases_.ensemble_;
        if (outputs_ == 1) {
            sign_ = label == 1 ? 1 : -1;
            constant_ = sign_ * (ensemble.base_score[0] - ensemble.threshold * ensemble.average);
            return;
        }
        plus_ = static_cast<std::size_t>(label);
        minus_ = static_cast<std::size_t>(rival);
        constant_ = ensemble.base_score[plus_] - ensemble.base_score[minus_];
    }

    double value(std::int32_t leaf) const {
        const auto row = static_cast<std::size_t>(leaf) * outputs_;
        return outputs_ == 1 ? sign_ * scores_[row] : scores_[row + plus_] - scores_[row + minus_];
    }

    void add(std::int32_t leaf, double amount) {
        const auto whole = static_cast<std::int64_t>(std::llround(amount / cases_.slope_unit_));
        const auto row = static_cast<std::size_t>(leaf) * outputs_;
        if (outputs_ == 1) {
            slope[row] += worst_sign_ > 0 ? whole : -whole;
        } else {
            slope[row + worst_plus_] += whole;
            slope[row + worst_minus_] -= whole;
        }
    }

    double attack(const Block& block, std::size_t row) {
        const auto trees = pick_.size();
        std::copy_n(block.home.begin() + static_cast<std::ptrdiff_t>(row * trees), trees,
                    pick_.begin());
        part_ = {};
        double margin = constant_;
        for (const std::int32_t leaf : pick_)
            margin += value(leaf);
        const bool by_limits = block.cost.empty();
        if (!by_limits)
            knapsack_.clear({});
        auto contest = static_cast<std::size_t>(row == 0 ? 0 : block.end[row - 1]);
        const auto last = static_cast<std::size_t>(block.end[row]);
        auto entry = static_cast<std::size_t>(contest == 0 ? 0 : block.contests[contest - 1].end);
        for (; contest < last; ++contest) {
            const auto [tree, end] = block.contests[contest];
            std::int32_t& pick = pick_[static_cast<std::size_t>(tree)];
            const double at_home = value(pick);
            double lowest = at_home;
            options_.clear();
            for (; entry < static_cast<std::size_t>(end); ++entry) {
                // Entries are sorted by cost: one that gains no more than those before is no use.
                const double here = value(block.leaf[entry]);
                if (!(here < lowest))
                    continue;
                lowest = here;
                if (by_limits)
                    pick = block.leaf[entry];
                else
                    options_.push_back({block.cost[entry], at_home - here, block.leaf[entry]});
            }
            if (by_limits)
                margin -= at_home - lowest;
            else if (!options_.empty())
                knapsack_.add_group(tree, options_,
                                    [](std::int32_t, std::int32_t) { return true; });
        }
        return by_limits ? margin : margin - relaxed_gain();
    }

    double relaxed_gain() {
        const auto relaxation = knapsack_.relaxation(cases_.costs_.capacity());
        for (const auto& [tree, leaf] : knapsack_.picks)
            pick_[static_cast<std::size_t>(tree)] = leaf;
        if (relaxation.share > 0)
            part_ = {pick_[static_cast<std::size_t>(relaxation.last.group)], relaxation.last.leaf,
                     relaxation.share};
        return relaxation.gain;
    }

    const WorstCases& cases_;
    const double* scores_;
    std::size_t outputs_;
    double sign_ = 1;
    std::size_t plus_ = 0;
    std::size_t minus_ = 0;
    double constant_ = 0;
    std::vector<std::int32_t> pick_; // per tree
    Part part_;
    std::vector<std::int32_t> worst_pick_ = pick_;
    Part worst_part_;
    double worst_sign_ = 1;
    std::size_t worst_plus_ = 0;
    std::size_t worst_minus_ = 0;
    Knapsack knapsack_;
    std::vector<Option> options_;
};

bool WorstCases::evaluate(const double* scores, const Loss& loss, double* margin, double* slope,
                          int threads, const WatchFunction& watch) const {
    const int workers = worker_count(threads, rows(), block_size);
    std::vector<std::unique_ptr<Worker>> slots(static_cast<std::size_t>(workers));
    const auto work = [&](int number, RowRange range, const std::atomic<bool>&) {
        auto& worker = slots[static_cast<std::size_t>(number)];
        if (!worker)
            worker = std::make_unique<Worker>(*this, scores, slope != nullptr);
        const Block& block = blocks_[static_cast<std::size_t>(range.begin / block_size)];
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            const double worst = worker->attack(block, static_cast<std::size_t>(i - range.begin),
                                                label_[static_cast<std::size_t>(i)]) /
                                 ensemble_.average;
            margin[i] = worst;
            if (slope == nullptr)
                continue;
            const double pull = 1 / (1 + std::exp(loss.steepness * worst));
            worker->descend(loss.weight == nullptr ? -pull : -pull * loss.weight[i]);
        }
    };
    if (!parallel_rows(rows(), block_size, workers, work, watch))
        return false;
    if (slope == nullptr)
        return true;
    const double unit = slope_unit_ * loss.steepness / ensemble_.average;
    for (std::size_t s = 0; s < score_count(); ++s) {
        std::int64_t whole = 0;
        for (const auto& worker : slots)
            if (worker)
                whole += worker->slope[s];
        slope[s] = static_cast<double>(whole) * unit;
    }
    return true;
}

} // namespace carve
