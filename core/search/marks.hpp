// Marks on things 0, 1, …, n - 1 that are all wiped off at once, in constant time: each carries the
// number of the round in which it was marked. Rounds may be more than `Round` can count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace carve {

template <class Round = std::uint32_t> class Marks {
  public:
    // n things, none of them marked.
    void reset(std::size_t n) {
        marked_in_.assign(n, 0);
        round_ = 1;
    }
    void wipe() {
        if (++round_ == 0) // all rounds have been used: the old marks must not come back to life
            reset(marked_in_.size());
    }
    void mark(std::int32_t thing) { marked_in_[static_cast<std::size_t>(thing)] = round_; }
    bool is_marked(std::int32_t thing) const {
        return marked_in_[static_cast<std::size_t>(thing)] == round_;
    }

  private:
    std::vector<Round> marked_in_; // 0: in none
    Round round_ = 1;
};

} // namespace carve
