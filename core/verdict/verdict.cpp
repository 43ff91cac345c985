#include "verdict/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

Judge::Judge(const Problem& problem, Solver& solver, const Options& options)
    : problem_(problem), solver_(solver), thorough_(solver.is_thorough()),
      exact_margin_(options.exact_margin),
      goal_(options.exact_margin ? Goal::minimise : Goal::decide),
      checks_sums_(options.basic && options.grid < 0), builds_(options.witness || !thorough_),
      shows_best_(thorough_ && options.witness && !options.any_witness), rivals_(problem),
      contests_(static_cast<std::size_t>(problem.objectives.classes() - 1)) {}

Decision Judge::decide(Instance& instance, int label, const Stopwatch& stopwatch) {
    instance_ = &instance;
    stopwatch_ = &stopwatch;
    label_ = label;
    found_ = {};
    flips_ = false;
    std::ranges::fill(contests_, Contest{});
    const bool applies = solver_.load(instance);
    if (applies && thorough_)
        rivals_.list(label);
    else
        predict();
    if (applies && found_.right)
        attack_right(); // which may show that it is wrong
    if (applies && !found_.right)
        attack_wrong();
    return found_;
}

double Judge::distance() const {
    return problem_.attacker.distance(witness_.changed, instance_->x, witness_.z.data());
}

// All that can be said without an attack.
void Judge::predict() {
    rivals_.predict(*instance_, label_);
    found_.right = rivals_.right;
    found_.margin = rivals_.margin;
    // The attacker may leave the instance as it is.
    if (found_.right)
        found_.worst.upper = rivals_.around.upper;
    else
        found_.worst.lower = rivals_.around.lower;
}

Outcome Judge::attack(const Objective& against, Goal goal, const Stopwatch& limit) {
    Outcome outcome = solver_.attack(against, goal, limit);
    if (shows_best_ && goal == Goal::decide && outcome.has_attack)
        outcome = solver_.attack(against, Goal::minimise, limit);
    if (checks_sums_ && outcome.verdict != Verdict::undecided) {
        build();
        if (beats(against) != outcome.has_attack)
            throw std::logic_error("the basic and the efficient algorithm disagree");
    }
    return outcome;
}

// ── right instances ─────────────────────────────────────────────────────────────────────────────

void Judge::attack_right() {
    // Who can take over comes first: the least margin may take all of the time.
    if (!thorough_ && exact_margin_ && rivals_.size() > 1)
        attack_rivals(Goal::decide);
    attack_rivals(goal_);
    found_.worst.lower = std::ranges::min(contests_, {}, &Contest::lower).lower;
    found_.status = flips_ ? Status::fragile : any_open() ? Status::unknown : Status::robust;
}

void Judge::attack_rivals(Goal goal) {
    turns_.take(rivals_.size(), *stopwatch_, [&](std::size_t i, const Stopwatch& limit) {
        const Objective& against = objective(label_, rivals_[i].id);
        const Outcome outcome = attack(against, goal, limit);
        if (thorough_) {
            found_.margin = std::fmin(found_.margin, outcome.margin);
            found_.right = outcome.holds;
            if (!found_.right)
                return Turn::stop;
        }
        Contest& contest = contests_[i];
        contest.lower = std::max(contest.lower, outcome.least.lower);
        contest.open = contest.open && outcome.verdict == Verdict::undecided;
        const bool better = outcome.least.upper < found_.worst.upper;
        found_.worst.upper = std::min(found_.worst.upper, outcome.least.upper);
        if (outcome.has_attack) {
            flips_ = true;
            if (builds_ && (better || !found_.has_witness)) {
                build();
                keep_witness(beats(against));
            }
            if (goal == Goal::decide && !thorough_)
                return Turn::stop;
        }
        return contest.open ? Turn::open : Turn::done;
    });
}

// ── wrong instances: can one attack make the label win against every other class? ───────────────

