#include "large_spread/knapsack.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace carve {

void Knapsack::clear(Slack slack) {
    slack_ = slack;
    options_.clear();
    groups_.clear();
    increments_.clear();
    picks.clear();
}

void Knapsack::add_group(int group, std::vector<Option>& options, const SameGain& same) {
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

void Knapsack::reduce(double bound, double floor) {
    const double gap = bound - floor;
    contest_count_ = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const double best = best_reduced(groups_[g]);
        if (contests_.size() == contest_count_)
            contests_.emplace_back();
        Contest& contest = contests_[contest_count_];
        contest.group = static_cast<std::int32_t>(g);
        contest.best = best;
        contest.options.clear();
        contest.smallest_loss = std::numeric_limits<double>::infinity();
        const auto consider = [&](std::int32_t option) {
            const Totals totals = of(option);
            const double loss = best - (totals.gain - price_ * totals.cost);
            if (loss > gap)
                return;
            contest.options.push_back(option);
            if (loss > 0)
                contest.smallest_loss = std::min(contest.smallest_loss, loss);
        };
        consider(nothing);
        for (std::int32_t o = groups_[g].begin; o < groups_[g].end; ++o)
            consider(o);
        if (contest.options.size() == 1)
            choice_[g] = contest.options[0];
        else
            ++contest_count_;
    }
    // Contests in which a second choice is expensive come first: they prune best.
    std::sort(contests_.begin(), contests_.begin() + static_cast<std::ptrdiff_t>(contest_count_),
              [](const Contest& a, const Contest& b) { return a.smallest_loss > b.smallest_loss; });
}

template <class Number, class Exact>
void Knapsack::run(Program<Number>& program, double capacity, const Number& exact_capacity,
                   double floor, const Exact& exact, const Stopwatch& stopwatch) {
    auto& [kept, front, candidates, order] = program;
    std::uint32_t steps = 0;
    const auto late = [&] { return ++steps % 4096 == 0 && stopwatch.expired(); };
    struct Late {};
    gave_up_ = false;
    doubtful_ = -std::numeric_limits<double>::infinity();
    kept.clear();
    State<Number> start{Number{}, Number{}, {}, -1, nothing};
    double remaining = 0;
    for (std::size_t c = 0; c < contest_count_; ++c) {
        choice_[static_cast<std::size_t>(contests_[c].group)] = nothing;
        remaining += contests_[c].best;
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (choice_[g] == nothing)
            continue;
        const auto& [cost, gain] = exact(choice_[g]);
        start.cost = start.cost + cost;
        start.gain = start.gain + gain;
        start.rounded.cost += of(choice_[g]).cost;
        start.rounded.gain += of(choice_[g]).gain;
    }
    front.clear();
    if (start.cost <= exact_capacity) {
        kept.push_back(start);
        front.push_back(0);
    }
    // What a choice that begins like this can gain at most.
    const auto potential = [&](const Totals& begun, double rest) {
        return begun.gain + price_ * (capacity - begun.cost) + rest;
    };
    for (std::size_t c = 0; c < contest_count_; ++c) {
        const Contest& contest = contests_[c];
        remaining -= contest.best;
        candidates.clear();
        for (const std::int32_t option : contest.options) {
            const Totals rounded = of(option);
            State<Number> taken{Number{}, Number{}, rounded, -1, option};
            if (option != nothing) {
                const auto& [cost, gain] = exact(option);
                taken.cost = cost;
                taken.gain = gain;
            }
            for (const std::int32_t parent : front) {
                if (late() ||
                    kept.size() + candidates.size() > most_memory / sizeof(State<Number>)) {
                    gave_up_ = true;
                    return;
                }
                const State<Number>& from = kept[static_cast<std::size_t>(parent)];
                const Totals sum{from.rounded.cost + rounded.cost,
                                 from.rounded.gain + rounded.gain};
                if (sum.cost > capacity)
                    break;
                if (potential(sum, remaining) < floor)
                    continue;
                State<Number> state{from.cost + taken.cost, from.gain + taken.gain, sum, parent,
                                    option};
                if (!(exact_capacity < state.cost))
                    candidates.push_back(std::move(state));
            }
        }
        order.resize(candidates.size());
        std::iota(order.begin(), order.end(), 0);
        try { // a million states take a second to sort
            std::ranges::sort(order, [&](std::int32_t i, std::int32_t j) {
                if (late())
                    throw Late{};
                const auto& a = candidates[static_cast<std::size_t>(i)];
                const auto& b = candidates[static_cast<std::size_t>(j)];
                return a.cost < b.cost || (a.cost == b.cost && b.gain < a.gain);
            });
        } catch (const Late&) {
            gave_up_ = true;
            return;
        }
        front.clear();
        for (const std::int32_t index : order) {
            auto& state = candidates[static_cast<std::size_t>(index)];
            if (!front.empty()) {
                const auto& last = kept[static_cast<std::size_t>(front.back())];
                if (!(last.gain < state.gain)) {
                    if (last.rounded.gain <= state.rounded.gain + doubt_)
                        doubtful_ = std::max(doubtful_, potential(state.rounded, remaining));
                    continue;
                }
            }
            front.push_back(static_cast<std::int32_t>(kept.size()));
            kept.push_back(std::move(state));
        }
    }
}

template <class Number>
void Knapsack::record_picks(const Program<Number>& program, std::int32_t state) {
    for (std::size_t c = contest_count_; c-- > 0;) {
        const auto& here = program.kept[static_cast<std::size_t>(state)];
        choice_[static_cast<std::size_t>(contests_[c].group)] = here.option;
        state = here.parent;
    }
    record_choice();
}

