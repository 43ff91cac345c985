// Proofs of many rows: threads over rows, a text per row; and what their witnesses change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/problem.hpp"
#include "model/rows.hpp"
#include "proofs/names.hpp"
#include "running/parallel.hpp"
#include "verdict/options.hpp"

namespace carve {

struct Proving {
    const Problem& problem;
    const Rows& rows;
    const Options& options; // heeds seconds and threads
    const ProofNames& names;
    const WatchFunction& watch;

    // Of rows whose `status` is robust or vulnerable: their parts; empty where none is found in
    // time, and for all others. `large_spread`: the engine of that name decided. False iff `watch`
    // cancelled.
    bool run(const std::int32_t* label, const std::uint8_t* status,
             const std::uint8_t* large_spread, std::vector<std::string>& proofs) const;
};

// What witnesses change of rows: a text per row. What is missing in a row is never changed.
std::vector<std::string> changes_of(const Rows& witnesses, const Rows& rows);

} // namespace carve
