#include "training/leaf_descent.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "running/parallel.hpp"
#include "training/bits.hpp"
#include "training/cut_trees.hpp"
#include "training/witnesses.hpp"
#include "training/worst_cases.hpp"

namespace carve {

namespace {

constexpr double first_moment = 0.9; // Adam's
constexpr double second_moment = 0.999;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr int steps_per_check = 5;
constexpr int check_passes = 8;   // over all witnesses, in a validation
constexpr double restarted = 0.1; // share of the witnesses of a batch that start from the row again

// log(1 + exp(z)).
double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))); }

// The scores that may change: one per leaf if every tree counts for one output, else all.
class ScoreLayout {
  public:
    explicit ScoreLayout(const Ensemble& ensemble) {
        const auto outputs = static_cast<std::size_t>(ensemble.n_outputs());
        for (int tree = 0; tree < ensemble.n_trees(); ++tree)
            output.push_back(only_output(ensemble, tree));
        if (std::ranges::find(output, several_outputs) != output.end())
            output.clear();
        const std::size_t leaves = ensemble.scores.size() / outputs;
        const std::size_t width = output.empty() ? outputs : 1;
        place.resize(leaves * width);
        may_change.assign(place.size(), 0);
        for (int tree = 0; tree < ensemble.n_trees(); ++tree) {
            const auto t = static_cast<std::size_t>(tree);
            std::vector<std::size_t> rows;
            for (auto n = ensemble.roots[t]; n < ensemble.roots[t + 1]; ++n)
                if (const auto& node = ensemble.nodes[static_cast<std::size_t>(n)]; node.is_leaf())
                    rows.push_back(static_cast<std::size_t>(node.right));
            for (std::size_t k = 0; k < width; ++k) {
                const std::size_t own =
                    output.empty() ? k : static_cast<std::size_t>(std::max(output[t], 0));
                const bool is_used =
                    outputs == 1 || std::ranges::any_of(rows, [&](std::size_t row) {
                        return ensemble.scores[row * outputs + own] != 0;
                    });
                for (const std::size_t row : rows) {
                    place[row * width + k] = row * outputs + own;
                    may_change[row * width + k] = is_used ? 1 : 0;
                }
            }
        }
        for (auto& own : output)
            own = std::max(own, 0);
    }

    std::vector<std::int32_t> output; // per tree; empty: several
    std::vector<std::size_t> place;   // per packed score: in all scores
    std::vector<std::uint8_t> may_change;
};

struct Judgement {
    double robustness;
    double loss;
};

// The losses of rows as functions of the packed scores. Batches are made up of items.
class RowLosses {
  public:
    RowLosses(const TargetRows& rows, const DescentOptions& options, bool is_regression)
        : rows_(rows), options_(options), is_regression_(is_regression),
          weight_(rows.weight.begin(), rows.weight.end()) {
        const double largest =
            weight_.empty() ? 0 : *std::max_element(weight_.begin(), weight_.end());
        for (double& weight : weight_)
            weight /= std::max(largest, 1e-300);
    }
    virtual ~RowLosses() = default;
    RowLosses(const RowLosses&) = delete;
    RowLosses& operator=(const RowLosses&) = delete;

    virtual std::int64_t items() const = 0;
    // The gradient of the mean loss. False iff `watch` cancelled, here and below.
    virtual bool gradient(std::span<const std::int64_t> batch, const std::vector<double>& scores,
                          std::vector<double>& output, const WatchFunction& watch) = 0;
    virtual bool judge(const std::vector<double>& scores, Judgement& found,
                       const WatchFunction& watch) = 0;

  protected:
    double weight(std::size_t row) const { return weight_.empty() ? 1 : weight_[row]; }
    double steepness() const { return options_.steepness; }
    Judgement mean(const std::vector<double>& margin, const std::vector<double>& loss) const {
        const double n = std::max<double>(1, static_cast<double>(loss.size()));
        const auto robust = std::ranges::count_if(margin, [](double one) { return one >= 0; });
        return {is_regression_ ? not_a_number : static_cast<double>(robust) / n,
                std::accumulate(loss.begin(), loss.end(), 0.0) / n};
    }

