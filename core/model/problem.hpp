// What is asked about: an ensemble, an attacker, and the objectives that the ensemble gives rise
// to. Immutable; shared by all threads.
#pragma once

#include <algorithm>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"

namespace carve {

// Objectives by (class that holds, class that attacks).
class Objectives {
  public:
    explicit Objectives(const Ensemble& ensemble) : classes_(std::max(2, ensemble.n_outputs())) {
        for (int held = 0; held < classes_; ++held)
            for (int rival = 0; rival < classes_; ++rival)
                table_.push_back(ensemble.n_outputs() == 1
                                     ? Objective::binary(ensemble, held == 1)
                                     : Objective::rivals(ensemble, held, rival));
    }
    int classes() const { return classes_; }
    const Objective& operator()(int held, int rival) const {
        return table_[static_cast<std::size_t>(held * classes_ + rival)];
    }

  private:
    int classes_;
    std::vector<Objective> table_;
};

// Both must outlive the problem.
struct Problem {
    Problem(const Ensemble& e, const Attacker& a) : ensemble(e), attacker(a), objectives(e) {}
    const Ensemble& ensemble;
    const Attacker& attacker;
    const Objectives objectives;
};

} // namespace carve