void Knapsack::record_choice() {
    picks.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g)
        if (choice_[g] != nothing)
            picks.push_back({groups_[g].id, options_[static_cast<std::size_t>(choice_[g])].leaf});
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
    const auto rounded = [this](std::int32_t option) { return of(option); };
    run<double>(rounded_program_, capacity, capacity, totals.gain - room, rounded, stopwatch);
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

template <class Number>
std::int32_t Knapsack::select(const Program<Number>& program, const Number* target,
                              bool strict) const {
    if (program.front.empty())
        return -1;
    if (target == nullptr)
        return program.front.back();
    for (const std::int32_t index : program.front) {
        const Number& gain = program.kept[static_cast<std::size_t>(index)].gain;
        if (*target < gain || (!strict && *target == gain))
            return index;
    }
    return -1;
}

Knapsack::Found Knapsack::run_exactly(double capacity, double floor, const Dyadic& exact_capacity,
                                      const Dyadic* target, bool strict, const ExactLookup& lookup,
                                      const Stopwatch& stopwatch) {
    // Look up what is in play, and bring all costs, and all gains, to one exponent.
    exact_options_.resize(options_.size());
    std::vector<std::int32_t> in_play;
    int cost_exponent = exact_capacity.exponent();
    int gain_exponent = target != nullptr ? target->exponent() : std::numeric_limits<int>::max();
    const auto look_up = [&](std::size_t group, std::int32_t option) {
        if (option == nothing)
            return;
        ExactOption& exact = exact_options_[static_cast<std::size_t>(option)];
        exact = lookup(groups_[group].id, options_[static_cast<std::size_t>(option)].leaf);
        cost_exponent = std::min(cost_exponent, exact.cost.exponent());
        gain_exponent = std::min(gain_exponent, exact.gain.exponent());
        in_play.push_back(option);
    };
    for (std::size_t c = 0; c < contest_count_; ++c) {
        const auto group = static_cast<std::size_t>(contests_[c].group);
        choice_[group] = nothing;
        for (const std::int32_t option : contests_[c].options)
            look_up(group, option);
    }
    for (std::size_t g = 0; g < groups_.size(); ++g)
        look_up(g, choice_[g]);
    const Dyadic limit = exact_capacity.with_exponent(cost_exponent);
    const Dyadic goal = target != nullptr ? target->with_exponent(gain_exponent) : Dyadic{};
    Dyadic all_costs;
    Dyadic all_gains = goal;
    for (const std::int32_t option : in_play) {
        auto& [cost, gain] = exact_options_[static_cast<std::size_t>(option)];
        cost = cost.with_exponent(cost_exponent);
        gain = gain.with_exponent(gain_exponent);
        all_costs = all_costs + cost;
        all_gains = all_gains + gain;
    }

    const auto finish = [&]<class Number>(Program<Number>& program, const Number* wanted) {
        Found found;
        const std::int32_t state = gave_up_ ? -1 : select(program, wanted, strict);
        picks.clear();
        if (state >= 0) {
            found.any = true;
            found.rounded = program.kept[static_cast<std::size_t>(state)].rounded;
            record_picks(program, state);
            for (const std::int32_t option : choice_)
                if (option != nothing)
                    found.cost = found.cost + exact_options_[static_cast<std::size_t>(option)].cost;
        }
        return found;
    };
    const auto fits = [](const Dyadic& number) { return number.mantissa().bit_length() <= 127; };
    if (fits(all_costs) && fits(all_gains) && fits(limit)) {
        using Wide = unsigned __int128;
        const auto wide = [](const Dyadic& number) { return number.mantissa().low_bits(); };
        const Wide wide_goal = wide(goal);
        run<Wide>(
            wide_program_, capacity, wide(limit), floor,
            [&](std::int32_t option) {
                const ExactOption& exact = exact_options_[static_cast<std::size_t>(option)];
                return std::pair{wide(exact.cost), wide(exact.gain)};
            },
            stopwatch);
        return finish(wide_program_, target != nullptr ? &wide_goal : nullptr);
    }
    run<Dyadic>(
        exact_program_, capacity, limit, floor,
        [this](std::int32_t option) -> const ExactOption& {
            return exact_options_[static_cast<std::size_t>(option)];
        },
        stopwatch);
    return finish(exact_program_, target != nullptr ? &goal : nullptr);
}

void Knapsack::maximise_exactly(double capacity, const Dyadic& exact_capacity,
                                const ExactLookup& lookup, const Stopwatch& stopwatch) {
    collect_increments();
    const Slack slack = total_slack();
    const double bound = relax(capacity + slack.cost);
    const double certain = greedy(capacity - slack.cost).gain;
    const double floor = certain - 2 * (slack.gain + price_ * slack.cost);
    most_gain_ = bound + 4 * (slack.gain + price_ * slack.cost);
    reduce(bound, floor);
    run_exactly(capacity + slack.cost, floor, exact_capacity, nullptr, false, lookup, stopwatch);
}

bool Knapsack::minimise_exactly(double capacity, const Dyadic& exact_capacity, const Dyadic& target,
                                bool strict, const ExactLookup& lookup, Dyadic& cheapest,
                                const Stopwatch& stopwatch) {
    collect_increments();
    gave_up_ = false;
    const Slack slack = total_slack();
    const double rounded_target = target.to_double();
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
    const Found found =
        run_exactly(affordable, floor, exact_capacity, &target, strict, lookup, stopwatch);
    cheapest = found.cost;
    return found.any;
}

} // namespace carve
