#include "verdict/rows.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "large_spread/solver.hpp"
#include "verdict/row_tools.hpp"

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t block = 64;

// Verdict and witness of one instance at a time.
class RowVerifier {
  public:
    RowVerifier(const Ensemble& ensemble, const Attacker& attacker, const Objectives& objectives,
                const Options& options, const std::atomic<bool>& cancelled)
        : objectives_(objectives), options_(options), wants_witness_(options.witness),
          cancelled_(cancelled), solver_(ensemble, attacker, options.grid, infinity, cancelled),
          whole_(infinity, cancelled), z_(static_cast<std::size_t>(ensemble.n_features)) {}

    struct Result {
        Status status = Status::unknown;
        bool right = true;
        double margin = nan;
        Enclosure worst{-infinity, infinity};
        bool has_witness = false;
    };

    template <class Number> Result verify(const Number* row, int label, double seconds) {
        whole_ = Stopwatch(seconds, cancelled_);
        solver_.load(row, whole_);
        if (options_.solver == Engine::none ||
            (options_.per_instance && !solver_.is_large_spread()))
            return predict(label);
        Result result;
        bool wins = false;
        bool proven = false;
        bool decided = true;
        result.worst.lower = infinity;
        for (int rival = 0; rival < objectives_.classes(); ++rival) {
            if (rival == label)
                continue;
            share_time(rival < label ? rival : rival - 1);
            const Outcome outcome = attack(objectives_(label, rival));
            decided = decided && outcome.decided;
            result.right = result.right && outcome.holds;
            result.margin = std::fmin(result.margin, outcome.margin);
            const bool better = outcome.worst.upper < result.worst.upper;
            result.worst.lower = std::min(result.worst.lower, outcome.worst.lower);
            result.worst.upper = std::min(result.worst.upper, outcome.worst.upper);
            if (outcome.decided && outcome.holds && outcome.wins) {
                wins = true;
                if (wants_witness_ && outcome.proven && (better || !result.has_witness))
                    keep_witness(result, objectives_(label, rival), row);
                proven = proven || outcome.proven;
            }
        }
        if (result.right)
            result.status = proven             ? Status::fragile
                            : wins || !decided ? Status::unknown
                                               : Status::robust;
        else
            attack_wrong(result, row, label);
        return result;
    }

    const double* example() const { return z_.data(); }
    double distance() const { return solver_.distance(z_.data()); }
    double elapsed() const { return whole_.elapsed(); }

  private:
    // Of the time that is left, every rival to come has its share; `done` are through.
    void share_time(int done) {
        if (objectives_.classes() > 2)
            solver_.limit(whole_.share(static_cast<std::size_t>(objectives_.classes() - 1 - done)));
    }

    Outcome attack(const Objective& objective) {
        Outcome outcome = solver_.attack(objective);
        if (options_.basic && options_.grid < 0 && outcome.decided) {
            // Build the perturbation and predict on it.
            z_.assign(solver_.instance().x, solver_.instance().x + z_.size());
            solver_.perturb(z_.data());
            const ExactSum total = solver_.predict(objective, z_.data());
            if (objective.wins(total.sign()) != outcome.wins)
                throw std::logic_error("the basic and the efficient algorithm disagree");
        }
        return outcome;
    }

    // All that can be said without an attack.
    Result predict(int label) {
        Result result;
        solver_.forget_attack();
        double lowest = infinity;
        double highest = infinity;
        for (int rival = 0; rival < objectives_.classes(); ++rival) {
            if (rival == label)
                continue;
            const Objective& objective = objectives_(label, rival);
            const ExactSum total = solver_.predict(objective, solver_.instance().x);
            const Enclosure margin = objective.enclose(total);
            lowest = std::min(lowest, margin.lower);
            highest = std::min(highest, margin.upper);
            result.right = result.right && !objective.wins(total.sign());
            result.margin = std::fmin(result.margin, rounded(margin, total.sign()));
        }
        // The attacker may leave the instance as it is.
        (result.right ? result.worst.upper : result.worst.lower) = result.right ? highest : lowest;
        return result;
    }

    template <class Number>
    void keep_witness(Result& result, const Objective& objective, const Number* row) {
        std::copy(row, row + z_.size(), z_.begin());
        solver_.perturb(z_.data());
        const ExactSum total = solver_.predict(objective, z_.data());
        if (!objective.wins(total.sign()) || !solver_.affords(z_.data()))
            throw std::logic_error("a witness failed its own check");
        result.has_witness = true;
    }

