// Proofs that no attack wins: a tree of cases, each closed by a bound of the dual, in the bytes of
// docs/proofs.md.
//
// The search concludes more than the rules of a proof allow for, and works with reductions of
// reductions. This is a search of its own, which concludes only what a checker does; where it ends,
// what it wrote down is a proof.
#pragma once

#include <cstdint>
#include <vector>

#include "large_spread/first_look.hpp"
#include "large_spread/reach.hpp"
#include "model/problem.hpp"
#include "proofs/by_price.hpp"
#include "proofs/bytes.hpp"
#include "proofs/first_price.hpp"
#include "proofs/names.hpp"
#include "running/stopwatch.hpp"
#include "search/blend.hpp"
#include "search/branches.hpp"
#include "search/cutting.hpp"
#include "search/domain.hpp"
#include "search/dual.hpp"
#include "search/reduction.hpp"

namespace carve {

// One per thread.
class Prover {
  public:
    Prover(const Problem& problem, const ProofNames& names);

    struct Row {
        int label;
        bool right;        // the label holds the decision
        bool large_spread; // the ensemble is, as far as the instance is concerned
    };
    // Appends the parts that prove a row robust (if it is right) or vulnerable (if no attack makes
    // it right); false, and nothing is appended, if there is no such proof, or none is found in
    // time.
    bool prove(Instance& instance, const Row& row, const Stopwatch& stopwatch, Bytes& proof);

  private:
    // Does a price do, without multipliers?
    bool by_price() const {
        return large_spread_ && objective_ != nullptr && problem_.attacker.norm != norm_inf;
    }
    void find_home();
    bool prove_robust(int label, Bytes& proof);
    bool prove_vulnerable(int label, Bytes& proof);
    // The cases of a part. With `briefly`, gives up after the first.
    bool prove_part(const Objective& objective, bool briefly, Bytes& proof);
    bool prove_mean(const std::vector<const Objective*>& all, Bytes& proof, Blend& mean);
    // Of large-spread ensembles, by a price alone; false if that takes more. `is_guess`: nobody has
    // decided about this objective.
    bool prove_at_first_look(const Objective& objective, bool is_guess, Bytes& proof);
    bool prove_cases(bool briefly, Bytes& proof);
    // Closes the case at hand by a bound; false if that takes a cut, or time is up.
    bool close(bool first, Bytes& proof);
    bool close_by_price(Bytes& proof);
    bool close_by_dual(bool first, Bytes& proof);
    bool close_by_rival(Bytes& proof);
    bool is_closed_by_least(const Objective& objective);
    // A bound without multipliers.
    static void write_price(double price, Bytes& proof);
    // The multipliers at hand, whose bound is so much above what is needed.
    void write_bound(std::int64_t gap, Bytes& proof);
    int coarsen(std::int64_t gap);
    // False: all are 0.
    bool write_multipliers(std::int32_t slot, int bits, std::int32_t last_tree, Bytes& proof) const;
    static void write_rival(int rival, Bytes& proof); // that counts from here on
    // True if the cells above come first.
    bool write_cut(const Cutting::Place& cut, Bytes& proof) const;
    std::int32_t only_user(std::int32_t feature) const;

    const Problem& problem_;
    const ProofNames& names_;
    RoundedCosts costs_;
    Reach reach_;
    FirstLook first_look_;
    FirstPrice first_price_;
    Reduction reduction_;
    Domain domain_;
    Dual dual_;
    Cutting cutting_;
    Branches branches_;
    ByPrice by_price_;
    Instance* instance_ = nullptr;
    bool large_spread_ = false;
    const Stopwatch* stopwatch_ = nullptr;
    const Objective* objective_ = nullptr; // of the part at hand; null: it is a mean of several
    std::vector<int> rivals_;              // the classes that are in that mean
    int label_ = 0;
    int mean_bits_ = 0;                // a mean is their sum, shifted by so much
    std::int64_t need_ = 0;            // totals below this can win
    std::vector<std::int32_t> leaves_; // per tree
    Dual::Snapshot precise_;
};

} // namespace carve
