#include "search/search.hpp"

#include <algorithm>
#include <limits>

namespace carve {

Search::Search(const Ensemble& ensemble, const Attacker& attacker)
    : ensemble_(ensemble), attacker_(attacker), reduction_(ensemble, attacker), domain_(reduction_),
      dual_(reduction_, domain_) {}

Outcome Search::run(Instance& instance, const Objective& objective, Goal goal,
                    const Stopwatch& stopwatch, const std::vector<const Objective*>& others) {
    instance_ = &instance;
    others_ = others;
    objective_ = &objective;
    stopwatch_ = &stopwatch;
    goal_ = goal;
    nodes_ = 0;
    most_nodes_ = std::numeric_limits<std::int64_t>::max();
    exactly_ = false;
    best_features_.clear();
    best_values_.clear();
    need_ = objective.tie_wins() ? 1 : 0;

    for (std::int32_t tree = 0; tree < ensemble_.n_trees(); ++tree)
        reduction_.home[tree] = ensemble_.leaf_of(tree, instance.routed);
    best_total_ = objective.total(reduction_.home);
    wins_ = wins_everywhere(reduction_.home);
    Outcome outcome;
    outcome.has_attack = wins_;
    outcome.least = {-std::numeric_limits<double>::infinity(),
                     objective.enclose(best_total_).upper};
    const auto built = reduction_.prune(instance, objective, !others.empty(), stopwatch);
    too_large_ = built == Reduction::Built::too_large;
    if (built != Reduction::Built::whole) {
        outcome.verdict = wins_ ? Verdict::wins : Verdict::undecided;
        return outcome;
    }
    best_ = reduction_.constant;
    for (const auto& tree : reduction_.trees)
        best_ += reduction_.leaves[tree.leaf_begin].value;
    closed_at_ = units::unbounded;
    // Who wins comes first, and takes little of the time that the least total takes; totals in
    // units, which are rounded down, would not tell it where they are too close to zero.
    if (goal != Goal::value) {
        goal_ = Goal::decide;
        const bool decided = wins_ || descend(need_);
        goal_ = goal;
        if (decided)
            outcome.verdict = wins_ ? Verdict::wins : Verdict::never;
    }
    // An attack that was found says nothing of better ones.
    std::int64_t lower = goal == Goal::decide && wins_ ? reduction_.least : closed_at_;
    bool finished = false;
    if (goal != Goal::decide && (goal == Goal::value || outcome.verdict != Verdict::undecided)) {
        closed_at_ = units::unbounded;
        finished = descend(best_);
        lower = closed_at_;
    }
    lower = std::min(lower, best_);
    const bool known = goal != Goal::decide && finished && settle();
    const Enclosure reached = objective.enclose(best_total_);
    outcome.least = {known ? reached.lower : std::min(reached.lower, lower_bound(lower)),
                     reached.upper};
    if (outcome.verdict == Verdict::never)
        outcome.least.lower = std::max(outcome.least.lower, 0.0);
    if (goal == Goal::value && wins_)
        outcome.verdict = Verdict::wins;
    outcome.has_attack = wins_;
    return outcome;
}

void Search::perturb(double* z, std::vector<std::int32_t>& changed) const {
    changed = best_features_;
    for (std::size_t i = 0; i < changed.size(); ++i)
        z[changed[i]] = best_values_[i];
}

} // namespace carve
