#include "search/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace carve {

Search::Search(const Ensemble& ensemble, const Attacker& attacker)
    : ensemble_(ensemble), reduction_(ensemble, attacker), aim_(ensemble, reduction_),
      descent_(reduction_, aim_) {}

Outcome Search::run(Instance& instance, const Objective& objective, Goal goal,
                    const Stopwatch& stopwatch, const std::vector<const Objective*>& others) {
    for (std::int32_t tree = 0; tree < ensemble_.n_trees(); ++tree)
        reduction_.home[tree] = ensemble_.leaf_of(tree, instance.routed);
    aim_.set(instance, objective, goal, stopwatch, others);
    Outcome outcome;
    outcome.has_attack = aim_.wins;
    outcome.least = {-std::numeric_limits<double>::infinity(),
                     objective.enclose(aim_.best_total).upper};
    const auto built = reduction_.prune(instance, objective, !others.empty(), stopwatch);
    too_large_ = built == Reduction::Built::too_large;
    if (built != Reduction::Built::whole || (!others.empty() && !turn_to_rivals())) {
        outcome.verdict = aim_.wins ? Verdict::wins : Verdict::undecided;
        return outcome;
    }
    aim_.best = reduction_.total_of(reduction_.home);
    aim_.closed_at = units::unbounded;
    // Who wins comes first, and takes little of the time that the least total takes; totals in
    // units, which are rounded down, would not tell it where they are too close to zero.
    if (goal != Goal::value) {
        aim_.goal = Goal::decide;
        const bool decided = aim_.wins || descend(aim_.need);
        aim_.goal = goal;
        if (decided)
            outcome.verdict = aim_.wins ? Verdict::wins : Verdict::never;
    }
    // An attack that was found says nothing of better ones.
    std::int64_t lower = goal == Goal::decide && aim_.wins ? reduction_.least : aim_.closed_at;
    bool finished = false;
    if (goal != Goal::decide && (goal == Goal::value || outcome.verdict != Verdict::undecided)) {
        aim_.closed_at = units::unbounded;
        finished = descend(aim_.best);
        lower = aim_.closed_at;
    }
    lower = std::min(lower, aim_.best);
    const bool known = goal != Goal::decide && finished && settle();
    const Enclosure reached = objective.enclose(aim_.best_total);
    outcome.least = {known ? reached.lower : std::min(reached.lower, lower_bound(lower)),
                     reached.upper};
    if (!others.empty()) // what is known of a mean says nothing of one of them
        outcome.least.lower = -std::numeric_limits<double>::infinity();
    else if (outcome.verdict == Verdict::never)
        outcome.least.lower = std::max(outcome.least.lower, 0.0);
    if (goal == Goal::value && aim_.wins)
        outcome.verdict = Verdict::wins;
    outcome.has_attack = aim_.wins;
    return outcome;
}

bool Search::turn_to_rivals() {
    constexpr int rounds = 12;
    Blend blend(aim_.rivals, reduction_, *aim_.stopwatch);
    const auto turn = [&](const Blend& to) {
        const auto turned = reduction_.turn_to(to, *aim_.stopwatch);
        too_large_ = turned == Reduction::Built::too_large;
        aim_.need = to.tie_wins() ? 1 : 0;
        return turned == Reduction::Built::whole;
    };
    if (!turn(blend))
        return false;
    if (reduction_.least >= aim_.need ||
        reduction_.number(*aim_.instance, *aim_.stopwatch) != Reduction::Built::whole)
        return true; // descend says what that means
    descent_.prepare();
    Blend best = blend;
    std::int64_t best_bound = -units::unbounded;
    std::vector<std::int32_t> leaves;
    for (int round = 0; round < rounds && !aim_.stopwatch->expired(); ++round) {
        const std::int64_t bound = descent_.improve(leaves);
        if (bound > best_bound) {
            best_bound = bound;
            best = blend;
        }
        if (bound >= aim_.need)
            break;
        blend.lean(leaves, 0.5);
        if (!turn(blend))
            return false;
    }
    return turn(best);
}

bool Search::descend(std::int64_t cutoff) {
    aim_.cutoff = cutoff;
    if (aim_.closes(reduction_.least)) {
        aim_.close_at(reduction_.least);
        return true;
    }
    const auto built = reduction_.number(*aim_.instance, *aim_.stopwatch);
    if (built != Reduction::Built::whole) {
        too_large_ = built == Reduction::Built::too_large;
        aim_.close_at(reduction_.least);
        return false;
    }
    aim_.cutoff = reduction_.total_below(cutoff) + 1;
    if (aim_.rivals.empty())
        descent_.prepare();
    const bool finished = descent_.run(reduction_.least);
    if (aim_.closed_at < units::unbounded)
        aim_.closed_at = reduction_.total_from(aim_.closed_at);
    return finished;
}

bool Search::settle() {
    if (!reduction_.is_rounded) // totals differ from those in units by the same
        return true;
    const Goal goal = aim_.goal;
    const std::int64_t closed_at = aim_.closed_at;
    aim_.goal = Goal::value;
    aim_.exactly = true;
    // This is about the last digits: no more effort than the search itself, or than a moment.
    const auto size = static_cast<std::int64_t>(reduction_.entries.size());
    aim_.most_nodes = 2 * aim_.nodes + 64 + 20'000'000 / (size + 1000);
    const bool finished = descend(aim_.best + reduction_.doubt + 1);
    aim_.exactly = false;
    aim_.goal = goal;
    aim_.closed_at = closed_at;
    return finished;
}

double Search::lower_bound(std::int64_t units) const {
    const double total = reduction_.fixed.lower(units);
    const double raw = total / ensemble_.average;
    return std::fma(raw, ensemble_.average, -total) > 0 ? next_down(raw) : raw;
}

void Search::perturb(double* z, std::vector<std::int32_t>& changed) const {
    changed = aim_.best_features;
    for (std::size_t i = 0; i < changed.size(); ++i)
        z[changed[i]] = aim_.best_values[i];
}

} // namespace carve
