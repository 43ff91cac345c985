// An ensemble over many instances, without an attacker: raw scores, and values it has no rule for.
#pragma once

#include <cstdint>
#include <span>

#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "running/parallel.hpp"

namespace carve {

// Raw scores as the source library computes them; `output` is rows.count x n_outputs. False iff
// `watch` cancelled, here and below.
bool score_rows(const Ensemble& ensemble, const Rows& rows, double* output, int threads,
                const WatchFunction& watch);

// Adds to counts, a number per row of the ensemble's scores, how many instances fall into each
// leaf.
bool count_rows(const Ensemble& ensemble, const Rows& rows, std::span<std::int64_t> counts,
                int threads, const WatchFunction& watch);

// place = row * columns + column of the first value that the ensemble has no rule for, or -1.
bool first_bad_value(const Ensemble& ensemble, const Rows& rows, bool allow_infinite,
                     std::int64_t& place, int threads, const WatchFunction& watch);

} // namespace carve
