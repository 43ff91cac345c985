// What the search settles beyond its units: exact totals, other objectives, and the answer as a raw
// score.
#include <algorithm>
#include <cmath>
#include <limits>

#include "search/search.hpp"

namespace carve {

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

} // namespace carve
