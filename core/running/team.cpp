#include "running/team.hpp"

namespace carve {

Team::Team(int members) {
    threads_.reserve(static_cast<std::size_t>(members - 1));
    for (int member = 1; member < members; ++member)
        threads_.emplace_back([this] { serve(); });
}

Team::~Team() {
    {
        const std::lock_guard lock(mutex_);
        dismissed_ = true;
    }
    called_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

void Team::share(int pieces, const std::function<void(int piece)>& work) {
    {
        const std::lock_guard lock(mutex_);
        work_ = &work;
        pieces_ = pieces;
        next_ = 0;
        error_ = nullptr;
        busy_ = static_cast<int>(threads_.size());
        ++batch_;
    }
    called_.notify_all();
    take_part();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    if (error_)
        std::rethrow_exception(error_);
}

void Team::take_part() {
    try {
        for (int piece = next_++; piece < pieces_; piece = next_++)
            (*work_)(piece);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_)
            error_ = std::current_exception();
    }
}

void Team::serve() {
    std::uint64_t seen = 0;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            called_.wait(lock, [&] { return dismissed_ || batch_ != seen; });
            if (dismissed_)
                return;
            seen = batch_;
        }
        take_part();
        const std::lock_guard lock(mutex_);
        if (--busy_ == 0)
            done_.notify_one();
    }
}

} // namespace carve
