#include "running/thread_pool.hpp"

#include <algorithm>

namespace carve {

namespace {

constexpr std::uint64_t task_mask = 0xFFFFFFFF;
constexpr int spins = 200; // before a thread sleeps; the next loop usually begins within them

} // namespace

ThreadPool::ThreadPool(int threads) {
    if (threads <= 0)
        threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    threads_.reserve(static_cast<std::size_t>(threads - 1));
    for (int worker = 1; worker < threads; ++worker)
        threads_.emplace_back([this, worker] { serve(worker); });
}

ThreadPool::~ThreadPool() {
    stopping_ = true;
    unclaimed_ += task_mask + 1;
    unclaimed_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

void ThreadPool::run(int tasks, const Work& work) {
    if (tasks <= 0)
        return;
    if (threads_.empty() || tasks == 1) {
        for (int task = 0; task < tasks; ++task)
            work(0, task);
        return;
    }
    work_ = &work;
    error_ = nullptr;
    unfinished_ = tasks;
    const std::uint64_t loop = (unclaimed_ & ~task_mask) + task_mask + 1;
    unclaimed_ = loop | static_cast<std::uint64_t>(tasks);
    unclaimed_.notify_all();
    while (run_one(0)) {
    }
    for (int spin = 0; unfinished_ > 0; ++spin)
        if (spin < spins)
            std::this_thread::yield();
        else if (const int left = unfinished_; left > 0)
            unfinished_.wait(left);
    if (error_)
        std::rethrow_exception(error_);
}

// Runs one task of the current loop; false if all are claimed.
bool ThreadPool::run_one(int worker) {
    std::uint64_t seen = unclaimed_;
    do {
        if ((seen & task_mask) == 0)
            return false;
    } while (!unclaimed_.compare_exchange_weak(seen, seen - 1));
    try {
        (*work_)(worker, static_cast<int>(seen & task_mask) - 1);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_)
            error_ = std::current_exception();
    }
    if (--unfinished_ == 0)
        unfinished_.notify_one();
    return true;
}

void ThreadPool::serve(int worker) {
    while (!stopping_) {
        if (run_one(worker))
            continue;
        const std::uint64_t seen = unclaimed_;
        for (int spin = 0; spin < spins && unclaimed_ == seen; ++spin)
            std::this_thread::yield();
        if ((seen & task_mask) == 0 && !stopping_)
            unclaimed_.wait(seen);
    }
}

} // namespace carve
