// The four questions over many instances: threads over rows, an entry per row in `Decisions`.
#pragma once

#include <cstdint>
#include <span>

#include "model/problem.hpp"
#include "model/rows.hpp"
#include "running/parallel.hpp"
#include "verdict/decisions.hpp"
#include "verdict/options.hpp"

namespace carve {

// One call of a question. The functions create the columns that the question fills; they return
// false iff `watch` cancelled. `label` is a class index per row.
struct Batch {
    const Problem& problem;
    const Rows& rows;
    const Options& options;
    const WatchFunction& watch;
    Decisions& decisions;

    bool decide(const std::int32_t* label) const;
    bool radius(const std::int32_t* label) const;
    bool output_range() const;
    // Does no attack change the raw score times `average` by more than `limit`, a sum of doubles?
    bool stays_within(std::span<const double> limit) const;

  private:
    // Calls visit(desk, row number, stopwatch) for every row, a desk per thread with the row's
    // instance on it; writes down who took how long.
    template <class OwnDesk, class Visit> bool for_rows(const Visit& visit) const;
};

} // namespace carve
