// Branch and bound on one reduction: the tree of its domains, depth first.
//
// A domain is bounded from below by the dual (each tree and feature chooses for itself, agreement
// is priced); what the bound closes is done, what the choices agree on is a candidate attack, and
// elsewhere the domain is cut in two. Memory grows with the depth only. Where few leaves are left
// alive, the domain becomes a reduction of its own, in which the descent goes on.
//
// exploring.cpp    the tree of domains, and what closes one
// candidates.cpp   attacks to try
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/aim.hpp"
#include "search/branches.hpp"
#include "search/cutting.hpp"
#include "search/domain.hpp"
#include "search/dual.hpp"
#include "search/position.hpp"
#include "search/reduction.hpp"

namespace carve {

class Descent {
  public:
    // `memory`: bytes for multipliers to come back to; parts take half as much each.
    Descent(const Reduction& reduction, Aim& aim, std::size_t memory = 64 << 20);
    ~Descent();
    // To begin with: all of the reduction, and no multipliers.
    void prepare();
    // Improves the multipliers, and says which leaf every tree chooses then; returns the bound.
    std::int64_t improve(std::vector<std::int32_t>& leaves);
    // Looks for attacks below the cutoff, all of which are known to be at least `bound`; false iff
    // interrupted.
    bool run(std::int64_t bound);

  private:
    struct Cut {
        std::int32_t feature;
        std::int32_t last; // cells up to this one go left
        std::int64_t left; // bounds of the children
        std::int64_t right;
    };
    struct Smaller; // a reduction and its descent
    enum class Step { closed, split, found, interrupted };

    // To begin with as part of another descent, at some depth of it.
    void prepare(std::size_t depth, const Dual& dual, const Origin& origin);
    Step explore(std::size_t depth, std::int64_t inherited, std::int64_t& bound, Cut& cut);
    // Ascends the dual, and tries the attacks that it suggests.
    Step ascend(std::size_t depth, std::int64_t& bound);
    Step leave(std::int64_t& bound); // the cells that are left
    bool fix_by_bound();
    bool excluded_exactly() const;
    bool excluded_by_rivals() const;
    bool is_small() const;
    Step go_on_smaller(std::size_t depth, std::int64_t& bound);

    bool choose_cut(std::int64_t bound, Cut& cut);

    // Candidates: cells per feature.
    template <class CellOf> void choose(std::vector<std::int32_t>& cells, const CellOf& cell_of) {
        cells.clear();
        for (std::size_t f = 0; f < reduction_.features.size(); ++f)
            cells.push_back(cell_of(static_cast<std::int32_t>(f)));
    }
    // After a sweep: what the features vote for and, at times at the root, what is near it or home.
    void try_votes(bool root, int sweep);
    // Per feature, the cell that the trees' own choices ask for most, as far as that pays.
    void poll(std::vector<std::int32_t>& cells);
    // Tries them, with moves taken back until the rest is affordable.
    void consider(std::vector<std::int32_t>& cells, bool thoroughly);
    void place(const std::vector<std::int32_t>& cells);
    void repair(std::vector<std::int32_t>& cells);
    void polish(std::vector<std::int32_t>& cells);

    const Reduction& reduction_;
    Aim& aim_;
    std::size_t memory_;
    Domain domain_;
    Dual dual_;
    Cutting cutting_;
    Branches branches_;
    Position position_;
    std::size_t depth_ = 0; // of the first domain
    std::unique_ptr<Smaller> smaller_;

    std::vector<std::int32_t> trial_;
    std::vector<std::int32_t> tried_; // the last candidate
};

} // namespace carve
