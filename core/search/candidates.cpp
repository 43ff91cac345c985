// The search's candidates: cells per feature that may be an attack, made affordable and better.
#include <algorithm>
#include <limits>

#include "search/search.hpp"

namespace carve {

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

std::int64_t Search::units_of(std::int32_t node) const {
    bool exact = true;
    return reduction_.fixed.floor(objective_->exact_value(node), exact);
}

double Search::route(std::int32_t f, std::int32_t cell) const {
    const auto& feature = reduction_.features[f];
    return cell == feature.home ? instance_->routed[feature.id] : reduction_.value(feature, cell);
}

void Search::move(std::int32_t f, std::int32_t cell) {
    if (at_[f] == cell)
        return;
    at_[f] = cell;
    const auto& feature = reduction_.features[f];
    routed_[feature.id] = route(f, cell);
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const std::int32_t t = reduction_.slots[reduction_.slots_of_feature[i]].tree;
        const std::int32_t node = ensemble_.leaf_of(reduction_.trees[t].id, routed_.data());
        if (node == node_at_[t])
            continue;
        total_at_ += units_of(node) - units_of(node_at_[t]);
        node_at_[t] = node;
    }
}

// What moving the feature there would add to the total.
std::int64_t Search::effect(std::int32_t f, std::int32_t cell) {
    const auto& feature = reduction_.features[f];
    const double before = routed_[feature.id];
    routed_[feature.id] = route(f, cell);
    std::int64_t change = 0;
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const std::int32_t t = reduction_.slots[reduction_.slots_of_feature[i]].tree;
        const std::int32_t node = ensemble_.leaf_of(reduction_.trees[t].id, routed_.data());
        if (node != node_at_[t])
            change += units_of(node) - units_of(node_at_[t]);
    }
    routed_[feature.id] = before;
    return change;
}

std::int64_t Search::place(const std::vector<std::int32_t>& cells) {
    for (std::size_t f = 0; f < cells.size(); ++f)
        move(static_cast<std::int32_t>(f), cells[f]);
    return total_at_;
}

double Search::cost_of(const std::vector<std::int32_t>& cells) const {
    double cost = 0;
    for (std::size_t f = 0; f < cells.size(); ++f)
        cost += reduction_.cost[reduction_.features[f].first + cells[f]];
    return cost;
}

// Takes moves back, the least useful for their cost first, until the rest is affordable.
void Search::repair(std::vector<std::int32_t>& cells) {
    double cost = cost_of(cells);
    while (!reduction_.affordable(cells, cost)) {
        if (stopwatch_->expired()) { // home is always affordable
            for (std::size_t f = 0; f < cells.size(); ++f)
                cells[f] = reduction_.features[f].home;
            place(cells);
            return;
        }
        std::int32_t worst = -1;
        double worst_rate = std::numeric_limits<double>::infinity();
        for (std::int32_t f = 0; f < static_cast<std::int32_t>(cells.size()); ++f) {
            const auto& feature = reduction_.features[f];
            if (cells[f] == feature.home)
                continue;
            const double rate = static_cast<double>(effect(f, feature.home)) /
                                reduction_.cost[feature.first + cells[f]];
            if (worst < 0 || rate < worst_rate) {
                worst = f;
                worst_rate = rate;
            }
        }
        cells[worst] = reduction_.features[worst].home;
        move(worst, cells[worst]);
        cost = cost_of(cells);
    }
}

// Moves one feature at a time, as long as that helps.
void Search::polish(std::vector<std::int32_t>& cells) {
    double cost = cost_of(cells);
    for (int round = 0; round < 32; ++round) {
        std::int64_t best = 0;
        double best_rate = 0;
        std::int32_t best_feature = -1;
        std::int32_t best_cell = 0;
        for (std::int32_t f = 0; f < static_cast<std::int32_t>(cells.size()); ++f) {
            if (stopwatch_->expired())
                return;
            const auto& feature = reduction_.features[f];
            const double* const price = reduction_.cost.data() + feature.first;
            for (std::int32_t cell = 0; cell < feature.count; ++cell) {
                const double extra = price[cell] - price[cells[f]];
                if (cell == cells[f] || cost + extra > reduction_.capacity() - reduction_.slack())
                    continue;
                const std::int64_t change = effect(f, cell);
                if (change >= 0)
                    continue;
                const double rate = static_cast<double>(-change) / std::max(extra, 1e-3);
                if (best_feature < 0 || rate > best_rate) {
                    best = change;
                    best_rate = rate;
                    best_feature = f;
                    best_cell = cell;
                }
            }
        }
        if (best >= 0)
            break;
        cells[best_feature] = best_cell;
        move(best_feature, best_cell);
        cost = cost_of(cells);
    }
}

void Search::consider(std::vector<std::int32_t>& cells, bool thoroughly) {
    place(cells);
    repair(cells);
    keep(cells, total_at_);
    if (thoroughly && !wins_) {
        polish(cells);
        keep(cells, total_at_);
    }
}

// An affordable attack, at which the search stands.
void Search::keep(const std::vector<std::int32_t>& cells, std::int64_t total) {
    const bool may_win = goal_ == Goal::decide && !wins_ && total < need_;
    const bool may_be_better = exactly_ && total <= best_ + reduction_.doubt;
    if (total >= best_ && !may_win && !may_be_better)
        return;
    std::vector<std::int32_t> leaves = reduction_.home;
    for (std::size_t t = 0; t < reduction_.trees.size(); ++t)
        leaves[reduction_.trees[t].id] = node_at_[t];
    const ExactSum exact = objective_->total(leaves);
    const bool wins = wins_everywhere(leaves);
    if (exactly_) {
        ExactSum difference = exact;
        difference.subtract(best_total_);
        if (difference.sign() >= 0)
            return;
    } else if (wins_ ? !wins : total >= best_ && !wins) {
        return;
    }
    best_ = std::min(best_, total);
    best_total_ = exact;
    wins_ = wins_ || wins;
    best_features_.clear();
    best_values_.clear();
    for (std::size_t f = 0; f < cells.size(); ++f) {
        const auto& feature = reduction_.features[f];
        if (cells[f] == feature.home)
            continue;
        best_features_.push_back(feature.id);
        best_values_.push_back(reduction_.value(feature, cells[f]));
    }
    if (goal_ != Goal::decide && !exactly_)
        cutoff_ = std::min(cutoff_, best_);
}

} // namespace carve
