// Any ensemble: relax, conflict, branch. The best attack on one instance by branch and bound.
//
// A domain is bounded from below by the dual (each tree and feature chooses for itself, agreement
// is priced); what the bound closes is done, what the choices agree on is a candidate attack, and
// where they disagree the domain is cut in two. Depth first; memory grows with the depth only.
//
// search.cpp       one question, from the instance to the answer
// exploring.cpp    the tree of domains, and what closes one
// cutting.cpp      where a domain is cut
// candidates.cpp   attacks to try
// settling.cpp     what units are too coarse for: exact totals, other objectives
#pragma once

#include <cstdint>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "model/solver.hpp"
#include "running/stopwatch.hpp"
#include "search/domain.hpp"
#include "search/dual.hpp"
#include "search/reduction.hpp"

namespace carve {

class Search {
  public:
    Search(const Ensemble& ensemble, const Attacker& attacker);

    // With `others`, an attack must win against all of them as well to count (Goal::decide only).
    Outcome run(Instance& instance, const Objective& objective, Goal goal,
                const Stopwatch& stopwatch, const std::vector<const Objective*>& others = {});
    // Writes the best attack found over z, which holds the instance, and lists what it changes.
    void perturb(double* z, std::vector<std::int32_t>& changed) const;
    std::int64_t nodes() const { return nodes_; }
    // Was the last run given up for the size of what is in reach, not for time?
    bool too_large() const { return too_large_; }

  private:
    struct Frame {
        Domain::Mark mark; // before the cut
        std::int32_t feature;
        Reduction::Range second; // cells of the child yet to come
        bool has_second;
        std::int64_t bound;
    };
    struct Cut {
        std::int32_t feature;
        std::int32_t last; // cells up to this one go left
        std::int64_t left; // bounds of the children
        std::int64_t right;
    };
    enum class Step { closed, split, found, interrupted };

    bool closes(std::int64_t bound) const { return bound >= cutoff_; }
    Step explore(std::size_t depth, std::int64_t inherited, std::int64_t& bound, Cut& cut);
    // The search proper, for attacks whose total is below the cutoff; false iff interrupted.
    bool descend(std::int64_t cutoff);
    // Search again, for attacks that units are too coarse to tell from the best; true iff the best
    // is the best in truth.
    bool settle();
    double lower_bound(std::int64_t units) const; // as a raw score
    bool fix_by_bound();
    bool excluded_exactly() const;
    bool excluded_by_others() const;
    bool wins_everywhere(const std::vector<std::int32_t>& leaves) const;
    bool choose_cut(std::int64_t bound, Cut& cut);
    void conflicts(std::vector<Cut>& cuts);
    // Per feature, the cell that the trees' own choices ask for most, as far as that pays.
    void poll(std::vector<std::int32_t>& cells);

    // Candidates: cells per feature.
    // Tries them, with moves taken back until the rest is affordable.
    void consider(std::vector<std::int32_t>& cells, bool thoroughly);
    std::int64_t place(const std::vector<std::int32_t>& cells);
    void move(std::int32_t feature, std::int32_t cell);
    std::int64_t effect(std::int32_t feature, std::int32_t cell);
    double cost_of(const std::vector<std::int32_t>& cells) const;
    void repair(std::vector<std::int32_t>& cells);
    void polish(std::vector<std::int32_t>& cells);
    std::int64_t units_of(std::int32_t node) const; // the leaf's value
    void keep(const std::vector<std::int32_t>& cells, std::int64_t total);
    double route(std::int32_t feature, std::int32_t cell) const;

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    Reduction reduction_;
    Domain domain_;
    Dual dual_;
    const Instance* instance_ = nullptr;
    const Objective* objective_ = nullptr;
    const Stopwatch* stopwatch_ = nullptr;
    std::vector<const Objective*> others_;
    Goal goal_ = Goal::decide;

    std::int64_t cutoff_ = 0;    // attacks whose total is not below this are of no interest
    std::int64_t need_ = 0;      // totals below this (and only such) can win
    std::int64_t closed_at_ = 0; // the least bound at which anything was closed
    std::int64_t best_ = 0;      // total of the best attack found
    ExactSum best_total_;
    bool too_large_ = false;
    bool exactly_ = false; // compare exact totals, not units
    bool wins_ = false;
    std::vector<std::int32_t> best_features_;
    std::vector<double> best_values_;

    std::vector<Frame> frames_;
    std::vector<Dual::Snapshot> snapshots_; // of the first frames, as many as memory allows
    std::int64_t nodes_ = 0;
    std::int64_t most_nodes_ = 0;
    std::vector<double> routed_;
    std::vector<std::int32_t> at_;      // per feature: its cell in routed_
    std::vector<std::int32_t> node_at_; // per tree: its leaf there
    std::int64_t total_at_ = 0;
    std::vector<std::int32_t> trial_;
    std::vector<std::int32_t> tried_; // the last candidate
    std::vector<Cut> cuts_;
};

} // namespace carve
