#include "verdict/search_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "large_spread/solver.hpp"
#include "search/radius.hpp"
#include "search/search.hpp"
#include "verdict/row_tools.hpp"

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Verdict and witness of one instance at a time.
class RowSearcher {
  public:
    RowSearcher(const Ensemble& ensemble, const Attacker& attacker, const Objectives& objectives,
                const Options& options, const std::atomic<bool>& cancelled)
        : ensemble_(ensemble), attacker_(attacker), objectives_(objectives), options_(options),
          cancelled_(cancelled), instance_(ensemble, attacker),
          solver_(ensemble, attacker, -1, infinity, cancelled), search_(ensemble, attacker),
          z_(ensemble.n_features), home_(ensemble.n_trees()) {}

    struct Result {
        Status status = Status::unknown;
        bool right = true;
        double margin = nan;
        Enclosure worst{-infinity, infinity};
        Engine engine = Engine::search;
        bool has_witness = false;
        double seconds = 0;
    };

    template <class Number> Result verify(const Number* row, int label, double seconds) {
        const Stopwatch stopwatch(seconds, cancelled_);
        std::copy(row, row + z_.size(), z_.begin());
        instance_.load(row);
        solver_.load(row);
        for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
            home_[tree] = ensemble_.leaf_of(tree, instance_.routed);
        large_spread_ = false;
        Result result;
        Enclosure around{infinity, infinity}; // of the margin
        rivals_.clear();
        for (int rival = 0; rival < objectives_.classes(); ++rival) {
            if (rival == label)
                continue;
            const Objective& objective = objectives_(label, rival);
            LongSum total = objective.start();
            for (const auto leaf : home_)
                objective.add(total, leaf);
            const double margin = objective.rounded(total, home_);
            const Enclosure enclosed = objective.enclose(total, home_);
            around.lower = std::min(around.lower, enclosed.lower);
            around.upper = std::min(around.upper, enclosed.upper);
            result.right = result.right && !objective.wins(objective.sign(total, home_));
            result.margin = std::fmin(result.margin, margin);
            rivals_.push_back({rival, margin});
        }
        // The most dangerous first.
        std::ranges::sort(rivals_, {}, &Rival::margin);
        if (large_spread_)
            result.engine = Engine::large_spread;
        // The attacker may leave the instance as it is.
        if (result.right) {
            result.worst.upper = around.upper;
            attack_right(result, label, stopwatch);
        } else {
            result.worst.lower = around.lower;
            attack_wrong(result, label, stopwatch);
        }
        if (!large_spread_)
            result.engine = Engine::search;
        result.seconds = stopwatch.elapsed();
        return result;
    }

    const double* example() const { return z_.data(); }
    double distance() const { return attacker_.distance(changed_, instance_.x, z_.data()); }

  private:
    struct Rival {
        int id;
        double margin;
        double lower = -infinity; // of its worst margin
        bool open = true;         // not known whether it can take over
    };

    SearchOutcome attack(const Objective& objective, Goal goal, const Stopwatch& stopwatch) {
        if (!large_spread_)
            return search_.run(instance_, objective, goal, stopwatch);
        const Outcome found = solver_.attack(objective);
        if (!found.decided || (goal == Goal::minimise && !found.is_best)) {
            large_spread_ = false;
            return attack(objective, goal, stopwatch);
        }
        SearchOutcome outcome;
        outcome.verdict = found.wins ? Verdict::wins : Verdict::never;
        outcome.least = found.worst;
        outcome.has_attack = found.wins;
        return outcome;
    }

    void attack_right(Result& result, int label, const Stopwatch& stopwatch) {
        // Who can take over comes first: the least margin may take all of the time.
        if (!options_.exact_margin || rivals_.size() > 1)
            attack_all(result, label, Goal::decide, stopwatch);
        if (options_.exact_margin)
            attack_all(result, label, Goal::minimise, stopwatch);
        result.worst.lower = std::ranges::min(rivals_, {}, &Rival::lower).lower;
        result.status = result.has_witness                           ? Status::fragile
                        : std::ranges::any_of(rivals_, &Rival::open) ? Status::unknown
                                                                     : Status::robust;
    }

