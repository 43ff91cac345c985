#include "running/parallel.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace carve {

namespace {

constexpr auto patience = std::chrono::milliseconds(100);

// Threads that are cancelled and waited for, whatever happens to the scope they were started in.
// (Not every standard library has std::jthread.)
class Crew {
  public:
    explicit Crew(std::atomic<bool>& cancelled) : cancelled_(cancelled) {}
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;
    ~Crew() {
        if (!threads_.empty())
            cancelled_ = true;
        join();
    }
    template <class Work> void start(int size, const Work& work) {
        threads_.reserve(static_cast<std::size_t>(size));
        for (int member = 0; member < size; ++member)
            threads_.emplace_back(work, member);
    }
    void join() {
        for (std::thread& thread : threads_)
            thread.join();
        threads_.clear();
    }

  private:
    std::atomic<bool>& cancelled_;
    std::vector<std::thread> threads_;
};

} // namespace

int worker_count(int threads, std::int64_t rows, std::int64_t block) {
    const int wanted =
        threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const std::int64_t blocks = (rows + block - 1) / block;
    return static_cast<int>(std::clamp<std::int64_t>(blocks, 1, wanted));
}

bool parallel_rows(std::int64_t rows, std::int64_t block, int workers, const BlockFunction& work,
                   const WatchFunction& watch) {
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> cancelled{false};
    std::mutex mutex; // guards the rest
    std::condition_variable over;
    std::exception_ptr failure;
    std::vector<RowRange> finished;
    int running = workers;

    const auto loop = [&](int worker) {
        try {
            while (!cancelled.load(std::memory_order_relaxed)) {
                const std::int64_t begin = next.fetch_add(block);
                if (begin >= rows)
                    break;
                const RowRange range{begin, std::min(rows, begin + block)};
                work(worker, range, cancelled);
                const std::lock_guard lock(mutex);
                if (!cancelled)
                    finished.push_back(range);
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!failure)
                failure = std::current_exception();
            cancelled = true;
        }
        const std::lock_guard lock(mutex);
        if (--running == 0)
            over.notify_one();
    };

    Crew crew(cancelled);
    bool stopped = false;
    std::vector<RowRange> announced;
    const auto announce = [&](std::unique_lock<std::mutex>& lock) {
        announced.clear();
        std::swap(announced, finished);
        lock.unlock();
        if (!watch(announced))
            stopped = cancelled = true;
        lock.lock();
    };
    crew.start(workers, loop);
    std::unique_lock lock(mutex);
    while (!over.wait_for(lock, patience, [&] { return running == 0; }))
        if (!stopped)
            announce(lock);
    lock.unlock();
    crew.join();
    lock.lock();
    if (stopped)
        return false;
    if (failure)
        std::rethrow_exception(failure);
    announce(lock);
    return !stopped;
}

} // namespace carve
