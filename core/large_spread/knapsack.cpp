#include "large_spread/knapsack.hpp"

#include <algorithm>

namespace carve {

void Knapsack::clear(Slack slack) {
    slack_ = slack;
    options_.clear();
    groups_.clear();
    increments_.clear();
    picks.clear();
}

void Knapsack::add_group(int group, std::vector<Option>& options, const SameGain& same) {
    if (options.size() == 1) { // as most groups have it
        const auto place = static_cast<std::int32_t>(options_.size());
        options_.push_back(options[0]);
        groups_.push_back({group, place, place + 1, place, true});
        return;
    }
    std::ranges::sort(options, [](const Option& a, const Option& b) {
        return a.cost < b.cost || (a.cost == b.cost && a.gain > b.gain);
    });
    const auto begin = static_cast<std::int32_t>(options_.size());
    std::int32_t best = begin;
    double best_gain = 0;     // among all options so far
    Option cheaper{0, 0, -1}; // of largest gain among those certainly cheaper than that at hand
    std::size_t certain = 0;
    for (const Option& option : options) {
        for (; options[certain].cost + slack_.cost < option.cost; ++certain)
            if (options[certain].gain > cheaper.gain)
                cheaper = options[certain];
        if (option.gain + slack_.gain < cheaper.gain ||
            (cheaper.leaf >= 0 && option.gain <= cheaper.gain && same(option.leaf, cheaper.leaf)))
            continue;
        if (option.gain > best_gain) {
            best_gain = option.gain;
            best = static_cast<std::int32_t>(options_.size());
        }
        options_.push_back(option);
    }
    const auto end = static_cast<std::int32_t>(options_.size());
    const Option& chosen = options_[static_cast<std::size_t>(best)];
    const bool unrivalled =
        std::all_of(options_.begin() + begin, options_.end(), [&](const auto& o) {
            return o.gain + 2 * slack_.gain < chosen.gain || o.leaf == chosen.leaf ||
                   same(o.leaf, chosen.leaf);
        });
    groups_.push_back({group, begin, end, best, unrivalled});
}

Knapsack::Totals Knapsack::maximise(double capacity, const Stopwatch& stopwatch) {
    Totals totals;
    gave_up_ = false;
    if (take_all(capacity, totals)) {
        certain_ = std::ranges::all_of(groups_, &Group::certain);
        increments_.clear();
        const double share = 16 * unit_roundoff * static_cast<double>(groups_.size() + 8);
        most_gain_ = totals.gain + share * totals.gain + slack_.gain;
        return totals;
    }
    collect_increments();
    const Slack slack = total_slack();
    const double bound = relax(capacity);
    totals = greedy(capacity);
    record_choice();
    doubt_ = 2 * slack.gain;
    // Lower than what is known to be possible by more than rounding could hide.
    const double room = 4 * (slack.gain + price_ * slack.cost);
    most_gain_ = bound + room;
    reduce(bound + room, totals.gain - room);
    run_rounded(capacity, totals.gain - room, stopwatch);
    certain_ = false;
    if (rounded_program_.front.empty() || gave_up_)
        return totals;
    const auto& front = rounded_program_.front;
    const auto gain = [&](std::int32_t state) {
        return rounded_program_.kept[static_cast<std::size_t>(state)].rounded;
    };
    const Totals found = gain(front.back());
    most_gain_ = std::min(most_gain_, std::max(found.gain, totals.gain) + room);
    if (found.gain < totals.gain)
        return totals;
    record_picks(rounded_program_, front.back());
    const bool unrivalled =
        front.size() == 1 || gain(front[front.size() - 2]).gain + doubt_ < found.gain;
    certain_ = unrivalled && doubtful_ + room < found.gain;
    return found;
}

double Knapsack::prepare(double capacity, Slack& slack) {
    collect_increments();
    slack = total_slack();
    const double bound = relax(capacity + slack.cost);
    const double certain = greedy(capacity - slack.cost).gain;
    record_choice();
    const double floor = certain - 2 * (slack.gain + price_ * slack.cost);
    most_gain_ = bound + 4 * (slack.gain + price_ * slack.cost);
    reduce(bound, floor);
    return floor;
}

std::optional<Wide> Knapsack::maximise_whole(double capacity, const Wide& whole_capacity,
                                             const WholeLookup& lookup,
                                             const Stopwatch& stopwatch) {
    Slack slack;
    const double floor = prepare(capacity, slack);
    whole_options_.resize(options_.size());
    for_all_in_play([&](int group, std::int32_t option) {
        whole_options_[static_cast<std::size_t>(option)] =
            lookup(group, options_[static_cast<std::size_t>(option)].leaf);
    });
    const std::int32_t best = run_whole(capacity + slack.cost, floor, whole_capacity, stopwatch);
    if (best < 0)
        return {};
    record_picks(wide_program_, best);
    return wide_program_.kept[static_cast<std::size_t>(best)].cost;
}

void Knapsack::maximise_exactly(double capacity, const Dyadic& exact_capacity,
                                const ExactLookup& lookup, const Stopwatch& stopwatch) {
    Slack slack;
    const double floor = prepare(capacity, slack);
    run_exactly(capacity + slack.cost, floor, exact_capacity, {}, lookup, stopwatch);
}

bool Knapsack::minimise_exactly(double capacity, const Dyadic& exact_capacity, const Target& target,
                                const ExactLookup& lookup, Dyadic& cheapest,
                                const Stopwatch& stopwatch) {
    collect_increments();
    gave_up_ = false;
    const Slack slack = total_slack();
    const double rounded_target = target.gain->to_double();
    // A whole number of steps is a choice: the first that surely reaches the target bounds the
    // cost from above, and its efficiency is the price.
    Totals filled;
    price_ = 0;
    double affordable = capacity;
    for (const Increment& step : increments_) {
        filled.cost += step.cost;
        filled.gain += step.gain;
        price_ = step.efficiency;
        if (filled.gain > rounded_target + slack.gain) {
            affordable = std::min(affordable, filled.cost);
            break;
        }
    }
    if (filled.gain < rounded_target - slack.gain)
        return false;
    affordable += slack.cost;
    double bound = price_ * affordable;
    for (const Group& group : groups_)
        bound += best_reduced(group);
    const double floor = rounded_target - 2 * (slack.gain + price_ * slack.cost);
    choice_.assign(groups_.size(), nothing);
    if (bound < floor)
        return false;
    reduce(bound, floor);
    const Found found = run_exactly(affordable, floor, exact_capacity, target, lookup, stopwatch);
    cheapest = found.cost;
    return found.any;
}

} // namespace carve