    // A wrong instance: can one attack make `label` win against every other class?
    template <class Number> void attack_wrong(Result& result, const Number* row, int label) {
        const bool single = objectives_.classes() == 2;
        // Each rival's best attack on its own is no more than a bound, unless there is but one.
        result.worst = {single ? infinity : predict(label).worst.lower, infinity};
        result.has_witness = false;
        bool possible = true;
        bool certain = true;
        bool decided = true;
        for (int rival = 0; rival < objectives_.classes(); ++rival) {
            if (rival == label)
                continue;
            const Objective& objective = objectives_(rival, label);
            solver_.limit(whole_);
            const Outcome outcome = attack(objective);
            result.worst.upper = std::min(result.worst.upper, -outcome.worst.lower);
            if (single)
                result.worst.lower = -outcome.worst.upper;
            decided = decided && outcome.decided;
            if (!outcome.decided || !outcome.holds) // or `label` beats this rival already
                continue;
            possible = possible && outcome.wins;
            certain = certain && outcome.proven;
            if (!outcome.wins || !outcome.proven || result.has_witness)
                continue;
            if (single && !wants_witness_) {
                result.has_witness = true; // the only rival is beaten
                continue;
            }
            keep_witness(result, objective, row);
            result.has_witness = wins_everywhere(label);
        }
        if (!possible)
            result.status = Status::vulnerable;
        else if (result.has_witness && certain && decided)
            result.status = Status::broken;
        else
            result.status = Status::unknown;
        result.has_witness = result.status == Status::broken;
    }

    bool wins_everywhere(int label) {
        for (int rival = 0; rival < objectives_.classes(); ++rival) {
            const Objective& objective = objectives_(label, rival);
            if (rival != label && objective.wins(solver_.predict(objective, z_.data()).sign()))
                return false;
        }
        return true;
    }

    const Objectives& objectives_;
    const Options& options_;
    bool wants_witness_;
    const std::atomic<bool>& cancelled_;
    LargeSpreadSolver solver_;
    Stopwatch whole_; // of the instance
    std::vector<double> z_;
};

double nearest_threshold(const Ensemble& ensemble, const Attacker& attacker,
                         const Instance& instance) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const Node& node : ensemble.nodes) {
        if (node.is_leaf() || !attacker.may_change(node.feature))
            continue;
        const double x = instance.x[node.feature];
        const double distance = std::fabs(node.threshold - x) / attacker.scale_of(node.feature);
        if (0 < distance && distance < nearest)
            nearest = distance;
    }
    return nearest;
}

// Radii of one worker's instances. For norms 1, 2, … the budget grows by factors of four from
// the nearest threshold on, so that costs stay well scaled.
class RowRadius {
  public:
    RowRadius(const Ensemble& ensemble, const Attacker& attacker, const Objectives& objectives,
              const std::atomic<bool>& cancelled)
        : ensemble_(ensemble), attacker_(attacker), objectives_(objectives), cancelled_(cancelled),
          instance_(ensemble, attacker), last_(level_of(attacker.budget)) {}

    template <class Number>
    RadiusBounds radius(const Number* row, int label, const Stopwatch& stopwatch) {
        int level = last_;
        if (attacker_.norm > 0) {
            instance_.load(row);
            level = std::min(last_, level_of(nearest_threshold(ensemble_, attacker_, instance_)));
        }
        lower_.assign(static_cast<std::size_t>(objectives_.classes()), 0.0);
        for (;; ++level) {
            const RadiusBounds found = radius_within(row, label, level, stopwatch);
            if (found.upper < infinity || found.lower < infinity || level >= last_ || cancelled_)
                return found;
        }
    }

  private:
    static constexpr int lowest_level = -160;
    struct Level {
        Attacker attacker;
        LargeSpreadSolver solver;
        Level(const Ensemble& ensemble, Attacker a, const std::atomic<bool>& cancelled)
            : attacker(std::move(a)), solver(ensemble, attacker, -1, infinity, cancelled) {}
    };

    // The first level whose budget, 4^level, is at least about the one given.
    static int level_of(double budget) {
        return std::max(lowest_level, budget > 0 ? std::ilogb(budget) / 2 + 1 : lowest_level);
    }

