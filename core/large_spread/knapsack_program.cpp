// The knapsack's dynamic program: what may still be part of a best choice, and the Pareto-optimal
// states that are made of it; over doubles, Wide or Dyadic numbers.
#include <algorithm>
#include <limits>
#include <utility>

#include "large_spread/knapsack.hpp"

namespace carve {

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
    auto& kept = program.kept;
    auto& front = program.front;
    auto& last_front = program.last_front;
    auto& branches = program.branches;
    std::uint32_t steps = 0;
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
    using Branch = typename Program<Number>::Branch;
    bool stopped = false;
    // Makes the branch's next state that may lead to a best choice; false if there is none left.
    const auto advance = [&](Branch& branch, double rest) {
        for (; branch.next < last_front.size(); ++branch.next) {
            if (++steps % 4096 == 0 && stopwatch.expired())
                stopped = true;
            const std::int32_t parent = last_front[branch.next];
            const State<Number>& from = kept[static_cast<std::size_t>(parent)];
            const Totals sum{from.rounded.cost + branch.taken.rounded.cost,
                             from.rounded.gain + branch.taken.rounded.gain};
            if (stopped || sum.cost > capacity)
                return false; // as all that follow cost more
            if (potential(sum, rest) < floor)
                continue;
            branch.head.cost = from.cost + branch.taken.cost;
            if (exact_capacity < branch.head.cost)
                return false;
            branch.head.gain = from.gain + branch.taken.gain;
            branch.head.rounded = sum;
            branch.head.parent = parent;
            ++branch.next;
            return true;
        }
        return false;
    };
    for (std::size_t c = 0; c < contest_count_; ++c) {
        const Contest& contest = contests_[c];
        remaining -= contest.best;
        std::swap(front, last_front);
        front.clear();
        branches.clear();
        for (const std::int32_t option : contest.options) {
            branches.push_back({{Number{}, Number{}, of(option), -1, option}, 0, {}});
            Branch& branch = branches.back();
            if (option != nothing) {
                const auto& [cost, gain] = exact(option);
                branch.taken.cost = cost;
                branch.taken.gain = gain;
            }
            branch.head.option = option;
            if (!advance(branch, remaining))
                branches.pop_back();
        }
        while (!branches.empty()) {
            // The cheapest state of all branches, of those that cost the same the best.
            auto first = branches.begin();
            for (auto other = first + 1; other != branches.end(); ++other)
                if (other->head.cost < first->head.cost ||
                    (other->head.cost == first->head.cost && first->head.gain < other->head.gain))
                    first = other;
            const State<Number>& state = first->head;
            const bool is_better =
                front.empty() || kept[static_cast<std::size_t>(front.back())].gain < state.gain;
            if (is_better) {
                front.push_back(static_cast<std::int32_t>(kept.size()));
                kept.push_back(state);
            } else if (kept[static_cast<std::size_t>(front.back())].rounded.gain <=
                       state.rounded.gain + doubt_) {
                doubtful_ = std::max(doubtful_, potential(state.rounded, remaining));
            }
            if (!advance(*first, remaining))
                branches.erase(first);
            if (stopped || kept.size() > units::most_states<State<Number>>) {
                gave_up_ = true;
                return;
            }
        }
    }
    gave_up_ = stopped;
}

std::int32_t Knapsack::run_whole(double capacity, double floor, const Wide& whole_capacity,
                                 const Stopwatch& stopwatch) {
    const auto whole = [this](std::int32_t option) -> const WholeOption& {
        return whole_options_[static_cast<std::size_t>(option)];
    };
    run<Wide>(wide_program_, capacity, whole_capacity, floor, whole, stopwatch);
    return gave_up_ || wide_program_.front.empty() ? -1 : wide_program_.front.back();
}

void Knapsack::run_rounded(double capacity, double floor, const Stopwatch& stopwatch) {
    const auto rounded = [this](std::int32_t option) { return of(option); };
    run<double>(rounded_program_, capacity, capacity, floor, rounded, stopwatch);
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
template void Knapsack::record_picks(const Program<double>& program, std::int32_t state);
template void Knapsack::record_picks(const Program<Wide>& program, std::int32_t state);

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
                                      const Target& target, const ExactLookup& lookup,
                                      const Stopwatch& stopwatch) {
    // Look up what is in play, and bring all costs, and all gains, to one exponent.
    exact_options_.resize(options_.size());
    std::vector<std::int32_t> in_play;
    int cost_exponent = exact_capacity.exponent();
    int gain_exponent =
        target.gain != nullptr ? target.gain->exponent() : std::numeric_limits<int>::max();
    for_all_in_play([&](int group, std::int32_t option) {
        ExactOption& exact = exact_options_[static_cast<std::size_t>(option)];
        exact = lookup(group, options_[static_cast<std::size_t>(option)].leaf);
        cost_exponent = std::min(cost_exponent, exact.cost.exponent());
        gain_exponent = std::min(gain_exponent, exact.gain.exponent());
        in_play.push_back(option);
    });
    const Dyadic limit = exact_capacity.with_exponent(cost_exponent);
    const Dyadic goal =
        target.gain != nullptr ? target.gain->with_exponent(gain_exponent) : Dyadic{};
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
        const std::int32_t state = gave_up_ ? -1 : select(program, wanted, target.strict);
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
    const auto fits = [](const Dyadic& number) {
        return number.mantissa().bit_length() <= units::wide_bits;
    };
    if (fits(all_costs) && fits(all_gains) && fits(limit)) {
        const auto wide = [](const Dyadic& number) { return number.mantissa().low_bits(); };
        const Wide wide_goal = wide(goal);
        run<Wide>(
            wide_program_, capacity, wide(limit), floor,
            [&](std::int32_t option) {
                const ExactOption& exact = exact_options_[static_cast<std::size_t>(option)];
                return std::pair{wide(exact.cost), wide(exact.gain)};
            },
            stopwatch);
        return finish(wide_program_, target.gain != nullptr ? &wide_goal : nullptr);
    }
    run<Dyadic>(
        exact_program_, capacity, limit, floor,
        [this](std::int32_t option) -> const ExactOption& {
            return exact_options_[static_cast<std::size_t>(option)];
        },
        stopwatch);
    return finish(exact_program_, target.gain != nullptr ? &goal : nullptr);
}

} // namespace carve
