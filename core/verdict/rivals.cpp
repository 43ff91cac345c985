#include "verdict/rivals.hpp"

#include <algorithm>
#include <cmath>

namespace carve {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
} // namespace

void Rivals::list(int label) {
    list_.clear();
    for (int id = 0; id < problem_.objectives.classes(); ++id)
        if (id != label)
            list_.push_back({id});
}

void Rivals::predict(const Instance& instance, int label) {
    list(label);
    for (std::size_t tree = 0; tree < home_.size(); ++tree)
        home_[tree] = problem_.ensemble.leaf_of(static_cast<int>(tree), instance.routed);
    right = true;
    margin = nan;
    around = {infinity, infinity};
    for (Rival& rival : list_) {
        const Objective& objective = problem_.objectives(label, rival.id);
        LongSum total = objective.start();
        for (const auto leaf : home_)
            objective.add(total, leaf);
        rival.margin = objective.rounded(total, home_);
        right = right && !objective.wins(objective.sign(total, home_));
        margin = std::fmin(margin, rival.margin);
        const Enclosure enclosed = objective.enclose(total, home_);
        around.lower = std::min(around.lower, enclosed.lower);
        around.upper = std::min(around.upper, enclosed.upper);
    }
    std::ranges::sort(list_, {}, &Rival::margin);
}

} // namespace carve
