// What all loops over instances share: reading a row, and the objectives by class.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "verdict/rows.hpp"

namespace carve {

template <class Function> void with_row(const Rows& rows, std::int64_t row, Function&& function) {
    const auto offset = row * rows.columns;
    if (rows.single_precision)
        function(static_cast<const float*>(rows.data) + offset);
    else
        function(static_cast<const double*>(rows.data) + offset);
}

// Reports the rows that are decided, not those that another engine may still have to look at.
inline TickFunction decided_only(const TickFunction& tick, const std::atomic<std::int64_t>& open) {
    return
        [&tick, &open](std::int64_t done) { return tick(std::max<std::int64_t>(0, done - open)); };
}

// One of the two numbers of a tight enclosure, with the sign given.
inline double rounded(const Enclosure& around, int sign) {
    return sign > 0 ? around.upper : sign < 0 ? around.lower : 0.0;
}

// Objectives by (class that holds, class that attacks).
class Objectives {
  public:
    explicit Objectives(const Ensemble& ensemble) : classes_(std::max(2, ensemble.n_outputs())) {
        for (int held = 0; held < classes_; ++held)
            for (int rival = 0; rival < classes_; ++rival)
                table_.push_back(ensemble.n_outputs() == 1
                                     ? Objective::binary(ensemble, held == 1)
                                     : Objective::rivals(ensemble, held, rival));
    }
    int classes() const { return classes_; }
    const Objective& operator()(int held, int rival) const {
        return table_[static_cast<std::size_t>(held * classes_ + rival)];
    }

  private:
    int classes_;
    std::vector<Objective> table_;
};

} // namespace carve