    // Every rival has its share of the time; who is late goes on with what others leave over.
    void attack_all(Result& result, int label, Goal goal, const Stopwatch& stopwatch) {
        std::vector<Rival*> late;
        for (Rival& rival : rivals_)
            late.push_back(&rival);
        while (!late.empty()) {
            std::vector<Rival*> later;
            for (std::size_t i = 0; i < late.size(); ++i) {
                const Stopwatch limit = stopwatch.share(late.size() - i);
                attack_one(result, *late[i], objectives_(label, late[i]->id), goal, limit);
                if (result.has_witness && goal == Goal::decide)
                    return;
                if (late[i]->open && limit.expired()) // otherwise it is too large to search
                    later.push_back(late[i]);
            }
            if (stopwatch.expired() || goal != Goal::decide)
                return;
            late = std::move(later);
        }
    }

    void attack_one(Result& result, Rival& rival, const Objective& objective, Goal goal,
                    const Stopwatch& limit) {
        const SearchOutcome outcome = attack(objective, goal, limit);
        rival.lower = std::max(rival.lower, outcome.least.lower);
        rival.open = rival.open && outcome.verdict == Verdict::undecided;
        const bool better = outcome.least.upper < result.worst.upper;
        result.worst.upper = std::min(result.worst.upper, outcome.least.upper);
        if (outcome.has_attack && (!result.has_witness || better))
            keep_witness(result, objective);
    }

    // A wrong instance: can one attack make `label` win against every other class?
    void attack_wrong(Result& result, int label, const Stopwatch& stopwatch) {
        bool undecided = false;
        int hardest = -1;
        double hardest_upper = -infinity;
        for (const Rival& rival : rivals_) {
            const Objective& objective = objectives_(rival.id, label);
            const SearchOutcome outcome =
                attack(objective, options_.exact_margin ? Goal::minimise : Goal::decide, stopwatch);
            result.worst.upper = std::min(result.worst.upper, -outcome.least.lower);
            if (rivals_.size() == 1)
                result.worst.lower = std::max(result.worst.lower, -outcome.least.upper);
            undecided = undecided || outcome.verdict == Verdict::undecided;
            if (outcome.verdict == Verdict::never) {
                result.status = Status::vulnerable;
                return;
            }
            if (outcome.has_attack && !result.has_witness && try_witness(label)) {
                keep_witness(result, objective);
                if (!options_.exact_margin)
                    break;
            }
            if (outcome.least.upper > hardest_upper) {
                hardest_upper = outcome.least.upper;
                hardest = rival.id;
            }
        }
        if (!result.has_witness && rivals_.size() > 1 && !undecided)
            attack_jointly(result, label, hardest, stopwatch);
        else if (result.has_witness)
            result.status = Status::broken;
    }

    // Every rival can be beaten, but the attacks found do not beat all at once.
    void attack_jointly(Result& result, int label, int hardest, const Stopwatch& stopwatch) {
        std::vector<const Objective*> others;
        for (const Rival& rival : rivals_)
            if (rival.id != hardest)
                others.push_back(&objectives_(rival.id, label));
        large_spread_ = false;
        result.engine = Engine::search;
        const Objective& objective = objectives_(hardest, label);
        const SearchOutcome outcome =
            search_.run(instance_, objective, Goal::decide, stopwatch, others);
        if (outcome.verdict == Verdict::undecided)
            return;
        if (outcome.has_attack)
            keep_witness(result, objective);
        result.status = outcome.has_attack ? Status::broken : Status::vulnerable;
    }

    // The attack found last, as changes to the instance.
    void perturb() {
        for (const auto feature : changed_)
            z_[feature] = instance_.x[feature];
        changed_.clear();
        if (large_spread_) {
            solver_.perturb(z_.data());
            changed_ = solver_.changed();
        } else {
            search_.perturb(z_.data(), changed_);
        }
    }

