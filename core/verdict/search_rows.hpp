// The search engine over many instances: what the bindings call. Arrays in, arrays out.
#pragma once

#include <cstdint>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "running/parallel.hpp"
#include "verdict/rows.hpp"

namespace carve {

bool search_verify_rows(const Batch& batch, const std::int32_t* label);

bool search_radius_rows(const Batch& batch, const std::int32_t* label);

} // namespace carve
