// The cuts of a search that goes depth first: of each, the second part is kept until its turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/domain.hpp"
#include "search/dual.hpp"
#include "search/reduction.hpp"

namespace carve {

class Branches {
  public:
    Branches(Domain& domain, Dual& dual) : domain_(domain), dual_(dual) {}

    // To begin with; `memory`: bytes for the multipliers of cuts, to come back to.
    void reset(std::size_t memory) {
        cuts_.clear();
        most_snapshots_ = memory / (dual_.snapshot_bytes() + 1);
    }
    std::size_t depth() const { return cuts_.size(); }

    // Goes on with the first part; all of what is cut is known to be at least `bound`.
    void cut(std::int32_t feature, Reduction::Range first, Reduction::Range second,
             std::int64_t bound = 0) {
        const std::size_t depth = cuts_.size();
        cuts_.push_back({domain_.mark(), feature, second, true, bound});
        if (snapshots_.size() == depth && depth < most_snapshots_)
            snapshots_.emplace_back();
        if (depth < most_snapshots_)
            dual_.save(snapshots_[depth]);
        domain_.restrict(feature, first.low, first.high);
    }

    // Goes on with the part that was kept last; false if there is none.
    bool next() {
        while (!cuts_.empty() && !cuts_.back().has_second) {
            domain_.undo(cuts_.back().mark);
            cuts_.pop_back();
        }
        if (cuts_.empty())
            return false;
        Cut& last = cuts_.back();
        domain_.undo(last.mark);
        last.has_second = false;
        domain_.restrict(last.feature, last.second.low, last.second.high);
        if (const std::size_t depth = cuts_.size() - 1; depth < most_snapshots_)
            dual_.restore(snapshots_[depth]);
        return true;
    }
    std::int64_t bound() const { return cuts_.back().bound; } // of the part at hand, after next()

    template <class Visit> void for_each_kept(const Visit& visit) const {
        for (const Cut& cut : cuts_)
            if (cut.has_second)
                visit(cut.bound);
    }

  private:
    struct Cut {
        Domain::Mark mark; // before the cut
        std::int32_t feature;
        Reduction::Range second;
        bool has_second;
        std::int64_t bound;
    };
    Domain& domain_;
    Dual& dual_;
    std::vector<Cut> cuts_;
    std::vector<Dual::Snapshot> snapshots_; // of the first cuts, as many as memory allows
    std::size_t most_snapshots_ = 0;
};

} // namespace carve
