#include "training/worst_cases.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "numbers/units.hpp"
#include "training/attack_by_costs.hpp"
#include "training/attack_by_limits.hpp"
#include "training/reach_by_costs.hpp"

namespace carve {

namespace {

constexpr double just_below_zero = -1e-300;

TermKind kind_of(const Ensemble& ensemble, const Attacker& attacker, bool numbers, bool single) {
    if (numbers)
        return TermKind::numbers;
    if (ensemble.n_outputs() == 1)
        return TermKind::two_classes;
    return single && attacker.norm == norm_inf ? TermKind::by_output : TermKind::by_rival;
}

int term_count(const Ensemble& ensemble, TermKind kind) {
    return kind == TermKind::numbers ? 2 : ensemble.n_outputs();
}

} // namespace

WorstCases::WorstCases(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                       Wanted wanted, Plan plan)
    : ensemble_(ensemble), attacker_(attacker), rows_(rows), wanted_(std::move(wanted)),
      plan_(std::move(plan)), costs_(ensemble, attacker), numbers_(ensemble) {
    const bool single = ensemble.n_outputs() == 1 || !plan_.output.empty();
    width_ = single ? 1 : ensemble.base_score.size();
    kind_ = kind_of(ensemble, attacker, wanted_.is_number, single);
    plan_.output.resize(static_cast<std::size_t>(ensemble.n_trees()), 0);
    if (plan_.order.empty()) {
        plan_.order.resize(static_cast<std::size_t>(rows.count));
        std::iota(plan_.order.begin(), plan_.order.end(), 0);
    }
    for (const double number : wanted_.number)
        largest_number_ = std::max(largest_number_, std::fabs(number));
    force_unit_ = units::slope_unit(rows.count);
    if (!wanted_.is_number)
        for (const std::int64_t row : plan_.order)
            label_.push_back(wanted_.label[static_cast<std::size_t>(row)]);
    if (by_limits())
        cuts_.emplace(ensemble);
    kept_.resize(static_cast<std::size_t>(blocks()));
}

std::span<const std::int64_t> WorstCases::rows_of(std::int64_t block) const {
    const std::int64_t begin = block * plan_.block;
    return {plan_.order.data() + begin,
            static_cast<std::size_t>(std::min(plan_.block, rows_.count - begin))};
}

std::span<const std::int32_t> WorstCases::labels_of(std::int64_t block) const {
    if (label_.empty())
        return {};
    return {label_.data() + block * plan_.block, rows_of(block).size()};
}

// Finds what is within reach, one way or the other. One per thread.
class WorstCases::Finder {
  public:
    explicit Finder(const WorstCases& cases) : cases_(cases) {
        if (cases.by_limits())
            by_limits_.emplace(cases.ensemble_, cases.attacker_, cases.numbers_, *cases.cuts_);
        else
            by_costs_.emplace(cases.ensemble_, cases.attacker_, cases.costs_, cases.numbers_);
    }
    void find(std::int64_t block, Reached& reached) {
        if (by_limits_)
            by_limits_->find(cases_.rows_, cases_.rows_of(block), reached);
        else
            by_costs_->find(cases_.rows_, cases_.rows_of(block), reached);
    }

  private:
    const WorstCases& cases_;
    std::optional<ReachByLimits> by_limits_;
    std::optional<ReachByCosts> by_costs_;
};

bool WorstCases::collect(int threads, const WatchFunction& watch) {
    std::atomic<std::size_t> used{0};
    std::atomic<bool> full{plan_.most_memory == 0};
    const int workers = worker_count(threads, blocks(), 1);
    std::vector<std::unique_ptr<Finder>> finders(static_cast<std::size_t>(workers));
    const auto work = [&](int number, RowRange range, const std::atomic<bool>&) {
        auto& finder = finders[static_cast<std::size_t>(number)];
        if (!finder)
            finder = std::make_unique<Finder>(*this);
        for (std::int64_t block = range.begin; block < range.end && !full; ++block) {
            Reached reached;
            finder->find(block, reached);
            reached.shrink();
            const std::size_t size = reached.memory();
            if (used.fetch_add(size) + size > plan_.most_memory) {
                used -= size;
                full = true;
                return;
            }
            kept_[static_cast<std::size_t>(block)] = std::move(reached);
        }
    };
    return parallel_rows(blocks(), 1, workers, work, watch);
}

std::size_t WorstCases::memory() const {
    std::size_t bytes = 0;
    for (const auto& reached : kept_)
        bytes += reached ? reached->memory() : 0;
    return bytes;
}

std::vector<double> WorstCases::in_order(const double* scores) const {
    std::vector<double> ordered;
    ordered.reserve(score_count());
    for (std::size_t leaf = 0; leaf < numbers_.size(); ++leaf) {
        const auto row = static_cast<std::size_t>(numbers_.row(static_cast<std::int32_t>(leaf)));
        ordered.insert(ordered.end(), scores + row * width_, scores + (row + 1) * width_);
    }
    return ordered;
}

double WorstCases::most_distance(std::span<const double> scores) const {
    double sum = std::fabs(ensemble_.base_score[0]);
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree) {
        double largest = 0;
        for (std::int32_t leaf = numbers_.first(tree); leaf < numbers_.first(tree + 1); ++leaf)
            largest = std::max(largest, std::fabs(scores[static_cast<std::size_t>(leaf)]));
        sum += largest;
    }
    int exponent = 0;
    std::frexp(sum / ensemble_.average + largest_number_, &exponent);
    return std::ldexp(1.0, exponent + 1); // with room for rounding
}

