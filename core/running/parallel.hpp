// Threads over instances: blocks of rows are handed out in turn; the caller's thread only waits,
// announces what is finished and may cancel.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

namespace carve {

// Rows [begin, end).
struct RowRange {
    std::int64_t begin;
    std::int64_t end;
};

// Work on rows as worker number `worker`; return early once `cancelled` is set.
using BlockFunction =
    std::function<void(int worker, RowRange rows, const std::atomic<bool>& cancelled)>;

// Called from the caller's thread about ten times a second, and once at the end, with the rows that
// were finished since the call before: every row once, in any order, all that was written about it
// visible. False cancels the run.
using WatchFunction = std::function<bool(std::span<const RowRange> finished)>;

// threads == 0 takes all cores; returns how many workers parallel_rows will use.
int worker_count(int threads, std::int64_t rows, std::int64_t block);

// Runs `work` over all rows. Returns false iff `watch` cancelled. Rethrows the first exception.
bool parallel_rows(std::int64_t rows, std::int64_t block, int workers, const BlockFunction& work,
                   const WatchFunction& watch);

} // namespace carve
