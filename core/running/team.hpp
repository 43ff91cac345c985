// A few threads for many short batches of work, one after the other: no thread is started per
// batch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace carve {

class Team {
  public:
    // The caller is one of the members.
    explicit Team(int members);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Calls work(piece) for every piece in [0, pieces), in any order, by any member; returns when
    // all are done. Rethrows the first exception.
    void share(int pieces, const std::function<void(int piece)>& work);

  private:
    void take_part();
    void serve();

    std::vector<std::thread> threads_;
    const std::function<void(int)>* work_ = nullptr;
    int pieces_ = 0;
    std::atomic<int> next_{0};
    std::mutex mutex_; // guards the rest
    std::condition_variable called_;
    std::condition_variable done_;
    std::uint64_t batch_ = 0;
    int busy_ = 0; // members at work on this batch, the caller not counted
    bool dismissed_ = false;
    std::exception_ptr error_;
};

} // namespace carve
