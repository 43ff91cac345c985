#include "search/search.hpp"

#include <algorithm>
#include <limits>

namespace carve {

namespace {
constexpr std::int64_t unbounded = std::int64_t{1} << 60;
constexpr int root_sweeps = 60;
constexpr int node_sweeps = 12;
constexpr std::size_t strong_candidates = 12;
constexpr std::size_t snapshot_memory = 64 << 20; // bytes
} // namespace

Search::Search(const Ensemble& ensemble, const Attacker& attacker)
    : ensemble_(ensemble), attacker_(attacker), reduction_(ensemble, attacker), domain_(reduction_),
      dual_(reduction_, domain_) {}

SearchOutcome Search::run(Instance& instance, const Objective& objective, Goal goal,
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
    SearchOutcome outcome;
    outcome.has_attack = wins_;
    outcome.least = {-std::numeric_limits<double>::infinity(),
                     objective.enclose(best_total_).upper};
    if (reduction_.prune(instance, objective, !others.empty(), stopwatch) !=
        Reduction::Built::whole) {
        outcome.verdict = wins_ ? Verdict::wins : Verdict::undecided;
        return outcome;
    }
    best_ = reduction_.constant;
    for (const auto& tree : reduction_.trees)
        best_ += reduction_.leaves[tree.leaf_begin].value;
    closed_at_ = unbounded;
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
        closed_at_ = unbounded;
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

double Search::lower_bound(std::int64_t units) const {
    const double total = reduction_.fixed.lower(units);
    const double raw = total / ensemble_.average;
    return std::fma(raw, ensemble_.average, -total) > 0 ? next_down(raw) : raw;
}

bool Search::settle() {
    if (reduction_.doubt == 0)
        return true;
    const Goal goal = goal_;
    const std::int64_t closed_at = closed_at_;
    goal_ = Goal::value;
    exactly_ = true;
    // This is about the last digits: no more effort than the search itself, or than a moment.
    const auto size = static_cast<std::int64_t>(reduction_.entries.size());
    most_nodes_ = 2 * nodes_ + 64 + 20'000'000 / (size + 1000);
    const bool finished = descend(best_ + reduction_.doubt + 1);
    exactly_ = false;
    goal_ = goal;
    closed_at_ = closed_at;
    return finished;
}

void Search::perturb(double* z, std::vector<std::int32_t>& changed) const {
    changed = best_features_;
    for (std::size_t i = 0; i < changed.size(); ++i)
        z[changed[i]] = best_values_[i];
}

// ── the tree of domains ─────────────────────────────────────────────────────────────────────────

bool Search::descend(std::int64_t cutoff) {
    cutoff_ = cutoff;
    if (closes(reduction_.least)) {
        closed_at_ = std::min(closed_at_, reduction_.least);
        return true;
    }
    if (frames_.capacity() == 0)
        frames_.reserve(64);
    if (!reduction_.number(*instance_, *stopwatch_)) {
        closed_at_ = std::min(closed_at_, reduction_.least);
        return false;
    }
    domain_.reset();
    dual_.reset();
    frames_.clear();
    routed_.assign(instance_->routed, instance_->routed + ensemble_.n_features);
    at_.clear();
    for (const auto& feature : reduction_.features)
        at_.push_back(feature.home);
    node_at_.clear();
    total_at_ = reduction_.constant;
    for (const auto& tree : reduction_.trees) {
        node_at_.push_back(reduction_.leaves[tree.leaf_begin].node);
        total_at_ += reduction_.leaves[tree.leaf_begin].value;
    }
    tried_.clear();
    const std::size_t most_snapshots = snapshot_memory / (dual_.snapshot_bytes() + 1);
    std::int64_t inherited = reduction_.least;
    for (;;) {
        std::int64_t bound = inherited;
        Cut cut{};
        const Step step = explore(frames_.size(), inherited, bound, cut);
        if (step == Step::found)
            return true;
        if (step == Step::interrupted) {
            closed_at_ = std::min(closed_at_, bound);
            for (const Frame& frame : frames_)
                if (frame.has_second)
                    closed_at_ = std::min(closed_at_, frame.bound);
            return false;
        }
        if (step == Step::split) {
            const bool left_first = cut.left <= cut.right;
            const Reduction::Range left{domain_.low(cut.feature), cut.last};
            const Reduction::Range right{cut.last + 1, domain_.high(cut.feature)};
            frames_.push_back(
                {domain_.mark(), cut.feature, left_first ? right : left, true, bound});
            const std::size_t depth = frames_.size() - 1;
            if (snapshots_.size() == depth && depth < most_snapshots)
                snapshots_.emplace_back();
            if (depth < most_snapshots)
                dual_.save(snapshots_[depth]);
            const Reduction::Range first = left_first ? left : right;
            domain_.restrict(cut.feature, first.low, first.high);
            inherited = bound;
            continue;
        }
        closed_at_ = std::min(closed_at_, bound);
        while (!frames_.empty() && !frames_.back().has_second) {
            domain_.undo(frames_.back().mark);
            frames_.pop_back();
        }
        if (frames_.empty())
            return true;
        Frame& frame = frames_.back();
        domain_.undo(frame.mark);
        frame.has_second = false;
        inherited = frame.bound;
        domain_.restrict(frame.feature, frame.second.low, frame.second.high);
        if (const std::size_t depth = frames_.size() - 1; depth < most_snapshots)
            dual_.restore(snapshots_[depth]);
    }
}

Search::Step Search::explore(std::size_t depth, std::int64_t inherited, std::int64_t& bound,
                             Cut& cut) {
    ++nodes_;
    bound = inherited;
    const auto late = [this] { return stopwatch_->expired() || nodes_ > most_nodes_; };
    if (late())
        return Step::interrupted;
    if (!domain_.propagate(*stopwatch_)) {
        if (stopwatch_->expired())
            return Step::interrupted;
        bound = unbounded;
        return Step::closed;
    }
    const auto found = [this] { return goal_ == Goal::decide && wins_; };
    dual_.refresh();
    bound = std::max(bound, dual_.evaluate());
    if (closes(bound))
        return Step::closed;
    if (depth == 0 && !reduction_.has_costs()) {
        poll(trial_);
        consider(trial_, false);
        if (found())
            return Step::found;
    }
    const int sweeps = depth == 0 ? root_sweeps : node_sweeps;
    if (depth > 0)
        dual_.calm(0.1);
    std::int64_t previous = bound;
    for (int i = 0; i < sweeps; ++i) {
        dual_.reprice();
        dual_.sweep(*stopwatch_);
        bound = std::max(bound, dual_.evaluate());
        if (closes(bound))
            return Step::closed;
        trial_.clear();
        for (std::size_t f = 0; f < reduction_.features.size(); ++f)
            trial_.push_back(dual_.vote(static_cast<std::int32_t>(f)));
        if (trial_ != tried_) {
            tried_ = trial_;
            consider(trial_, depth == 0 && i % 16 == 15);
            if (found())
                return Step::found;
            if (closes(bound))
                return Step::closed;
        }
        if (stopwatch_->expired())
            return Step::interrupted;
        const int patience = depth == 0 ? 4 : 2;
        if (i >= 2 * patience && i % patience == 0) {
            if (bound - previous < (cutoff_ - bound) / 16)
                break;
            previous = bound;
        }
    }
    if (!fix_by_bound() || !domain_.propagate(*stopwatch_)) {
        if (stopwatch_->expired())
            return Step::interrupted;
        bound = std::max(bound, cutoff_);
        return Step::closed;
    }
    if (excluded_by_others()) {
        bound = std::max(bound, cutoff_ - 1);
        return Step::closed;
    }
    if (bound >= cutoff_ - reduction_.doubt * (exactly_ ? 3 : 1) && excluded_exactly()) {
        bound = std::max(bound, cutoff_ - 1);
        return Step::closed;
    }
    if (stopwatch_->expired())
        return Step::interrupted;
    if (!choose_cut(bound, cut)) {
        // One cell per feature is left.
        trial_.clear();
        for (std::size_t f = 0; f < reduction_.features.size(); ++f)
            trial_.push_back(domain_.low(static_cast<std::int32_t>(f)));
        const bool attack = reduction_.affordable(trial_, cost_of(trial_));
        bound = attack ? std::max(bound, place(trial_)) : unbounded;
        if (attack)
            keep(trial_, total_at_);
        return found() ? Step::found : Step::closed;
    }
    return Step::split;
}

// Closes what cannot be part of an attack of interest; false iff nothing is left.
bool Search::fix_by_bound() {
    const std::int64_t bound = dual_.evaluate();
    if (closes(bound))
        return false;
    bool fixed = false;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t)
        for (std::int32_t i = domain_.alive_count(t); i-- > 0;)
            if (closes(bound + dual_.loss_of_leaf(t, domain_.alive(t, i)))) {
                domain_.kill(t, i);
                fixed = true;
            }
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f) {
        std::int32_t low = domain_.low(f);
        std::int32_t high = domain_.high(f);
        while (low < high && closes(dual_.bound_of_cell(f, low)))
            ++low;
        while (low < high && closes(dual_.bound_of_cell(f, high)))
            --high;
        fixed = fixed || low > domain_.low(f) || high < domain_.high(f);
        domain_.restrict(f, low, high);
    }
    if (fixed)
        closed_at_ = std::min(closed_at_, cutoff_);
    return true;
}

