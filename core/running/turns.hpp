// Time for several: everyone has a share of what is left; who is late goes on with what the others
// leave over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "running/stopwatch.hpp"

namespace carve {

enum class Turn : std::uint8_t {
    done, // needs no other turn
    open, // is not through: goes on if it was for lack of time, and there is time
    stop, // nobody needs another turn
};

// Keeps its memory from instance to instance.
class Turns {
  public:
    // Calls visit(who, limit) for who = 0, …, count - 1 in this order, at least once each unless
    // someone stops it; then for those who are late.
    template <class Visit> void take(std::size_t count, const Stopwatch& whole, Visit&& visit) {
        waiting_.resize(count);
        std::iota(waiting_.begin(), waiting_.end(), std::size_t{0});
        for (;;) {
            std::size_t late = 0;
            for (std::size_t i = 0; i < waiting_.size(); ++i) {
                const std::size_t who = waiting_[i];
                const std::size_t to_come = waiting_.size() - i;
                const Stopwatch limit = to_come == 1 ? whole : whole.share(to_come);
                const Turn turn = visit(who, limit);
                if (turn == Turn::stop)
                    return;
                if (turn == Turn::open && limit.expired()) // else time is not what it lacks
                    waiting_[late++] = who;
            }
            if (late == 0 || whole.expired())
                return;
            waiting_.resize(late);
        }
    }

  private:
    std::vector<std::size_t> waiting_;
};

} // namespace carve
