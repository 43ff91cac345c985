// What a solver is: it attacks one objective on one instance, and says what came of it. And what
// measures the budget that an attack needs. One of either per thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "model/attacker.hpp"
#include "model/objective.hpp"
#include "running/stopwatch.hpp"

namespace carve {

enum class Goal : std::uint8_t {
    decide,   // does an attack win?
    minimise, // and how low can an attack bring the total?
    value,    // how low can an attack bring the total, whoever wins?
};

enum class Verdict : std::uint8_t { wins, never, undecided };

struct Outcome {
    // Does an attack win? With Goal::value nobody asked: not always `never` where none does.
    Verdict verdict = Verdict::undecided;
    // Of the smallest total the attacker can reach, as a raw score: an attack reaches what `upper`
    // is rounded up from. Without meaning where an attack must win against others as well.
    Enclosure least{-std::numeric_limits<double>::infinity(),
                    std::numeric_limits<double>::infinity()};
    bool has_attack = false; // one that wins; see Solver::perturb
    // From thorough solvers only:
    double margin = 0;  // the total on the instance itself, as a raw score, rounded
    bool holds = false; // the instance itself is on the objective's side
};

class Solver {
  public:
    virtual ~Solver() = default;

    // Takes up an instance, which must stay as it is while it is attacked. False: it is none for
    // this solver, and no attack may follow.
    virtual bool load(Instance& instance) = 0;
    virtual Outcome attack(const Objective& objective, Goal goal, const Stopwatch& limit) = 0;
    // Writes the best attack found last over z, which holds the instance, and lists what it
    // changes.
    virtual void perturb(double* z, std::vector<std::int32_t>& changed) = 0;

    // Thorough: by the way of every attack, it finds the margin of the instance itself, and rests
    // on a sum that needs no witness. To predict first, or to build z where nobody asks for it,
    // would take as long as the attack.
    virtual bool is_thorough() const { return false; }

    virtual bool attacks_jointly() const { return false; }
    // Is there one attack that wins against all of them?
    virtual Outcome attack_jointly(const Objective& /*objective*/,
                                   const std::vector<const Objective*>& /*others*/,
                                   const Stopwatch& /*limit*/) {
        return {};
    }
};

// No budget up to `lower` is enough, unless it is `upper`, which is. Infinite: no budget up to the
// attacker's is enough; none is known to be.
struct RadiusBounds {
    double lower = 0;
    double upper = std::numeric_limits<double>::infinity();
};

class RadiusSolver {
  public:
    virtual ~RadiusSolver() = default;

    // Takes up an instance, which must stay as it is while it is measured.
    virtual void load(const Instance& instance) = 0;
    // Improves what is known of the smallest budget that wins, as far as it matters below
    // `enough`; false iff it does not come to an end.
    virtual bool close_in(const Objective& objective, double enough, const Stopwatch& limit,
                          RadiusBounds& known) = 0;
    // Thorough: finds by the way whether the instance itself is wrong, which needs no budget.
    // Others are asked about right instances only.
    virtual bool is_thorough() const { return false; }
};

} // namespace carve
