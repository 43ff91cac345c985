// The multiple-choice knapsack: take at most one option per group (tree); the options taken must
// not cost more than the capacity; gain as much as possible.
//
// Solved by its linear relaxation: with the relaxation's price (gain per cost) at hand, an option
// that loses more than the gap between the upper bound and a known solution cannot be part of a
// better one. What remains, usually a handful of groups, goes through dynamic programming over
// Pareto-optimal (cost, gain) states; in floating point, in whole numbers, or exactly.
//
// knapsack.cpp              problems and answers
// knapsack_relaxation.cpp   the relaxation, and choices made along it
// knapsack_program.cpp      the dynamic program
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "numbers/exact.hpp"
#include "running/stopwatch.hpp"

namespace carve {

struct Option {
    double cost;
    double gain; // >= 0: a difference of several outputs may be rounded to 0
    std::int32_t leaf;
};

// The exact numbers behind an option, for the few options that need them.
struct ExactOption {
    Dyadic cost;
    Dyadic gain;
};
using ExactLookup = std::function<ExactOption(int group, std::int32_t leaf)>;
// The same in whole numbers: a cost that is not above the true one, a gain that is the true one.
struct WholeOption {
    Wide cost;
    Wide gain;
};
using WholeLookup = std::function<WholeOption(int group, std::int32_t leaf)>;
// Do two leaves of one group gain exactly the same?
using SameGain = std::function<bool(std::int32_t a, std::int32_t b)>;

// How far rounded totals may be off.
struct Slack {
    double cost = 0;
    double gain = 0;
};

class Knapsack {
  public:
    // Starts a new problem. Two options of a group whose rounded costs (gains) differ by no more
    // than slack.cost (slack.gain) may be in the other order in truth: both are kept.
    void clear(Slack slack);
    // Adds a group; `options` may come in any order, and is used as scratch space. `same` is asked
    // where rounding cannot tell which of two options gains more.
    void add_group(int group, std::vector<Option>& options, const SameGain& same);

    struct Totals {
        double cost = 0;
        double gain = 0;
    };
    struct Pick {
        int group;
        std::int32_t leaf;
    };
    // The options chosen by the last call below.
    std::vector<Pick> picks;
    // The last call below ran out of time or memory: of `maximise` there is a choice within the
    // capacity, rounded; of the exact calls there is none.
    bool gave_up() const { return gave_up_; }
    // No choice within the capacity gains more than this, exactly; of the last call that maximised.
    double most_gain() const { return most_gain_; }
    // The last call of `maximise` found the choice of largest gain among all within its capacity,
    // exactly: no other comes as close to it as rounding could confuse.
    bool is_certain() const { return certain_; }

    // Largest gain at cost <= capacity, in floating point: no choice whose exact cost is within
    // `capacity` less slack gains more than most_gain().
    Totals maximise(double capacity, const Stopwatch& stopwatch);

    // The linear relaxation: the options in `picks`, and of one more group's option `last`, reached
    // from that group's pick or from nothing, a share in [0, 1). No choice at cost <= capacity
    // gains more, rounding aside.
    struct Relaxation {
        double gain = 0;
        Pick last{-1, -1};
        double share = 0;
        double price = 0; // gain per cost of that last step; 0 if all is affordable
    };
    Relaxation relaxation(double capacity);

    // Largest gain at cost <= whole_capacity, in whole numbers, whose true values are within the
    // slack of the options'; `capacity` is about the same. Returns the cost, if it comes to an end;
    // if it gives up, there is a choice within the capacity, rounded.
    std::optional<Wide> maximise_whole(double capacity, const Wide& whole_capacity,
                                       const WholeLookup& lookup, const Stopwatch& stopwatch);

    // Largest gain at cost <= exact_capacity, exactly; `capacity` is its rounded value.
    void maximise_exactly(double capacity, const Dyadic& exact_capacity, const ExactLookup& lookup,
                          const Stopwatch& stopwatch);

    struct Target {
        const Dyadic* gain = nullptr; // the smallest cost that gains so much; nullptr: all it can
        bool strict = false;          // it must gain more
    };
    // Smallest cost that reaches the target, exactly; false iff there is none at cost <=
    // exact_capacity.
    bool minimise_exactly(double capacity, const Dyadic& exact_capacity, const Target& target,
                          const ExactLookup& lookup, Dyadic& cheapest, const Stopwatch& stopwatch);

  private:
    static constexpr std::int32_t nothing = -1;