// Attacks block after block. One per thread.
class WorstCases::Worker {
  public:
    Worker(const WorstCases& cases, std::span<const double> scores, double steepness)
        : cases_(cases), scores_(scores), steepness_(steepness),
          terms_{cases.kind_, term_count(cases.ensemble_, cases.kind_)},
          by_limits_(cases.numbers_, cases.plan_.output, cases.width_),
          by_costs_(cases.numbers_, cases.plan_.output, cases.width_, cases.costs_.capacity()),
          average_(cases.ensemble_.average) {}

    void attack(std::int64_t block) {
        const auto& kept = cases_.kept_[static_cast<std::size_t>(block)];
        if (!kept)
            find(block);
        terms_.label = cases_.labels_of(block);
        terms_.rows = cases_.rows_of(block).size();
        terms_.total.clear();
        for (int term = 0; term < terms_.count; ++term)
            for (std::size_t row = 0; row < terms_.rows; ++row)
                terms_.total.push_back(
                    constant_of(cases_.ensemble_, terms_.kind, terms_.term(term, row)));
        const Reached& reached = kept ? *kept : found_;
        if (cases_.by_limits())
            by_limits_.attack(scores_.data(), reached, terms_);
        else
            by_costs_.attack(scores_.data(), reached, terms_);
    }

    // What is known of row `row` of the block attacked last, which is row `place` of all.
    void tell(std::size_t row, std::size_t place, const Outcomes& outcomes) {
        const auto put = [place](double* column, double value) {
            if (column != nullptr)
                column[place] = value;
        };
        if (terms_.kind == TermKind::numbers) {
            put(outcomes.lowest, lowest(row));
            put(outcomes.highest, highest(row));
            const double distance = distance_of(row, place);
            put(outcomes.loss, distance * distance);
            return;
        }
        find_margins(row);
        put(outcomes.margin, *std::ranges::min_element(margins_));
        if (outcomes.loss != nullptr)
            put(outcomes.loss, logistic_loss());
    }

    // The force of a row of weight `weight` on each of its terms, in units.
    void push(std::size_t row, std::size_t place, double weight, double most_distance) {
        const double unit = cases_.force_unit_;
        const auto force = [&](int term) -> double& { return terms_.force[terms_.at(term, row)]; };
        if (terms_.kind == TermKind::numbers) {
            const bool low = is_low_end(row, place);
            force(low ? 0 : 1) = -distance_of(row, place) / most_distance * weight / unit;
            return;
        }
        find_margins(row);
        find_shares();
        if (terms_.kind == TermKind::two_classes) {
            force(0) = -shares_[0] * weight / unit;
            return;
        }
        const auto label = terms_.label[row];
        double sum = 0;
        int rival = 0;
        for (const double share : shares_) {
            rival += rival == label ? 1 : 0;
            force(rival++) = -share * weight / unit;
            sum += share;
        }
        if (terms_.kind == TermKind::by_output)
            force(label) = -sum * weight / unit;
    }

    void clear_forces() { terms_.force.assign(terms_.total.size(), 0.0); }

    // Adds the forces to the slope.
    void descend() {
        if (cases_.by_limits())
            by_limits_.descend(terms_, slope.data());
        else
            by_costs_.descend(terms_, slope.data());
    }

    std::vector<std::int64_t> slope;

  private:
    void find(std::int64_t block) {
        if (!finder_)
            finder_ = std::make_unique<Finder>(cases_);
        finder_->find(block, found_);
    }
    double total(int term, std::size_t row) const { return terms_.total[terms_.at(term, row)]; }

    double lowest(std::size_t row) const { return total(0, row) / average_; }
    double highest(std::size_t row) const { return -total(1, row) / average_; }
    bool is_low_end(std::size_t row, std::size_t place) const {
        const double wanted = cases_.wanted_.number[place];
        return wanted - lowest(row) >= highest(row) - wanted;
    }
    double distance_of(std::size_t row, std::size_t place) const {
        const double wanted = cases_.wanted_.number[place];
        return is_low_end(row, place) ? wanted - lowest(row) : highest(row) - wanted;
    }

