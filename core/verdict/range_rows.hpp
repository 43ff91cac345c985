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

bool range_rows(const Batch& batch);

bool change_rows(const Batch& batch, std::span<const double> limit);

} // namespace carve
