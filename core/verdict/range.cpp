#include "verdict/range.hpp"

#include <algorithm>
#include <limits>

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_known(const Enclosure& end) { return end.upper <= next_up(end.lower); }

} // namespace

RangeFinder::RangeFinder(const Problem& problem, Solver& solver)
    : ensemble_(problem.ensemble), solver_(solver),
      ends_{Objective::output(problem.ensemble, false), Objective::output(problem.ensemble, true)},
      home_(static_cast<std::size_t>(problem.ensemble.n_trees())) {}

void RangeFinder::predict(const Instance& instance) {
    for (std::size_t tree = 0; tree < home_.size(); ++tree)
        home_[tree] = ensemble_.leaf_of(static_cast<int>(tree), instance.routed);
}

Range RangeFinder::range(Instance& instance, const Stopwatch& stopwatch) {
    const bool applies = solver_.load(instance);
    Enclosure least[2] = {{-infinity, infinity}, {-infinity, infinity}};
    if (!applies || !solver_.is_thorough()) { // the attacker may leave the instance as it is
        predict(instance);
        for (std::size_t end = 0; end < 2; ++end)
            least[end].upper = ends_[end].enclose(ends_[end].total(home_)).upper;
    }
    if (applies)
        turns_.take(2, stopwatch, [&](std::size_t end, const Stopwatch& limit) {
            const Outcome outcome = solver_.attack(ends_[end], Goal::value, limit);
            least[end].lower = std::max(outcome.least.lower, least[end].lower);
            least[end].upper = std::min(outcome.least.upper, least[end].upper);
            return is_known(least[end]) ? Turn::done : Turn::open;
        });
    return {least[0], {-least[1].upper, -least[1].lower}, is_known(least[0]) && is_known(least[1])};
}

Status RangeFinder::stays_within(Instance& instance, std::span<const double> limit,
                                 const Stopwatch& stopwatch) {
    if (!solver_.load(instance))
        return Status::unknown;
    predict(instance);
    Verdict found[2] = {Verdict::undecided, Verdict::undecided}; // does it fall, rise by more?
    turns_.take(2, stopwatch, [&](std::size_t end, const Stopwatch& time) {
        const Objective objective = Objective::change(ensemble_, home_, end == 1, limit);
        found[end] = solver_.attack(objective, Goal::decide, time).verdict;
        return found[end] == Verdict::wins        ? Turn::stop
               : found[end] == Verdict::undecided ? Turn::open
                                                  : Turn::done;
    });
    if (std::ranges::count(found, Verdict::wins) > 0)
        return Status::fragile;
    return std::ranges::count(found, Verdict::never) == 2 ? Status::robust : Status::unknown;
}

} // namespace carve