    struct Group {
        int id;
        std::int32_t begin; // options_[begin, end), by increasing cost
        std::int32_t end;
        std::int32_t best; // the option of largest gain
        bool certain;      // no other option may gain more in truth
    };
    struct Increment { // a step along the upper convex hull of one group's options
        double efficiency;
        double cost;
        double gain;
        std::int32_t group;  // position in groups_
        std::int32_t option; // where the step leads
    };
    struct Contest { // a group with more than one option left
        std::int32_t group;
        std::vector<std::int32_t> options;
        double best; // max over all options of gain - price * cost
        double smallest_loss;
    };
    template <class Number> struct State {
        Number cost;
        Number gain;
        Totals rounded;
        std::int32_t parent;
        std::int32_t option;
    };
    // States of one dynamic program: all that were kept, and the front of the last layer, which
    // has cost and gain strictly increasing.
    template <class Number> struct Program {
        std::vector<State<Number>> kept;
        std::vector<std::int32_t> front;
        // The front with one of a contest's options added to every state, in the same order.
        struct Branch {
            State<Number> taken; // the option alone
            std::size_t next;    // place in the front
            State<Number> head;  // made of what is there
        };
        std::vector<std::int32_t> last_front;
        std::vector<Branch> branches;
    };

    Totals of(std::int32_t option) const {
        if (option == nothing)
            return {};
        const Option& chosen = options_[static_cast<std::size_t>(option)];
        return {chosen.cost, chosen.gain};
    }
    bool take_all(double capacity, Totals& totals);
    void build_increments();   // in the order of groups, each group's by falling efficiency
    void collect_increments(); // all by falling efficiency
    // Upper bound on the gain at cost <= capacity; sets price_.
    double relax(double capacity);
    // Takes increments in order wherever they fit; fills choice_.
    Totals greedy(double capacity);
    Totals choice_totals() const;
    // max over a group's options (and nothing) of gain - price * cost
    double best_reduced(const Group& group) const;
    // Slack of totals made of all increments.
    Slack total_slack() const;
    // What all exact programs begin with: a bound, a floor below a known choice (which `picks`
    // then are), and what may be part of a better one; returns the floor.
    double prepare(double capacity, Slack& slack);
    // Finds what can be part of a choice of gain >= floor, given an upper bound on all gains:
    // settles groups with one option left (choice_), leaves the others to contests_.
    void reduce(double bound, double floor);
    // After it: calls visit(group's id, option) for every option of a contest and every one
    // settled.
    template <class Visit> void for_all_in_play(const Visit& visit) {
        for (std::size_t c = 0; c < contest_count_; ++c) {
            const auto group = static_cast<std::size_t>(contests_[c].group);
            choice_[group] = nothing;
            for (const std::int32_t option : contests_[c].options)
                if (option != nothing)
                    visit(groups_[group].id, option);
        }
        for (std::size_t group = 0; group < groups_.size(); ++group)
            if (choice_[group] != nothing)
                visit(groups_[group].id, choice_[group]);
    }
    // Runs the program over the contests; drops states that cost more than the capacity or cannot
    // lead to a gain >= floor.
    template <class Number, class Exact>
    void run(Program<Number>& program, double capacity, const Number& exact_capacity, double floor,
             const Exact& exact, const Stopwatch& stopwatch);
    void run_rounded(double capacity, double floor, const Stopwatch& stopwatch);
    // Over whole_options_; the state of largest gain, -1 if there is none.
    std::int32_t run_whole(double capacity, double floor, const Wide& whole_capacity,
                           const Stopwatch& stopwatch);
    template <class Number> void record_picks(const Program<Number>& program, std::int32_t state);
    void record_choice();
    struct Found {
        bool any = false;
        Totals rounded;
        Dyadic cost;
    };
    // The same with exact numbers; records the picks of what it finds.
    Found run_exactly(double capacity, double floor, const Dyadic& exact_capacity,
                      const Target& target, const ExactLookup& lookup, const Stopwatch& stopwatch);
    template <class Number>
    std::int32_t select(const Program<Number>& program, const Number* target, bool strict) const;

    Slack slack_;
    bool gave_up_ = false;
    bool certain_ = false;
    double most_gain_ = 0;
    double doubt_ = 0;    // two rounded gains that differ by no more may be in the other order
    double doubtful_ = 0; // what a choice can gain at most that was dropped in spite of `doubt_`
    std::vector<Option> options_;
    std::vector<Group> groups_;
    std::vector<Increment> increments_;
    double price_ = 0;
    std::vector<std::int32_t> choice_; // per group: an option, or nothing
    std::vector<std::uint8_t> closed_; // per group, in greedy
    std::vector<Contest> contests_;
    std::size_t contest_count_ = 0;          // contests_ keeps its memory from row to row
    std::vector<ExactOption> exact_options_; // filled in where an option is in play
    std::vector<WholeOption> whole_options_; // the same
    Program<double> rounded_program_;
    Program<Wide> wide_program_; // exact numbers that fit
    Program<Dyadic> exact_program_;
};

} // namespace carve
