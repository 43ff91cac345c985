// Raw scores in reach over many instances: their range, and whether they stay within a limit.
// Arrays in, arrays out.
#pragma once

#include <cstdint>
#include <span>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "running/parallel.hpp"
#include "verdict/rows.hpp"

namespace carve {

// Who may decide: the large-spread algorithms, for instances that allow it, and search for others.
struct RangeOptions {
    double seconds;    // per instance; may be infinite
    bool large_spread; // the ensemble is large-spread: there is no need to look
    bool per_instance; // else: look whether it is for the instance
    bool search;       // what large-spread does not settle goes to search
};

struct RangeOutput { // an entry per instance
    // lowest_lower <= the lowest raw score in reach <= lowest_upper, and so for the highest; equal,
    // or neighbours, where it is known. An attack reaches what the inner bounds are rounded from.
    double* lowest_lower;
    double* lowest_upper;
    double* highest_lower;
    double* highest_upper;
};

// Returns false iff `tick` cancelled.
bool range_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                const RangeOptions& options, RangeOutput output, int threads,
                const TickFunction& tick);

enum class Answer : std::uint8_t { holds, fails, unknown };

// answer[i]: no attack changes the raw score times `average` by more than `limit`, a sum of
// doubles.
bool change_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                 std::span<const double> limit, const RangeOptions& options, std::uint8_t* answer,
                 int threads, const TickFunction& tick);

} // namespace carve