    const TargetRows& rows_;
    const DescentOptions& options_;
    bool is_regression_;
    std::vector<double> weight_; // the largest is 1
};

// An item is a block of rows.
class BoundLosses : public RowLosses {
  public:
    BoundLosses(const Ensemble& ensemble, const Attacker& attacker, const TargetRows& rows,
                const ScoreLayout& layout, std::vector<std::int64_t> order,
                const DescentOptions& options, bool is_regression)
        : RowLosses(rows, options, is_regression), order_(std::move(order)),
          block_(std::clamp<std::int64_t>(std::min(options.batch, rows.rows.count), 1,
                                          WorstCases::most_block)),
          cases_(ensemble, attacker, rows.rows, wanted(rows, is_regression),
                 {layout.output, order_, block_, options.most_memory}) {}

    bool collect(const WatchFunction& watch) { return cases_.collect(options_.threads, watch); }
    std::int64_t items() const override { return cases_.blocks(); }

    bool gradient(std::span<const std::int64_t> batch, const std::vector<double>& scores,
                  std::vector<double>& output, const WatchFunction& watch) override {
        double sum = 0;
        for (const std::int64_t block : batch)
            for (std::int64_t i = block * block_;
                 i < std::min((block + 1) * block_, rows_.rows.count); ++i)
                sum += weight(static_cast<std::size_t>(order_[static_cast<std::size_t>(i)]));
        if (!cases_.slope(scores.data(), steepness(),
                          {weight_.empty() ? nullptr : weight_.data(), batch}, output.data(),
                          options_.threads, watch))
            return false;
        for (double& one : output)
            one /= std::max(sum, 1e-300);
        return true;
    }

    bool judge(const std::vector<double>& scores, Judgement& found,
               const WatchFunction& watch) override {
        const auto n = static_cast<std::size_t>(rows_.rows.count);
        std::vector<double> margin(is_regression_ ? 0 : n);
        std::vector<double> loss(n);
        WorstCases::Outcomes outcomes;
        outcomes.margin = is_regression_ ? nullptr : margin.data();
        outcomes.loss = loss.data();
        if (!cases_.judge(scores.data(), steepness(), outcomes, options_.threads, watch))
            return false;
        found = mean(margin, loss);
        return true;
    }

  private:
    static WorstCases::Wanted wanted(const TargetRows& rows, bool is_regression) {
        if (is_regression)
            return {{}, {rows.target.begin(), rows.target.end()}, true};
        return {{rows.target.begin(), rows.target.end()}, {}, false};
    }

    std::vector<std::int64_t> order_;
    std::int64_t block_;
    WorstCases cases_;
};

// An item is a row. A class is lowered against the others; a regression's output is lowered, and
// raised.
class WitnessLosses : public RowLosses {
  public:
    WitnessLosses(const Ensemble& ensemble, const Attacker& attacker, const TargetRows& rows,
                  const ScoreLayout& layout, const DescentOptions& options, bool is_regression)
        : RowLosses(rows, options, is_regression), layout_(layout), full_(ensemble.scores.size()) {
        const auto n = static_cast<std::size_t>(rows.rows.count);
        std::vector<std::int32_t> label(rows.target.begin(), rows.target.end());
        for (int side = 0; side < (is_regression ? 2 : 1); ++side) {
            if (is_regression)
                label.assign(n, 1 - side);
            sides_.push_back(
                std::make_unique<Witnesses>(ensemble, attacker, rows.rows, label.data()));
        }
        margin_.resize(sides_.size());
        force_.resize(sides_.size());
        every_row_.resize(n);
        std::iota(every_row_.begin(), every_row_.end(), 0);
    }

