// The verdict on one instance, whichever solver attacks: who may take over, in what order and for
// how long; what wrong instances come to; witnesses, which are checked before they are believed.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "model/problem.hpp"
#include "model/solver.hpp"
#include "running/stopwatch.hpp"
#include "running/turns.hpp"
#include "verdict/decisions.hpp"
#include "verdict/options.hpp"
#include "verdict/rivals.hpp"

namespace carve {

// What is known of one instance; the columns of `Decisions` say what the fields mean.
struct Decision {
    Status status = Status::unknown;
    bool right = true;
    double margin = std::numeric_limits<double>::quiet_NaN();
    Enclosure worst{-std::numeric_limits<double>::infinity(),
                    std::numeric_limits<double>::infinity()};
    bool has_witness = false;
};

// One per thread.
class Judge {
  public:
    // Heeds witness, exact_margin and basic of the options.
    Judge(const Problem& problem, Solver& solver, const Options& options);

    Decision decide(Instance& instance, int label, const Stopwatch& stopwatch);
    // Of the decision made last, where it has a witness.
    const std::vector<double>& witness() const { return witness_.z; }
    double distance() const;

  private:
    struct Built { // an attack as the attacker would carry it out
        std::vector<double> z;
        std::vector<std::int32_t> changed; // features
        std::vector<std::int32_t> leaves;  // per tree: where z falls
    };
    // What attacks have shown of a rival, in the order of rivals_.
    struct Contest {
        double lower = -std::numeric_limits<double>::infinity(); // of the worst margin against it
        bool open = true; // not known whether it can take over (a wrong instance: be beaten)
    };

    const Objective& objective(int held, int rival) const {
        return problem_.objectives(held, rival);
    }
    void predict();
    Outcome attack(const Objective& against, Goal goal, const Stopwatch& limit);
    void attack_right();
    void attack_rivals(Goal goal);
    void attack_wrong();
    void attack_jointly(int hardest);
    bool any_open() const;
    // Builds the attack found last.
    void build();
    // Does what was just built win against the objective?
    bool beats(const Objective& against) const;
    // Does it make the label win against every other class?
    bool beats_all() const;
    // Keeps it, if it `flips` the decision and is within reach: everything else is a mistake.
    void keep_witness(bool flips);

    const Problem& problem_;
    Solver& solver_;
    bool thorough_;
    bool exact_margin_;
    Goal goal_;        // of attacks
    bool checks_sums_; // the basic algorithm beside the efficient one
    bool builds_;      // all witnesses; else those only that a verdict rests on
    bool shows_best_;  // of witnesses
    Rivals rivals_;
    Turns turns_;

    // The instance at hand.
    Instance* instance_ = nullptr;
    const Stopwatch* stopwatch_ = nullptr;
    int label_ = 0;
    Decision found_;
    bool flips_ = false; // an attack changes the decision
    std::vector<Contest> contests_;
    Built built_;
    Built witness_;
    std::vector<double> routed_; // z as splits see it
    std::vector<const Objective*> others_;
};

} // namespace carve
