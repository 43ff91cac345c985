#include "running/parallel.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace carve {

int worker_count(int threads, std::int64_t rows, std::int64_t block) {
    const int wanted =
        threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const std::int64_t blocks = (rows + block - 1) / block;
    return static_cast<int>(std::clamp<std::int64_t>(blocks, 1, wanted));
}

bool parallel_rows(std::int64_t rows, std::int64_t block, int workers, const BlockFunction& work,
                   const TickFunction& tick) {
    std::atomic<std::int64_t> next{0};
    std::atomic<std::int64_t> done{0};
    std::atomic<bool> cancelled{false};
    std::exception_ptr failure;
    std::mutex mutex;
    std::condition_variable finished;
    int running = workers;

    const auto loop = [&](int worker) {
        try {
            while (!cancelled.load(std::memory_order_relaxed)) {
                const std::int64_t begin = next.fetch_add(block);
                if (begin >= rows)
                    break;
                const std::int64_t end = std::min(rows, begin + block);
                work(worker, begin, end, cancelled);
                done.fetch_add(end - begin);
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!failure)
                failure = std::current_exception();
            cancelled = true;
        }
        const std::lock_guard lock(mutex);
        if (--running == 0)
            finished.notify_one();
    };

    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(workers));
    for (int worker = 0; worker < workers; ++worker)
        threads.emplace_back(loop, worker);

    bool stopped = false;
    std::unique_lock lock(mutex);
    while (!finished.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) {
        lock.unlock();
        if (!stopped && !tick(done.load())) {
            stopped = true;
            cancelled = true;
        }
        lock.lock();
    }
    lock.unlock();
    threads.clear();
    if (failure && !stopped)
        std::rethrow_exception(failure);
    return !stopped;
}

} // namespace carve
