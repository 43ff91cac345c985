// Lower bounds on the total of every affordable attack in a domain, by Lagrangian decomposition.
//
// Each tree, and each feature, chooses for itself; that they must agree, and that the budget is
// one for all, is priced instead of demanded. With a multiplier theta[t, f](segment) for every
// slot and a price lambda >= 0 of the budget,
//
//   sum over trees t of     min over leaves of  value + sum over f of min theta[t, f](segment)
//   + sum over features f of min over cells of  lambda cost(cell) - sum over t of theta[t, f](cell)
//   - lambda capacity
//
// is a lower bound whatever the multipliers are: any theta that shares out lambda cost(cell) among
// the trees splits each feature's cost. All numbers are whole: the bound is exact, not rounded; how
// large they get says numbers/units.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "running/stopwatch.hpp"
#include "search/domain.hpp"
#include "search/marks.hpp"
#include "search/minima.hpp"
#include "search/reduction.hpp"

namespace carve {

class Dual {
  public:
    Dual(const Reduction& reduction, const Domain& domain)
        : reduction_(reduction), domain_(domain) {}
    void reset();
    // Starts from what is known of the whole that this is a compact part of.
    void reset(const Dual& whole, const Origin& origin);

    // Takes note of what changed in the domain, which must have been propagated.
    void refresh();
    // The bound for the domain as it was at the last refresh; fills in what each tree chose.
    std::int64_t evaluate();
    // The bound, were `feature` restricted to cells low to high; requires evaluate.
    std::int64_t evaluate_if(std::int32_t feature, std::int32_t low, std::int32_t high);
    // Improves theta by one sweep of block-coordinate ascent: for every feature in turn, its
    // multipliers in all trees become optimal, given all others. Stops early if time is up.
    void sweep(const Stopwatch& stopwatch);
    // Moves lambda towards where the features' choice costs what the budget affords.
    void reprice();
    // Starts the search for lambda anew, with another step.
    void calm(double step) {
        step_ = step;
        last_slope_ = 0;
    }

    // All multipliers, to come back to.
    struct Snapshot {
        double lambda = 0;
        std::vector<std::int64_t> theta;
        std::vector<std::int64_t> shared;
    };
    // Rounds all multipliers, those of a slot relative to that nearest to the instance, and the
    // price to multiples of 2^bits.
    void round(int bits);
    void save(Snapshot& snapshot) const;
    void restore(const Snapshot& snapshot);
    std::size_t snapshot_bytes() const { return 8 * (theta_.size() + shared_.size()); }

    double lambda() const { return lambda_; } // a whole number
    std::int64_t theta(const Reduction::Slot& slot, std::int32_t segment) const {
        return theta_[slot.first + segment];
    }

    std::int32_t leaf(std::int32_t tree) const { return leaf_[tree]; }
    // The cell in which the feature and its trees together do best.
    std::int32_t vote(std::int32_t feature) const { return vote_[feature]; }
    // What the bound rises by at least if the tree takes this leaf; requires evaluate.
    std::int64_t loss_of_leaf(std::int32_t tree, std::int32_t leaf) const {
        return energy_[leaf] - least_[tree];
    }
    // A lower bound, were the feature in this cell; as of the last sweep.
    std::int64_t bound_of_cell(std::int32_t feature, std::int32_t cell) const {
        return cell_bound_[reduction_.features[feature].first + cell];
    }

  private:
    void set_lambda(double lambda);
    // The least theta in the open segments of a slot; range(r) = that in a range, less it.
    std::int64_t price_slot(const Reduction::Slot& slot, const Reduction::Range& open,
                            std::int64_t* range) const;
    // The least energy of the leaves alive that do not look at the slot.
    std::int64_t least_elsewhere(std::int32_t slot);
    std::int64_t evaluate_feature(std::int32_t feature, const Reduction::Range& cells) const;
    // Calls visit(segment, its cells) for the open segments of a slot, within the box.
    template <typename Visit>
    void for_segments(std::int32_t s, const Reduction::Range& box, Visit&& visit) const {
        const auto& slot = reduction_.slots[s];
        const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
        const Reduction::Range& open = domain_.open(s);
        for (std::int32_t i = open.low; i <= open.high; ++i)
            visit(i, Reduction::Range{std::max(begin[i], box.low),
                                      i + 1 < slot.count ? std::min(begin[i + 1] - 1, box.high)
                                                         : box.high});
    }
    void balance(std::int32_t feature);
    // Gives rest_ to the multipliers of the feature, which then are as good as they get.
    void share_out(std::int32_t feature, const Reduction::Range& box);
    // Appends to needs_, per segment, what the slot's tree loses at least by having the feature
    // there, theta aside; returns by how much its best rises when theta is set aside.
    std::int64_t marginals(std::int32_t slot);
    // Brings the energies up to date after theta has changed in a slot.
    void update(std::int32_t slot);

    const Reduction& reduction_;
    const Domain& domain_;
    double lambda_ = 0;
    double step_ = 0;
    double last_slope_ = 0;
    std::vector<std::int64_t> theta_;  // per segment
    std::vector<std::int64_t> priced_; // per cell: lambda cost
    std::vector<std::int64_t> shared_; // per cell: sum over trees of theta
    std::int64_t priced_capacity_ = 0;
    std::int64_t bound_ = 0;
    std::int64_t running_ = 0;             // during a sweep: a lower bound on the bound
    std::vector<std::int64_t> cell_bound_; // as of the last sweep
    std::vector<std::int32_t> leaf_;
    std::vector<std::int32_t> vote_;
    // A leaf's energy is its value plus the sum of range_ over its demands; a tree adds the sum
    // of slot_least_ over its slots.
    std::vector<std::int64_t> energy_;     // per leaf alive
    std::vector<std::int64_t> slot_least_; // per slot
    std::vector<std::int64_t> base_;       // per tree
    Marks<> asks_;                         // leaves that look at the slot at hand
    std::vector<std::int64_t> fresh_;      // scratch for range_
    std::vector<std::int64_t> least_;      // per tree
    std::vector<std::int64_t> least_of_feature_;
    std::vector<std::int64_t> range_;
    std::vector<std::int32_t> balanced_; // slots of the feature at hand
    std::vector<std::int64_t> needs_;    // of these, per segment
    std::vector<std::int64_t> rest_;     // per cell of the feature at hand
    std::vector<std::int64_t> steps_;    // from cell to cell
    std::vector<std::int64_t> shares_;   // as needs_
    Minima minima_;
};

} // namespace carve