// Where units are too coarse: is the exact sum of the least values alive no win, or not better than
// the best attack known?
bool Search::excluded_exactly() const {
    if (goal_ != Goal::decide && !exactly_)
        return false;
    std::vector<std::int32_t> leaves = reduction_.home;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t) {
        std::int32_t best = domain_.alive(t, 0);
        for (std::int32_t i = 1; i < domain_.alive_count(t); ++i)
            if (reduction_.leaves[domain_.alive(t, i)].rank < reduction_.leaves[best].rank)
                best = domain_.alive(t, i);
        leaves[reduction_.trees[t].id] = reduction_.leaves[best].node;
    }
    ExactSum total = objective_->total(leaves);
    if (!exactly_)
        return !objective_->wins(total.sign());
    total.subtract(best_total_);
    return total.sign() >= 0;
}

bool Search::wins_everywhere(const std::vector<std::int32_t>& leaves) const {
    return objective_->wins(objective_->total(leaves).sign()) &&
           std::ranges::all_of(others_, [&](const Objective* other) {
               return other->wins(other->total(leaves).sign());
           });
}

// Is there an objective that no choice of leaves alive brings down?
bool Search::excluded_by_others() const {
    const auto excludes = [&](const Objective* other) {
        double total = other->constant();
        for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t) {
            double least = std::numeric_limits<double>::infinity();
            for (std::int32_t i = 0; i < domain_.alive_count(t); ++i)
                least = std::min(least, other->value(reduction_.leaves[domain_.alive(t, i)].node));
            total += least;
        }
        return total > other->rounding_error();
    };
    return std::ranges::any_of(others_, excludes);
}

