// Threads over instances: blocks of rows are handed out in turn; the caller's thread only waits,
// reports progress and may cancel.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace carve {

// Work on rows [begin, end) as worker number `worker`; return early once `cancelled` is set.
using BlockFunction = std::function<void(int worker, std::int64_t begin, std::int64_t end,
                                         const std::atomic<bool>& cancelled)>;

// Called from the caller's thread about ten times a second with the number of finished rows;
// false cancels the run.
using TickFunction = std::function<bool(std::int64_t done)>;

// threads == 0 takes all cores; returns how many workers parallel_rows will use.
int worker_count(int threads, std::int64_t rows, std::int64_t block);

// Runs `work` over all rows. Returns false iff `tick` cancelled. Rethrows the first exception.
bool parallel_rows(std::int64_t rows, std::int64_t block, int workers, const BlockFunction& work,
                   const TickFunction& tick);

} // namespace carve
