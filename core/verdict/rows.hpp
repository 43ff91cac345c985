// The engines over many instances: what the bindings call. Arrays in, arrays out.
#pragma once

#include <cstdint>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "running/parallel.hpp"
#include "verdict/batch.hpp"

namespace carve {

bool verify_rows(const Batch& batch, const std::int32_t* label);

struct RadiusBounds {
    // lower <= radius <= upper; equal where the radius is known, both infinite where no budget up
    // to the attacker's flips the instance, both 0 where it is wrong already. Otherwise no budget
    // up to `lower` flips it.
    double lower;
    double upper;
};

bool radius_rows(const Batch& batch, const std::int32_t* label);

} // namespace carve