// ── where to cut ────────────────────────────────────────────────────────────────────────────────

// Cuts at which the trees' choices and the features' votes disagree, the most disputed first.
void Search::conflicts(std::vector<Cut>& cuts) {
    cuts.clear();
    struct Dispute {
        std::int32_t feature;
        std::int32_t last;
        double weight;
    };
    std::vector<Dispute> disputes;
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f) {
        if (domain_.low(f) == domain_.high(f))
            continue;
        const auto& feature = reduction_.features[f];
        const std::int32_t vote = std::clamp(dual_.vote(f), domain_.low(f), domain_.high(f));
        std::int32_t below = -1;            // nearest cut below the vote that a tree asks for
        std::int32_t above = feature.count; // nearest cut above it
        double weight_below = 0;
        double weight_above = 0;
        for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
            const std::int32_t s = reduction_.slots_of_feature[i];
            const auto& slot = reduction_.slots[s];
            const auto& leaf = reduction_.leaves[dual_.leaf(slot.tree)];
            const auto entry = std::find_if(reduction_.entries.begin() + leaf.entry_begin,
                                            reduction_.entries.begin() + leaf.entry_end,
                                            [&](const Reduction::Entry& e) { return e.slot == s; });
            if (entry == reduction_.entries.begin() + leaf.entry_end)
                continue;
            const Reduction::Range& range = reduction_.ranges[entry->range];
            const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
            const std::int32_t low = begin[range.low];
            const std::int32_t high =
                range.high + 1 < slot.count ? begin[range.high + 1] - 1 : feature.count - 1;
            const auto spread = static_cast<double>(reduction_.trees[slot.tree].spread);
            if (high < vote) {
                below = std::max(below, high);
                weight_below += spread;
            } else if (low > vote) {
                above = std::min(above, low - 1);
                weight_above += spread;
            }
        }
        if (weight_below > 0)
            disputes.push_back({f, below, weight_below});
        if (weight_above > 0)
            disputes.push_back({f, above, weight_above});
    }
    std::ranges::sort(disputes,
                      [](const Dispute& a, const Dispute& b) { return a.weight > b.weight; });
    for (const Dispute& dispute : disputes)
        if (dispute.last >= domain_.low(dispute.feature) &&
            dispute.last < domain_.high(dispute.feature)) {
            cuts.push_back({dispute.feature, dispute.last, 0, 0});
            if (cuts.size() == strong_candidates)
                break;
        }
}

