// The knapsack's linear relaxation, and choices made along it.
#include <algorithm>
#include <functional>

#include "large_spread/knapsack.hpp"

namespace carve {

bool Knapsack::take_all(double capacity, Totals& totals) {
    choice_.clear();
    for (const Group& group : groups_)
        choice_.push_back(group.best);
    totals = choice_totals();
    if (!(totals.cost <= capacity))
        return false;
    record_choice();
    return true;
}

Knapsack::Totals Knapsack::choice_totals() const {
    Totals totals;
    for (const std::int32_t option : choice_) {
        totals.cost += of(option).cost;
        totals.gain += of(option).gain;
    }
    return totals;
}

double Knapsack::best_reduced(const Group& group) const {
    double best = 0;
    for (std::int32_t o = group.begin; o < group.end; ++o)
        best = std::max(best, of(o).gain - price_ * of(o).cost);
    return best;
}

Slack Knapsack::total_slack() const {
    Totals largest;
    for (const Increment& step : increments_) {
        largest.cost += step.cost;
        largest.gain += step.gain;
    }
    const double share = 16 * unit_roundoff * static_cast<double>(increments_.size() + 8);
    return {slack_.cost + share * largest.cost, slack_.gain + share * largest.gain};
}

void Knapsack::collect_increments() {
    build_increments();
    std::ranges::sort(increments_, std::greater{}, &Increment::efficiency);
}

void Knapsack::build_increments() {
    increments_.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const auto first = increments_.size();
        for (std::int32_t o = groups_[g].begin; o < groups_[g].end; ++o) {
            if (increments_.size() > first && !(of(o).gain > of(increments_.back().option).gain))
                continue;
            // Steps less efficient than what follows them give way to it.
            for (;;) {
                const bool is_first = increments_.size() == first;
                const Totals from = is_first ? Totals{} : of(increments_.back().option);
                const double cost = of(o).cost - from.cost;
                const double gain = of(o).gain - from.gain;
                const double efficiency = gain / std::max(cost, 1e-300);
                if (is_first || increments_.back().efficiency > efficiency) {
                    increments_.push_back(
                        {efficiency, cost, gain, static_cast<std::int32_t>(g), o});
                    break;
                }
                increments_.pop_back();
            }
        }
    }
}

double Knapsack::relax(double capacity) {
    Totals filled;
    price_ = 0;
    for (const Increment& step : increments_) {
        if (filled.cost + step.cost > capacity) {
            price_ = step.efficiency;
            return filled.gain + price_ * (capacity - filled.cost);
        }
        filled.cost += step.cost;
        filled.gain += step.gain;
    }
    return filled.gain;
}

Knapsack::Relaxation Knapsack::relaxation(double capacity) {
    Relaxation found;
    Totals all;
    if (take_all(capacity, all)) {
        found.gain = all.gain;
        return found;
    }
    // A heap, not a sorted list: the budget ends long before the increments do.
    build_increments();
    std::ranges::make_heap(increments_, {}, &Increment::efficiency);
    choice_.assign(groups_.size(), nothing);
    double cost = 0;
    for (auto end = increments_.end(); end != increments_.begin(); --end) {
        std::ranges::pop_heap(increments_.begin(), end, {}, &Increment::efficiency);
        const Increment& step = *(end - 1);
        if (cost + step.cost > capacity) {
            found.share = (capacity - cost) / step.cost;
            found.price = step.efficiency;
            found.gain += found.share * step.gain;
            found.last = {groups_[static_cast<std::size_t>(step.group)].id,
                          options_[static_cast<std::size_t>(step.option)].leaf};
            break;
        }
        cost += step.cost;
        found.gain += step.gain;
        choice_[static_cast<std::size_t>(step.group)] = step.option;
    }
    record_choice();
    return found;
}

Knapsack::Totals Knapsack::greedy(double capacity) {
    // A group whose step did not fit is closed: a later step presumes the earlier one.
    choice_.assign(groups_.size(), nothing);
    closed_.assign(groups_.size(), 0);
    double cost = 0;
    for (const Increment& step : increments_) {
        const auto group = static_cast<std::size_t>(step.group);
        if (closed_[group] != 0)
            continue;
        if (cost + step.cost > capacity) {
            closed_[group] = 1;
            continue;
        }
        cost += step.cost;
        choice_[group] = step.option;
    }
    return choice_totals();
}

void Knapsack::record_choice() {
    picks.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g)
        if (choice_[g] != nothing)
            picks.push_back({groups_[g].id, options_[static_cast<std::size_t>(choice_[g])].leaf});
}

} // namespace carve
