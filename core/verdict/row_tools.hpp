// What all loops over instances share: reading a row, and the objectives by class.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "model/problem.hpp"
#include "verdict/rows.hpp"

namespace carve {

// One of the two numbers of a tight enclosure, with the sign given.
inline double rounded(const Enclosure& around, int sign) {
    return sign > 0 ? around.upper : sign < 0 ? around.lower : 0.0;
}

} // namespace carve
