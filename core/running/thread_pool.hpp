// Threads that outlive many short parallel loops, such as those of one tree.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace carve {

class ThreadPool {
  public:
    using Work = std::function<void(int worker, int task)>;

    // The calling thread counts as one; 0 takes one thread per core.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return static_cast<int>(threads_.size()) + 1; }

    // Calls work(worker, task) once for every task in [0, tasks), with 0 <= worker < size(), and
    // returns when all have finished. Rethrows the first exception.
    void run(int tasks, const Work& work);

  private:
    bool run_one(int worker);
    void serve(int worker);

    std::vector<std::thread> threads_;
    const Work* work_ = nullptr;
    // The number of the loop in the upper half, its unclaimed tasks in the lower half: a thread
    // that wakes up late cannot claim a task of another loop by mistake.
    std::atomic<std::uint64_t> unclaimed_{0};
    std::atomic<int> unfinished_{0};
    std::atomic<bool> stopping_{false};
    std::mutex mutex_; // guards error_
    std::exception_ptr error_;
};

} // namespace carve