    std::vector<std::int32_t> leaves_at_z() const {
        std::vector<double> routed(instance_.routed, instance_.routed + z_.size());
        for (const auto feature : changed_)
            routed[feature] = z_[feature];
        std::vector<std::int32_t> leaves;
        for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
            leaves.push_back(ensemble_.leaf_of(tree, routed.data()));
        return leaves;
    }

    bool try_witness(int label) {
        perturb();
        const std::vector<std::int32_t> leaves = leaves_at_z();
        return std::ranges::none_of(rivals_, [&](const Rival& rival) {
            const Objective& objective = objectives_(label, rival.id);
            return objective.wins(objective.total(leaves).sign());
        });
    }

    // Every witness is checked before it is believed.
    void keep_witness(Result& result, const Objective& objective) {
        perturb();
        const ExactSum total = objective.total(leaves_at_z());
        const auto within = [&](std::int32_t feature) {
            const Limits& limits = instance_.limits(feature);
            return limits.low <= z_[feature] && z_[feature] <= limits.high;
        };
        if (!objective.wins(total.sign()) || !std::ranges::all_of(changed_, within) ||
            !attacker_.affords(changed_, instance_.x, z_.data()))
            throw std::logic_error("a witness failed its own check");
        result.has_witness = true;
    }

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    const Objectives& objectives_;
    const Options& options_;
    const std::atomic<bool>& cancelled_;
    Instance instance_;
    LargeSpreadSolver solver_;
    Search search_;
    bool large_spread_ = false;
    std::vector<double> z_;
    std::vector<std::int32_t> changed_;
    std::vector<std::int32_t> home_;
    std::vector<Rival> rivals_;
};

} // namespace

bool search_verify_rows(const Batch& batch, const std::int32_t* label) {
    const int workers = worker_count(batch.options.threads, batch.rows.count, 1);
    std::vector<std::unique_ptr<RowSearcher>> searchers(workers);
    const auto work = [&](int worker, RowRange range, const std::atomic<bool>& cancelled) {
        auto& slot = searchers[worker];
        if (!slot)
            slot =
                std::make_unique<RowSearcher>(batch.problem.ensemble, batch.problem.attacker,
                                              batch.problem.objectives, batch.options, cancelled);
        for (std::int64_t i = range.begin; i < range.end && !cancelled; ++i) {
            with_row(batch.rows, i, [&](const auto* row) {
                const auto result = slot->verify(row, label[i], batch.options.seconds[i]);
                auto& d = batch.decisions;
                d.status[i] = result.status;
                d.engine[i] = result.status == Status::unknown ? Engine::none : Engine::search;
                d.right[i] = result.right;
                d.margin[i] = result.margin;
                d.worst_lower[i] = result.worst.lower;
                d.worst_upper[i] = result.worst.upper;
                if (result.has_witness && d.witness.exists()) {
                    std::copy_n(slot->example(), batch.rows.columns,
                                d.witness.data() + i * batch.rows.columns);
                    d.distance[i] = slot->distance();
                }
                d.seconds[i] = result.seconds;
            });
        }
    };
    return parallel_rows(batch.rows.count, 1, workers, work, batch.watch);
}

bool search_radius_rows(const Batch& batch, const std::int32_t* label) {
    const auto work = [&](int, RowRange range, const std::atomic<bool>& cancelled) {
        RadiusSearch finder(batch.problem.ensemble, batch.problem.attacker,
                            batch.problem.objectives);
        for (std::int64_t i = range.begin; i < range.end && !cancelled; ++i) {
            const Stopwatch stopwatch(batch.options.seconds[i], cancelled);
            with_row(batch.rows, i, [&](const auto* row) {
                const RadiusBounds found = finder.run(row, label[i], stopwatch);
                batch.decisions.radius_lower[i] = found.lower;
                batch.decisions.radius_upper[i] = found.upper;
                if (found.lower == found.upper) {
                    batch.decisions.status[i] = Status::robust;
                    batch.decisions.engine[i] = batch.options.solver;
                }
                batch.decisions.seconds[i] = stopwatch.elapsed();
            });
        }
    };
    return parallel_rows(batch.rows.count, 1,
                         worker_count(batch.options.threads, batch.rows.count, 1), work,
                         batch.watch);
}

} // namespace carve
