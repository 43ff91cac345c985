#include "verdict/range_rows.hpp"

#include <limits>
#include <memory>
#include <vector>

#include "large_spread/solver.hpp"
#include "model/objective.hpp"
#include "running/stopwatch.hpp"
#include "search/search.hpp"
#include "verdict/row_tools.hpp"

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// One instance at a time: how far can an objective be brought down?
class Pusher {
  public:
    Pusher(const Ensemble& ensemble, const Attacker& attacker, const Options& options,
           const std::atomic<bool>& cancelled)
        : ensemble_(ensemble), options_(options), cancelled_(cancelled),
          solver_(ensemble, attacker, -1, infinity, cancelled), instance_(ensemble, attacker),
          search_(ensemble, attacker), home_(static_cast<std::size_t>(ensemble.n_trees())) {}

    template <class Number> void load(const Number* row, double seconds) {
        seconds_ = seconds;
        started_ = Stopwatch(seconds, cancelled_);
        solver_.load(row);
        instance_.load(row);
        for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
            home_[static_cast<std::size_t>(tree)] = ensemble_.leaf_of(tree, instance_.routed);
        large_spread_ = options_.solver == Engine::large_spread &&
                        (!options_.per_instance || solver_.is_large_spread());
    }
    const std::vector<std::int32_t>& home() const { return home_; }

    // May take `share` of the time that is left.
    SearchOutcome push(const Objective& objective, Goal goal, double share) {
        const Stopwatch limit = started_.within(share * started_.left());
        SearchOutcome outcome;
        outcome.least = {-infinity, objective.enclose(objective.total(home_)).upper};
        if (large_spread_) {
            solver_.limit(limit);
            const Outcome found = solver_.attack(objective);
            outcome.least = found.worst;
            if (found.is_best || (found.decided && goal == Goal::decide)) {
                outcome.verdict = found.wins ? Verdict::wins : Verdict::never;
                return outcome;
            }
        }
        if (options_.solver != Engine::search)
            return outcome;
        SearchOutcome found = search_.run(instance_, objective, goal, limit);
        found.least.lower = std::max(found.least.lower, outcome.least.lower);
        found.least.upper = std::min(found.least.upper, outcome.least.upper);
        return found;
    }

    // Is there enough time for another attempt to get further than one with half of it?
    double elapsed() const { return started_.elapsed(); }
    bool has_time() const { return started_.left() > 0.3 * seconds_; }

  private:
    const Ensemble& ensemble_;
    const Options& options_;
    double seconds_ = 0;
    const std::atomic<bool>& cancelled_;
    Stopwatch started_{infinity, cancelled_};
    LargeSpreadSolver solver_;
    Instance instance_;
    Search search_;
    std::vector<std::int32_t> home_;
    bool large_spread_ = false;
};

// Calls visit(pusher, row number) for every row, a pusher per thread.
template <class Visit> bool for_rows(const Batch& batch, Visit&& visit) {
    const std::int64_t block = batch.options.solver == Engine::large_spread ? 64 : 1;
    const int workers = worker_count(batch.options.threads, batch.rows.count, block);
    std::vector<std::unique_ptr<Pusher>> pushers(static_cast<std::size_t>(workers));
    const auto work = [&](int worker, RowRange range, const std::atomic<bool>& cancelled) {
        auto& pusher = pushers[static_cast<std::size_t>(worker)];
        if (!pusher)
            pusher = std::make_unique<Pusher>(batch.problem.ensemble, batch.problem.attacker,
                                              batch.options, cancelled);
        for (std::int64_t i = range.begin; i < range.end && !cancelled; ++i) {
            with_row(batch.rows, i, [&](const auto* row) {
                pusher->load(row, batch.options.seconds[static_cast<std::size_t>(i)]);
            });
            visit(*pusher, i);
            if (batch.decisions.status[i] != Status::unknown)
                batch.decisions.engine[i] = batch.options.solver;
            batch.decisions.seconds[i] = pusher->elapsed();
        }
    };
    return parallel_rows(batch.rows.count, block, workers, work, batch.watch);
}

} // namespace

bool range_rows(const Batch& batch) {
    const Objective down = Objective::output(batch.problem.ensemble, false);
    const Objective up = Objective::output(batch.problem.ensemble, true);
    const auto known = [](const Enclosure& end) { return end.upper <= next_up(end.lower); };
    return for_rows(batch, [&](Pusher& pusher, std::int64_t i) {
        Enclosure lowest = pusher.push(down, Goal::value, 0.5).least;
        const Enclosure highest = pusher.push(up, Goal::value, 1).least;
        if (!known(lowest) && pusher.has_time()) { // which the other end left over
            const Enclosure again = pusher.push(down, Goal::value, 1).least;
            lowest = {std::max(lowest.lower, again.lower), std::min(lowest.upper, again.upper)};
        }
        Decisions& d = batch.decisions;
        d.lowest_lower[i] = lowest.lower;
        d.lowest_upper[i] = lowest.upper;
        d.highest_lower[i] = -highest.upper;
        d.highest_upper[i] = -highest.lower;
        if (known(lowest) && known(highest))
            d.status[i] = Status::robust;
    });
}

bool change_rows(const Batch& batch, std::span<const double> limit) {
    const auto judge = [&](Pusher& pusher) {
        const auto ask = [&](bool rises, double share) {
            const Objective objective =
                Objective::change(batch.problem.ensemble, pusher.home(), rises, limit);
            return pusher.push(objective, Goal::decide, share).verdict;
        };
        Verdict falls = ask(false, 0.5);
        if (falls == Verdict::wins)
            return Status::fragile;
        const Verdict rises = ask(true, 1);
        if (falls == Verdict::undecided && rises == Verdict::never && pusher.has_time())
            falls = ask(false, 1);
        if (falls == Verdict::wins || rises == Verdict::wins)
            return Status::fragile;
        return falls == Verdict::never && rises == Verdict::never ? Status::robust
                                                                  : Status::unknown;
    };
    return for_rows(
        batch, [&](Pusher& pusher, std::int64_t i) { batch.decisions.status[i] = judge(pusher); });
}

} // namespace carve
