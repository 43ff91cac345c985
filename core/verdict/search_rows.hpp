// The search engine over many instances: what the bindings call. Arrays in, arrays out.
#pragma once

#include <cstdint>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "running/parallel.hpp"
#include "verdict/rows.hpp"

namespace carve {

enum class Engine : std::uint8_t { none, large_spread, search };

struct SearchOptions {
    double seconds;    // per instance; may be infinite
    bool exact_worst;  // find the worst margin itself, not only its sign
    bool large_spread; // take the dedicated path where an instance allows it
};

struct SearchVerifyOutput { // an entry per instance
    std::uint8_t* status;
    bool* right;
    double* margin;
    // worst_lower <= worst margin <= worst_upper
    double* worst_lower;
    double* worst_upper;
    std::uint8_t* engine;
    double* seconds;
};

// `label` is a class index per instance. All functions return false iff `tick` cancelled.
bool search_verify_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                        const std::int32_t* label, const SearchOptions& options,
                        SearchVerifyOutput output, const WitnessOutput* witness, int threads,
                        const TickFunction& tick);

bool search_radius_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                        const std::int32_t* label, double seconds, RadiusOutput output, int threads,
                        const TickFunction& tick);

} // namespace carve