void Judge::attack_wrong() {
    const bool single = rivals_.size() == 1;
    if (thorough_) { // what was found so far rests on the label's holding the decision
        found_.status = Status::unknown;
        found_.worst = {-infinity, infinity};
        found_.has_witness = flips_ = false;
        std::ranges::fill(contests_, Contest{});
        if (!single)
            predict();
    }
    bool impossible = false;
    int hardest = -1;
    double hardest_upper = -infinity;
    // The best attack on one of many rivals is the likeliest to beat the others, too.
    const Goal goal = thorough_ && !single ? Goal::minimise : goal_;
    turns_.take(rivals_.size(), *stopwatch_, [&](std::size_t i, const Stopwatch& limit) {
        const int rival = rivals_[i].id;
        const Objective& against = objective(rival, label_);
        const Outcome outcome = attack(against, goal, limit);
        // Each rival's best attack on its own is no more than a bound, unless there is but one.
        found_.worst.upper = std::min(found_.worst.upper, -outcome.least.lower);
        if (single)
            found_.worst.lower = std::max(found_.worst.lower, -outcome.least.upper);
        contests_[i].open = outcome.verdict == Verdict::undecided;
        impossible = impossible || outcome.verdict == Verdict::never;
        if (outcome.has_attack && !flips_) {
            const bool needed = builds_ || !single;
            if (needed)
                build();
            flips_ = single || beats_all();
            if (flips_ && needed)
                keep_witness(beats_all());
        }
        if (outcome.least.upper > hardest_upper) {
            hardest_upper = outcome.least.upper;
            hardest = rival;
        }
        if (!thorough_ && (impossible || (flips_ && !exact_margin_)))
            return Turn::stop;
        return contests_[i].open ? Turn::open : Turn::done;
    });
    if (impossible)
        found_.status = Status::vulnerable;
    else if (flips_)
        found_.status = Status::broken;
    else if (!single && !any_open() && solver_.attacks_jointly())
        attack_jointly(hardest);
}

// Every rival can be beaten, but the attacks found do not beat all at once.
void Judge::attack_jointly(int hardest) {
    others_.clear();
    for (std::size_t i = 0; i < rivals_.size(); ++i)
        if (rivals_[i].id != hardest)
            others_.push_back(&objective(rivals_[i].id, label_));
    const Objective& against = objective(hardest, label_);
    const Outcome outcome = solver_.attack_jointly(against, others_, *stopwatch_);
    if (outcome.has_attack) {
        build();
        keep_witness(beats_all());
    }
    if (outcome.verdict != Verdict::undecided)
        found_.status = outcome.has_attack ? Status::broken : Status::vulnerable;
}

bool Judge::any_open() const { return std::ranges::any_of(contests_, &Contest::open); }

// ── witnesses ───────────────────────────────────────────────────────────────────────────────────

void Judge::build() {
    const Ensemble& ensemble = problem_.ensemble;
    auto& [z, changed, leaves] = built_;
    z.assign(instance_->x, instance_->x + ensemble.n_features);
    solver_.perturb(z.data(), changed);
    routed_.assign(instance_->routed, instance_->routed + ensemble.n_features);
    for (const auto feature : changed)
        routed_[static_cast<std::size_t>(feature)] = z[static_cast<std::size_t>(feature)];
    leaves.clear();
    for (int tree = 0; tree < ensemble.n_trees(); ++tree)
        leaves.push_back(ensemble.leaf_of(tree, routed_.data()));
}

bool Judge::beats(const Objective& against) const {
    return against.wins(against.total(built_.leaves).sign());
}

bool Judge::beats_all() const {
    for (std::size_t i = 0; i < rivals_.size(); ++i)
        if (beats(objective(label_, rivals_[i].id)))
            return false;
    return true;
}

void Judge::keep_witness(bool flips) {
    const auto within = [&](std::int32_t feature) {
        return instance_->allows(feature, built_.z[static_cast<std::size_t>(feature)]);
    };
    if (!flips || !std::ranges::all_of(built_.changed, within) ||
        !problem_.attacker.affords(built_.changed, instance_->x, built_.z.data()))
        throw std::logic_error("a witness failed its own check");
    std::swap(built_, witness_);
    found_.has_witness = true;
}

} // namespace carve