bool Search::choose_cut(std::int64_t bound, Cut& cut) {
    dual_.refresh();
    dual_.evaluate();
    conflicts(cuts_);
    if (cuts_.empty()) {
        // No dispute, yet no decision: prefer a feature that votes to move.
        std::int32_t chosen = -1;
        for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f)
            if (domain_.low(f) < domain_.high(f) &&
                (chosen < 0 || dual_.vote(f) != reduction_.features[f].home))
                chosen = f;
        if (chosen < 0)
            return false;
        const std::int32_t vote =
            std::clamp(dual_.vote(chosen), domain_.low(chosen), domain_.high(chosen));
        cuts_.push_back({chosen, std::min(vote, domain_.high(chosen) - 1), 0, 0});
    }
    double best = -1;
    for (Cut& candidate : cuts_) {
        candidate.left =
            std::max(bound, dual_.evaluate_if(candidate.feature, domain_.low(candidate.feature),
                                              candidate.last));
        candidate.right = std::max(bound, dual_.evaluate_if(candidate.feature, candidate.last + 1,
                                                            domain_.high(candidate.feature)));
        const double gap = static_cast<double>(cutoff_ - bound);
        const double left = std::min(static_cast<double>(candidate.left - bound), gap);
        const double right = std::min(static_cast<double>(candidate.right - bound), gap);
        const double score = 5 * std::min(left, right) + std::max(left, right);
        if (score > best) {
            best = score;
            cut = candidate;
        }
    }
    return true;
}

void Search::poll(std::vector<std::int32_t>& cells) {
    cells.clear();
    std::vector<std::int64_t> votes;
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f) {
        const auto& feature = reduction_.features[f];
        votes.assign(feature.count + 1, 0); // differences of neighbours
        for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
            const std::int32_t s = reduction_.slots_of_feature[i];
            const auto& slot = reduction_.slots[s];
            const auto& tree = reduction_.trees[slot.tree];
            const auto& leaf = reduction_.leaves[dual_.leaf(slot.tree)];
            for (std::int32_t e = leaf.entry_begin; e < leaf.entry_end; ++e) {
                if (reduction_.entries[e].slot != s)
                    continue;
                const Reduction::Range& range = reduction_.ranges[reduction_.entries[e].range];
                const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
                votes[begin[range.low]] += tree.spread;
                if (range.high + 1 < slot.count)
                    votes[begin[range.high + 1]] -= tree.spread;
            }
        }
        for (std::int32_t cell = 1; cell < feature.count; ++cell)
            votes[cell] += votes[cell - 1];
        std::int32_t best = feature.home;
        for (std::int32_t cell = 0; cell < feature.count; ++cell)
            if (votes[cell] > votes[best])
                best = cell;
        cells.push_back(best);
    }
}

} // namespace carve