    std::int64_t items() const override { return rows_.rows.count; }

    bool start_at(const double* points, const WatchFunction& watch) {
        const Rows starts{points, false, rows_.rows.count, rows_.rows.columns};
        return std::ranges::all_of(sides_, [&](const auto& side) {
            return side->start_at(starts, options_.threads, watch);
        });
    }

    bool gradient(std::span<const std::int64_t> batch, const std::vector<double>& scores,
                  std::vector<double>& output, const WatchFunction& watch) override {
        std::vector<std::int32_t> rows(batch.begin(), batch.end());
        std::ranges::sort(rows);
        if (!improve(rows, scores, options_.batch_passes, restarted, true, watch))
            return false;
        double sum = 0;
        for (const std::int32_t row : rows)
            sum += weight(static_cast<std::size_t>(row));
        for (auto& force : force_)
            force.assign(rows.size(), 0);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const auto row = static_cast<std::size_t>(rows[i]);
            const double share = weight(row) / std::max(sum, 1e-300);
            if (!is_regression_) {
                force_[0][i] = -steepness() / (1 + std::exp(steepness() * margin_[0][i])) * share;
                continue;
            }
            const std::size_t side = is_low_end(i, row) ? 0 : 1;
            force_[side][i] = -2 * distance(i, row) * share;
        }
        std::ranges::fill(output, 0);
        for (std::size_t side = 0; side < sides_.size(); ++side) {
            if (!sides_[side]->slope(force_[side], full_.data(), options_.threads, watch))
                return false;
            for (std::size_t k = 0; k < output.size(); ++k)
                output[k] += full_[layout_.place[k]];
        }
        return true;
    }

    bool judge(const std::vector<double>& scores, Judgement& found,
               const WatchFunction& watch) override {
        if (!improve(every_row_, scores, check_passes, 0, false, watch))
            return false;
        std::vector<double> loss(every_row_.size());
        for (std::size_t row = 0; row < loss.size(); ++row)
            loss[row] = is_regression_ ? distance(row, row) * distance(row, row)
                                       : softplus(-steepness() * margin_[0][row]);
        found = mean(margin_[0], loss);
        return true;
    }

    // Writes the witnesses at these scores to `points`.
    bool write_points(const std::vector<double>& scores, double* points,
                      const WatchFunction& watch) {
        if (!improve(every_row_, scores, options_.point_passes, 0, false, watch))
            return false;
        const auto columns = static_cast<std::size_t>(rows_.rows.columns);
        for (std::int64_t row = 0; row < rows_.rows.count; ++row)
            with_row(rows_.rows, row, [&](const auto* values) {
                std::copy_n(values, columns, points + static_cast<std::size_t>(row) * columns);
            });
        std::vector<double> other(is_regression_ ? every_row_.size() * columns : 0);
        std::copy_n(points, other.size(), other.data());
        if (!sides_[0]->points(points, options_.threads, watch) ||
            (is_regression_ && !sides_[1]->points(other.data(), options_.threads, watch)))
            return false;
        for (std::size_t row = 0; is_regression_ && row < every_row_.size(); ++row)
            if (!is_low_end(row, row))
                std::copy_n(other.data() + row * columns, columns, points + row * columns);
        return true;
    }

  private:
    bool improve(std::span<const std::int32_t> rows, const std::vector<double>& scores, int passes,
                 double anew, bool keep_leaves, const WatchFunction& watch) {
        std::ranges::fill(full_, 0);
        for (std::size_t k = 0; k < scores.size(); ++k)
            full_[layout_.place[k]] = scores[k];
        Witnesses::Effort effort;
        effort.passes = passes;
        effort.anew = anew;
        effort.seed = scrambled(options_.seed, ++rounds_);
        for (std::size_t side = 0; side < sides_.size(); ++side) {
            margin_[side].resize(rows.size());
            if (!sides_[side]->improve(rows, full_.data(), effort, keep_leaves,
                                       margin_[side].data(), options_.threads, watch))
                return false;
        }
        return true;
    }
    // Of row `row`, which the last call of `improve` had in place i.
    double below(std::size_t i, std::size_t row) const { return rows_.target[row] - margin_[0][i]; }
    double above(std::size_t i, std::size_t row) const {
        return -margin_[1][i] - rows_.target[row];
    }
    bool is_low_end(std::size_t i, std::size_t row) const { return below(i, row) >= above(i, row); }
    double distance(std::size_t i, std::size_t row) const {
        return std::max(below(i, row), above(i, row));
    }

    const ScoreLayout& layout_;
    std::vector<std::unique_ptr<Witnesses>> sides_;
    std::vector<std::vector<double>> margin_; // per side
    std::vector<std::vector<double>> force_;
    std::vector<std::int32_t> every_row_;
    std::vector<double> full_; // scores, then slopes
    std::uint64_t rounds_ = 0;
};

