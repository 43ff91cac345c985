// Stopwatches stop, and threads over rows look at every row once.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "running/parallel.hpp"
#include "running/stopwatch.hpp"
#include "tests/check.hpp"

using namespace carve;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

TEST(a_stopwatch_stops_when_time_is_up_or_the_caller_says_so) {
    std::atomic<bool> cancelled{false};
    const Stopwatch forever(infinity, cancelled);
    CHECK(!forever.expired() && forever.left() == infinity && forever.elapsed() >= 0);
    CHECK(Stopwatch(0, cancelled).expired() && Stopwatch(-1, cancelled).expired());
    CHECK(forever.within(1e-9).left() <= 1e-9 && !forever.within(3600).expired());
    CHECK(Stopwatch(1, cancelled).within(infinity).left() <= 1);
    CHECK(Stopwatch(8, cancelled).share(4).left() <= 2 && forever.share(4).left() == infinity);
    cancelled = true;
    CHECK(forever.expired() && forever.within(3600).expired());
}

TEST(every_row_is_looked_at_once) {
    for (const std::int64_t rows : {0, 1, 7, 1000})
        for (const std::int64_t block : {1, 3, 64})
            for (const int threads : {1, 2, 5}) {
                std::vector<int> visits(static_cast<std::size_t>(rows), 0); // a thread to each
                std::vector<int> announced = visits;
                const int workers = worker_count(threads, rows, block);
                CHECK(1 <= workers && workers <= threads);
                std::atomic<int> strangers{0};
                CHECK(parallel_rows(
                    rows, block, workers,
                    [&](int worker, RowRange range, const std::atomic<bool>&) {
                        strangers += worker < 0 || worker >= workers ? 1 : 0;
                        for (std::int64_t row = range.begin; row < range.end; ++row)
                            ++visits[static_cast<std::size_t>(row)];
                    },
                    [&](std::span<const RowRange> finished) {
                        for (const RowRange& range : finished)
                            for (std::int64_t row = range.begin; row < range.end; ++row)
                                ++announced[static_cast<std::size_t>(row)];
                        return true;
                    }));
                const std::vector<int> once(visits.size(), 1);
                CHECK(strangers == 0 && visits == once && announced == once);
            }
}

TEST(a_run_is_cancelled_from_outside) {
    const auto until_cancelled = [](int, RowRange, const std::atomic<bool>& cancelled) {
        while (!cancelled) {
        }
    };
    CHECK(!parallel_rows(1000, 1, 3, until_cancelled,
                         [](std::span<const RowRange>) { return false; }));
}

TEST(an_exception_reaches_the_caller) {
    const auto fail = [](int, RowRange range, const std::atomic<bool>&) {
        if (range.begin == 500)
            throw std::domain_error("row 500");
    };
    CHECK_THROWS(std::domain_error,
                 parallel_rows(1000, 1, 3, fail, [](std::span<const RowRange>) { return true; }));
}
