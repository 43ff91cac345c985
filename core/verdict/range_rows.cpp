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
    Pusher(const Ensemble& ensemble, const Attacker& attacker, const RangeOptions& options,
           const std::atomic<bool>& cancelled)
        : ensemble_(ensemble), options_(options), cancelled_(cancelled),
          solver_(ensemble, attacker, -1, options.seconds, cancelled),
          instance_(ensemble, attacker), search_(ensemble, attacker),
          home_(static_cast<std::size_t>(ensemble.n_trees())) {}

    template <class Number> void load(const Number* row) {
        started_ = Stopwatch(options_.seconds, cancelled_);
        solver_.load(row);
        instance_.load(row);
        for (int tree = 0; tree < ensemble_.n_trees(); ++tree)
            home_[static_cast<std::size_t>(tree)] = ensemble_.leaf_of(tree, instance_.routed);
        large_spread_ =
            options_.large_spread || (options_.per_instance && solver_.is_large_spread());
    }
    const std::vector<std::int32_t>& home() const { return home_; }

    // May take `share` of the time that is left.
    SearchOutcome push(const Objective& objective, Goal goal, double share) {
        const Stopwatch limit = started_.within(share * started_.left());
        SearchOutcome outcome;
        outcome.least = {-infinity, objective.enclose(objective.total(home_)).upper};
        if (large_spread_) {
            solver_.limit(options_.search ? limit.within(limit.left() / 2) : limit);
            const Outcome found = solver_.attack(objective);
            outcome.least = found.worst;
            if (found.is_best || (found.decided && goal == Goal::decide)) {
                outcome.verdict = found.wins ? Verdict::wins : Verdict::never;
                return outcome;
            }
        }
        if (!options_.search)
            return outcome;
        SearchOutcome found = search_.run(instance_, objective, goal, limit);
        found.least.lower = std::max(found.least.lower, outcome.least.lower);
        found.least.upper = std::min(found.least.upper, outcome.least.upper);
        return found;
    }

    // Is there enough time for another attempt to get further than one with half of it?
    bool has_time() const { return started_.left() > 0.3 * options_.seconds; }

  private:
    const Ensemble& ensemble_;
    RangeOptions options_;
    const std::atomic<bool>& cancelled_;
    Stopwatch started_{infinity, cancelled_};
    LargeSpreadSolver solver_;
    Instance instance_;
    Search search_;
    std::vector<std::int32_t> home_;
    bool large_spread_ = false;
};

// Calls visit(pusher, row number) for every row, a pusher per thread.
template <class Visit>
bool for_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
              const RangeOptions& options, int threads, const TickFunction& tick, Visit&& visit) {
    const std::int64_t block = options.large_spread ? 64 : 1;
    const int workers = worker_count(threads, rows.count, block);
    std::vector<std::unique_ptr<Pusher>> pushers(static_cast<std::size_t>(workers));
    const auto work = [&](int worker, std::int64_t begin, std::int64_t end,
                          const std::atomic<bool>& cancelled) {
        auto& pusher = pushers[static_cast<std::size_t>(worker)];
        if (!pusher)
            pusher = std::make_unique<Pusher>(ensemble, attacker, options, cancelled);
        for (std::int64_t i = begin; i < end && !cancelled; ++i) {
            with_row(rows, i, [&](const auto* row) { pusher->load(row); });
            visit(*pusher, i);
        }
    };
    return parallel_rows(rows.count, block, workers, work, tick);
}

} // namespace

bool range_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                const RangeOptions& options, RangeOutput output, int threads,
                const TickFunction& tick) {
    const Objective down = Objective::output(ensemble, false);
    const Objective up = Objective::output(ensemble, true);
    const auto known = [](const Enclosure& end) { return end.upper <= next_up(end.lower); };
    return for_rows(
        ensemble, attacker, rows, options, threads, tick, [&](Pusher& pusher, std::int64_t i) {
            Enclosure lowest = pusher.push(down, Goal::value, 0.5).least;
            const Enclosure highest = pusher.push(up, Goal::value, 1).least;
            if (!known(lowest) && pusher.has_time()) { // which the other end left over
                const Enclosure again = pusher.push(down, Goal::value, 1).least;
                lowest = {std::max(lowest.lower, again.lower), std::min(lowest.upper, again.upper)};
            }
            output.lowest_lower[i] = lowest.lower;
            output.lowest_upper[i] = lowest.upper;
            output.highest_lower[i] = -highest.upper;
            output.highest_upper[i] = -highest.lower;
        });
}

bool change_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                 std::span<const double> limit, const RangeOptions& options, std::uint8_t* answer,
                 int threads, const TickFunction& tick) {
    const auto judge = [&](Pusher& pusher) {
        const auto ask = [&](bool rises, double share) {
            const Objective objective = Objective::change(ensemble, pusher.home(), rises, limit);
            return pusher.push(objective, Goal::decide, share).verdict;
        };
        Verdict falls = ask(false, 0.5);
        if (falls == Verdict::wins)
            return Answer::fails;
        const Verdict rises = ask(true, 1);
        if (falls == Verdict::undecided && rises == Verdict::never && pusher.has_time())
            falls = ask(false, 1);
        if (falls == Verdict::wins || rises == Verdict::wins)
            return Answer::fails;
        return falls == Verdict::never && rises == Verdict::never ? Answer::holds : Answer::unknown;
    };
    return for_rows(ensemble, attacker, rows, options, threads, tick,
                    [&](Pusher& pusher, std::int64_t i) {
                        answer[i] = static_cast<std::uint8_t>(judge(pusher));
                    });
}

} // namespace carve
