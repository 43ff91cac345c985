// Parts of a whole: several processes hold some of the rows each and go through the same code in
// lock step. What each adds up over its own rows is joined, which makes it the sum over all rows.
// Whole numbers only: it does not matter then which process holds which row.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace carve {

// Shared: whoever joins the numbers may look at them for longer than whoever asked for it.
using PartialSums = std::shared_ptr<std::vector<std::int64_t>>;

// Replaces every number by its sum over all processes, modulo 2^64. Called by the thread that
// called into the core, in the same order and for as many numbers in every process. Empty: there is
// one process, which holds all rows.
using Join = std::function<void(const PartialSums& sums)>;

} // namespace carve
