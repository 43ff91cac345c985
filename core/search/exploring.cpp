// The tree of domains: how the search walks it, and what closes a domain.
#include <algorithm>

#include "search/search.hpp"

namespace carve {

namespace {
constexpr int root_sweeps = 60;
constexpr int node_sweeps = 12;
constexpr std::size_t snapshot_memory = 64 << 20; // bytes
} // namespace

bool Search::descend(std::int64_t cutoff) {
    cutoff_ = cutoff;
    if (closes(reduction_.least)) {
        closed_at_ = std::min(closed_at_, reduction_.least);
        return true;
    }
    if (frames_.capacity() == 0)
        frames_.reserve(64);
    const auto built = reduction_.number(*instance_, *stopwatch_);
    if (built != Reduction::Built::whole) {
        too_large_ = built == Reduction::Built::too_large;
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
        bound = units::unbounded;
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
        bound = attack ? std::max(bound, place(trial_)) : units::unbounded;
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

} // namespace carve