    // margins_: against each rival, in the order of the classes.
    void find_margins(std::size_t row) {
        margins_.clear();
        const Ensemble& ensemble = cases_.ensemble_;
        const auto label = terms_.label[row];
        const auto add = [&](double margin, bool tie_wins) {
            margins_.push_back((margin == 0 && tie_wins ? just_below_zero : margin) / average_);
        };
        if (terms_.kind == TermKind::two_classes) {
            add(total(0, row), (label == 1) != ensemble.tie_positive);
            return;
        }
        const double own = terms_.kind == TermKind::by_output ? total(label, row) : 0.0;
        for (int rival = 0; rival < terms_.count; ++rival)
            if (rival != label)
                add(own + total(rival, row), rival < label);
    }

    double logistic_loss() const {
        double largest = 0;
        for (const double margin : margins_)
            largest = std::max(largest, -steepness_ * margin);
        if (!std::isfinite(largest))
            return largest;
        double sum = 0;
        for (const double margin : margins_)
            sum += std::exp(-steepness_ * margin - largest);
        return largest == 0 ? std::log1p(sum) : largest + std::log(sum + std::exp(-largest));
    }

    // shares_: how fast the loss falls with each margin, in units of the steepness.
    void find_shares() {
        shares_.clear();
        if (margins_.size() == 1) {
            shares_.push_back(1 / (1 + std::exp(steepness_ * margins_[0])));
            return;
        }
        double largest = 0;
        for (const double margin : margins_)
            largest = std::max(largest, -steepness_ * margin);
        double sum = std::exp(-largest);
        for (const double margin : margins_) {
            shares_.push_back(std::exp(-steepness_ * margin - largest));
            sum += shares_.back();
        }
        for (double& share : shares_)
            share /= sum;
    }

    const WorstCases& cases_;
    std::span<const double> scores_;
    double steepness_;
    std::unique_ptr<Finder> finder_; // once it is needed
    Reached found_;
    MarginTerms terms_;
    AttackByLimits by_limits_;
    AttackByCosts by_costs_;
    double average_;
    std::vector<double> margins_;
    std::vector<double> shares_;
};

bool WorstCases::judge(const double* scores, double steepness, const Outcomes& outcomes,
                       int threads, const WatchFunction& watch) const {
    const std::vector<double> ordered = in_order(scores);
    const int workers = worker_count(threads, blocks(), 1);
    std::vector<std::unique_ptr<Worker>> slots(static_cast<std::size_t>(workers));
    const auto work = [&](int number, RowRange range, const std::atomic<bool>&) {
        auto& worker = slots[static_cast<std::size_t>(number)];
        if (!worker)
            worker = std::make_unique<Worker>(*this, ordered, steepness);
        worker->attack(range.begin);
        const auto places = rows_of(range.begin);
        for (std::size_t row = 0; row < places.size(); ++row)
            worker->tell(row, static_cast<std::size_t>(places[row]), outcomes);
    };
    return parallel_rows(blocks(), 1, workers, work, watch);
}

bool WorstCases::slope(const double* scores, double steepness, const Batch& batch, double* slope,
                       int threads, const WatchFunction& watch) const {
    const std::vector<double> ordered = in_order(scores);
    const double most = has_classes() ? 1 : most_distance(ordered);
    const auto count = static_cast<std::int64_t>(batch.blocks.size());
    const int workers = worker_count(threads, count, 1);
    std::vector<std::unique_ptr<Worker>> slots(static_cast<std::size_t>(workers));
    const auto work = [&](int number, RowRange range, const std::atomic<bool>&) {
        auto& worker = slots[static_cast<std::size_t>(number)];
        if (!worker) {
            worker = std::make_unique<Worker>(*this, ordered, steepness);
            worker->slope.assign(score_count(), 0);
        }
        const std::int64_t block = batch.blocks[static_cast<std::size_t>(range.begin)];
        worker->attack(block);
        worker->clear_forces();
        const auto places = rows_of(block);
        for (std::size_t row = 0; row < places.size(); ++row) {
            const auto place = static_cast<std::size_t>(places[row]);
            worker->push(row, place, batch.weight == nullptr ? 1 : batch.weight[place], most);
        }
        worker->descend();
    };
    if (!parallel_rows(count, 1, workers, work, watch))
        return false;
    const double unit = force_unit_ * (has_classes() ? steepness : 2 * most) / ensemble_.average;
    for (std::size_t leaf = 0; leaf < numbers_.size(); ++leaf) {
        const auto row = static_cast<std::size_t>(numbers_.row(static_cast<std::int32_t>(leaf)));
        for (std::size_t output = 0; output < width_; ++output) {
            std::int64_t sum = 0;
            for (const auto& worker : slots)
                if (worker)
                    sum += worker->slope[leaf * width_ + output];
            slope[row * width_ + output] = static_cast<double>(sum) * unit;
        }
    }
    return true;
}

} // namespace carve
