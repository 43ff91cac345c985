// When to stop: a time limit, or the caller's wish.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace carve {

class Stopwatch {
  public:
    using Clock = std::chrono::steady_clock;

    // seconds may be infinite.
    Stopwatch(double seconds, const std::atomic<bool>& cancelled,
              Clock::time_point start = Clock::now())
        : start_(start), limit_(seconds), cancelled_(&cancelled) {}
    double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
    double left() const { return limit_ - elapsed(); }
    bool expired() const {
        return cancelled_->load(std::memory_order_relaxed) || elapsed() >= limit_;
    }
    // One that stops after so many seconds, and no later than this one.
    Stopwatch within(double seconds) const { return {std::min(seconds, left()), *cancelled_}; }
    // The share of the first of so many that are to come, of the time that is left.
    Stopwatch share(std::size_t among) const { return within(left() / static_cast<double>(among)); }

  private:
    Clock::time_point start_;
    double limit_;
    const std::atomic<bool>* cancelled_;
};

} // namespace carve
