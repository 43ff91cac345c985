// The engines over many instances: what the bindings call. Arrays in, arrays out.
#pragma once

#include <cstdint>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "running/parallel.hpp"

namespace carve {

// Row-major instances, in double or single precision.
struct Rows {
    const void* data;
    bool single_precision;
    std::int64_t count;
    std::int64_t columns;
};

enum class Status : std::uint8_t { robust, fragile, vulnerable, broken, unknown };

enum class Method : std::uint8_t { efficient, basic };

struct VerifyOptions {
    Method method = Method::efficient;
    int grid = -1;             // < 0: exact
    bool per_instance = false; // check the large-spread condition for every instance
    double seconds = 0;        // per instance; may be infinite
};

struct VerifyOutput { // an entry per instance
    std::uint8_t* status;
    bool* right; // the label holds the decision on the unchanged instance
    double* margin;
    // worst_lower <= worst margin <= worst_upper; neighbours, or equal, where it is known
    double* worst_lower;
    double* worst_upper;
};

struct WitnessOutput { // an entry (row) per instance; NaN where there is no witness
    double* example;
    double* distance;
};

// `label` is a class index per instance. All functions return false iff `tick` cancelled.
bool verify_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                 const std::int32_t* label, const VerifyOptions& options, VerifyOutput output,
                 const WitnessOutput* witness, int threads, const TickFunction& tick);

struct RadiusBounds {
    // lower <= radius <= upper; equal where the radius is known, both infinite where no budget up
    // to the attacker's flips the instance, both 0 where it is wrong already. Otherwise no budget
    // up to `lower` flips it.
    double lower;
    double upper;
};

struct RadiusOutput { // an entry per instance
    double* lower;
    double* upper;
};

bool radius_rows(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                 const std::int32_t* label, double seconds, RadiusOutput output, int threads,
                 const TickFunction& tick);

// Raw scores as the source library computes them; `output` is rows.count x n_outputs.
bool score_rows(const Ensemble& ensemble, const Rows& rows, double* output, int threads,
                const TickFunction& tick);

// place = row * columns + column of the first value that the ensemble has no rule for, or -1.
bool first_bad_value(const Ensemble& ensemble, const Rows& rows, bool allow_infinite,
                     std::int64_t& place, int threads, const TickFunction& tick);

} // namespace carve