    // Infinite where no budget of this level flips. Every rival has its share of the time.
    template <class Number>
    RadiusBounds radius_within(const Number* row, int label, int level,
                               const Stopwatch& stopwatch) {
        auto& slot = levels_[level];
        if (!slot) {
            Attacker grown = attacker_;
            if (level < last_)
                grown.budget = std::min(attacker_.budget, std::ldexp(1.0, 2 * level));
            slot = std::make_unique<Level>(ensemble_, std::move(grown), cancelled_);
        }
        slot->solver.load(row, stopwatch);
        RadiusBounds bounds{infinity, infinity};
        bool decided = true;
        auto to_come = static_cast<std::size_t>(objectives_.classes() - 1);
        for (int rival = 0; rival < objectives_.classes(); ++rival) {
            if (rival == label)
                continue;
            slot->solver.limit(stopwatch.share(to_come--));
            const double found = slot->solver.radius(objectives_(label, rival));
            double& lower = lower_[static_cast<std::size_t>(rival)];
            if (found == LargeSpreadSolver::undecided)
                decided = false;
            else
                lower = std::isnan(found) ? slot->attacker.budget : found;
            if (found >= 0)
                bounds.upper = std::min(bounds.upper, found);
            bounds.lower = std::min(bounds.lower, lower);
        }
        if (decided)
            return {bounds.upper, bounds.upper};
        return {std::min(bounds.lower, bounds.upper), bounds.upper};
    }

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    const Objectives& objectives_;
    const std::atomic<bool>& cancelled_;
    Instance instance_;
    int last_;                  // the level of the attacker's own budget
    std::vector<double> lower_; // per rival: no budget up to this flips
    std::map<int, std::unique_ptr<Level>> levels_;
};

} // namespace

bool verify_rows(const Batch& batch, const std::int32_t* label) {
    const Rows& rows = batch.rows;
    const Options& options = batch.options;
    const WatchFunction& watch = batch.watch;
    const int workers = worker_count(options.threads, rows.count, block);
    std::vector<std::unique_ptr<RowVerifier>> verifiers(static_cast<std::size_t>(workers));
    const auto work = [&](int worker, RowRange range, const std::atomic<bool>& cancelled) {
        auto& slot = verifiers[static_cast<std::size_t>(worker)];
        if (!slot)
            slot =
                std::make_unique<RowVerifier>(batch.problem.ensemble, batch.problem.attacker,
                                              batch.problem.objectives, batch.options, cancelled);
        RowVerifier& verifier = *slot;
        for (std::int64_t i = range.begin; i < range.end && !cancelled; ++i) {
            with_row(batch.rows, i, [&](const auto* row) {
                const auto result = verifier.verify(
                    row, label[i], batch.options.seconds[static_cast<std::size_t>(i)]);
                auto& d = batch.decisions;
                d.status[i] = result.status;
                d.engine[i] =
                    result.status == Status::unknown ? Engine::none : batch.options.solver;
                d.right[i] = result.right;
                d.margin[i] = result.margin;
                d.worst_lower[i] = result.worst.lower;
                d.worst_upper[i] = result.worst.upper;
                if (result.has_witness && d.witness.exists()) {
                    std::copy_n(verifier.example(), batch.rows.columns,
                                d.witness.data() + i * batch.rows.columns);
                    d.distance[i] = verifier.distance();
                }
                d.seconds[i] = verifier.elapsed();
            });
        }
    };
    return parallel_rows(rows.count, block, workers, work, watch);
}

bool radius_rows(const Batch& batch, const std::int32_t* label) {
    const int workers = worker_count(batch.options.threads, batch.rows.count, block);
    std::vector<std::unique_ptr<RowRadius>> finders(static_cast<std::size_t>(workers));
    const auto work = [&](int worker, RowRange range, const std::atomic<bool>& cancelled) {
        auto& finder = finders[static_cast<std::size_t>(worker)];
        if (!finder)
            finder = std::make_unique<RowRadius>(batch.problem.ensemble, batch.problem.attacker,
                                                 batch.problem.objectives, cancelled);
        for (std::int64_t i = range.begin; i < range.end && !cancelled; ++i)
            with_row(batch.rows, i, [&](const auto* row) {
                const Stopwatch stopwatch(batch.options.seconds[static_cast<std::size_t>(i)],
                                          cancelled);
                const RadiusBounds found = finder->radius(row, label[i], stopwatch);
                batch.decisions.radius_lower[i] = found.lower;
                batch.decisions.radius_upper[i] = found.upper;
                if (found.lower == found.upper) {
                    batch.decisions.status[i] = Status::robust;
                    batch.decisions.engine[i] = batch.options.solver;
                }
                batch.decisions.seconds[i] = stopwatch.elapsed();
            });
    };
    return parallel_rows(batch.rows.count, block, workers, work, batch.watch);
}

} // namespace carve
