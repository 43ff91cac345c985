// Parts of a whole in threads: what several processes would do, in one.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "running/joining.hpp"

namespace carve::tests {

// Calls work(part, join) for every part, each in a thread of its own; rethrows what one of them
// threw. Once one has, the others' joins fail.
inline void in_parts(int parts, const std::function<void(int part, const Join& join)>& work) {
    std::mutex mutex; // guards the rest
    std::condition_variable changed;
    // Of this round and of the last one, which not all parts have read yet; before the next begins
    // they all will have, as it takes all of them to end this one.
    std::array<std::vector<std::int64_t>, 2> totals;
    int waiting = 0;
    std::size_t round = 0;
    std::exception_ptr failure;
    const Join join = [&](const PartialSums& sums) {
        std::unique_lock lock(mutex);
        const std::size_t own = round;
        std::vector<std::int64_t>& total = totals[own % 2];
        if (waiting == 0)
            total.assign(sums->size(), 0);
        for (std::size_t i = 0; i < sums->size(); ++i)
            total.at(i) += (*sums)[i];
        if (++waiting == parts) {
            waiting = 0;
            ++round;
            changed.notify_all();
        } else {
            changed.wait(lock, [&] { return round != own || failure; });
        }
        if (failure)
            throw std::runtime_error("a part is gone");
        *sums = total;
    };
    std::vector<std::thread> threads;
    for (int part = 0; part < parts; ++part)
        threads.emplace_back([&, part] {
            try {
                work(part, join);
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (!failure)
                    failure = std::current_exception();
                changed.notify_all();
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    if (failure)
        std::rethrow_exception(failure);
}

} // namespace carve::tests