void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed) {
    for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[scrambled(seed, i) % i]);
}

} // namespace

Descent descend(const Ensemble& ensemble, const Attacker& attacker, const TargetRows& train,
                const TargetRows* valid, const Attacker& nobody, std::span<const double> scores,
                std::span<const double> anchor, double* points, bool is_regression,
                const DescentOptions& options, const StepFunction& go_on) {
    const ScoreLayout layout(ensemble);
    const std::size_t size = layout.place.size();
    int step = 0;
    const WatchFunction watch = [&](std::span<const RowRange>) { return go_on(step); };
    const auto n = train.rows.count;
    const std::int64_t count = std::max<std::int64_t>(1, (n + options.batch - 1) / options.batch);

    const auto numbered = [](std::int64_t end) {
        std::vector<std::int64_t> found(static_cast<std::size_t>(end));
        std::iota(found.begin(), found.end(), 0);
        return found;
    };
    const auto losses_of = [&](const TargetRows& rows, const Attacker& by, bool witnesses,
                               std::vector<std::int64_t> order) -> std::unique_ptr<RowLosses> {
        if (witnesses) {
            auto found =
                std::make_unique<WitnessLosses>(ensemble, by, rows, layout, options, is_regression);
            if (points != nullptr && &rows == &train && !found->start_at(points, watch))
                return nullptr;
            return found;
        }
        auto found = std::make_unique<BoundLosses>(ensemble, by, rows, layout, std::move(order),
                                                   options, is_regression);
        if (!found->collect(watch))
            return nullptr;
        return found;
    };

    Descent result;
    const auto cancelled = [&] {
        result.interrupted = true;
        if (result.scores.empty())
            result.scores.assign(scores.begin(), scores.end());
        return result;
    };
    std::vector<std::int64_t> row_order = numbered(n);
    if (count > 1)
        shuffle(row_order, options.seed);
    const std::unique_ptr<RowLosses> losses =
        losses_of(train, attacker, options.uses_witnesses, std::move(row_order));
    std::unique_ptr<RowLosses> checked;
    std::unique_ptr<RowLosses> clean;
    const bool has_floor = std::isfinite(options.floor);
    if (losses && valid != nullptr) {
        checked = losses_of(*valid, attacker, options.uses_witnesses, numbered(valid->rows.count));
        if (checked && has_floor)
            clean = losses_of(*valid, nobody, false, numbered(valid->rows.count));
    }
    if (!losses || (valid != nullptr && (!checked || (has_floor && !clean))))
        return cancelled();

    const double unit = options.unit * ensemble.average;
    std::vector<double> current(size);
    std::vector<double> towards(size);
    for (std::size_t k = 0; k < size; ++k) {
        current[k] = scores[layout.place[k]] / unit;
        towards[k] = anchor.empty() ? 0 : anchor[layout.place[k]] / unit;
    }
    std::vector<double> average = current;
    std::vector<double> best = current;
    std::vector<double> scaled(size);
    const auto in_units = [&](const std::vector<double>& from) -> const std::vector<double>& {
        for (std::size_t k = 0; k < size; ++k)
            scaled[k] = from[k] * unit;
        return scaled;
    };
    const auto check = [&] {
        Judgement found{};
        Judgement without{not_a_number, 0};
        if (!checked->judge(in_units(average), found, watch) ||
            (clean && !clean->judge(scaled, without, watch)))
            return false;
        result.checks.push_back({step, found.robustness, without.robustness, found.loss});
        return true;
    };
    const auto rank = [&](const DescentCheck& one) {
        const double robustness = is_regression ? 0 : one.robustness;
        return std::tuple(!has_floor || one.accuracy >= options.floor, robustness, -one.loss);
    };
    const auto is_better = [&](const DescentCheck& one, const DescentCheck& than) {
        return !(one.robustness < result.checks.front().robustness) && rank(one) > rank(than);
    };

    const auto run = [&] {
        if (checked) {
            if (!check())
                return false;
            result.best = 0;
        }
        const int steps =
            options.epochs > 0 ? options.epochs * static_cast<int>(count) : options.steps;
        std::vector<double> first(size);
        std::vector<double> second(size);
        std::vector<double> slope(size);
        std::vector<std::int64_t> order = numbered(losses->items());
        if (count > 1 && options.uses_witnesses)
            shuffle(order, scrambled(options.seed, 1));
        while (step < steps) {
            const std::int64_t number = step % count;
            if (options.shuffle && number == 0 && count > 1)
                shuffle(order, scrambled(options.seed, static_cast<std::uint64_t>(step) + 2));
            const auto items = static_cast<std::int64_t>(order.size());
            const auto begin = number * items / count;
            const auto end = (number + 1) * items / count;
            if (!losses->gradient(std::span(order).subspan(static_cast<std::size_t>(begin),
                                                           static_cast<std::size_t>(end - begin)),
                                  in_units(current), slope, watch))
                return false;
            const double rate = options.rate * (1 - static_cast<double>(step) / steps) /
                                (1 - std::pow(first_moment, step + 1));
            const double correction = 1 - std::pow(second_moment, step + 1);
            ++step;
            // Slopes are those of the loss in units: a regression's loss in squared ones.
            const double slope_unit = ensemble.average / options.unit;
            for (std::size_t k = 0; k < size; ++k) {
                const double own = slope[k] * slope_unit + options.l2 * (current[k] - towards[k]);
                first[k] += (1 - first_moment) * (own - first[k]);
                second[k] += (1 - second_moment) * (own * own - second[k]);
                if (layout.may_change[k] != 0)
                    current[k] -= rate * first[k] / (std::sqrt(second[k] / correction) + 1e-8);
                average[k] += (1 - options.averaging) * (current[k] - average[k]);
            }
            if (!checked) {
                best = average;
            } else if (step % steps_per_check == 0 || step == steps) {
                if (!check())
                    return false;
                const auto& last = result.checks.back();
                const auto& chosen = result.checks[static_cast<std::size_t>(result.best)];
                if (is_better(last, chosen)) {
                    result.best = static_cast<int>(result.checks.size()) - 1;
                    best = average;
                } else if (options.patience > 0 && step - chosen.step >= options.patience) {
                    return true;
                }
            }
            if (!go_on(step))
                return false;
        }
        return true;
    };
    result.interrupted = !run();
    result.scores.assign(scores.size(), 0);
    for (std::size_t k = 0; k < size; ++k)
        result.scores[layout.place[k]] = best[k] * unit;
    if (points != nullptr && options.point_passes > 0 && !result.interrupted)
        if (auto* witnesses = dynamic_cast<WitnessLosses*>(losses.get()))
            result.interrupted = !witnesses->write_points(in_units(best), points, watch);
    return result;
}

} // namespace carve
