#include "large_spread/demands.hpp"

#include <algorithm>
#include <limits>

#include "model/states.hpp"

namespace carve {

const std::vector<Move>& Demands::of(std::int32_t leaf, const Instance& instance) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    ranges_.clear();
    states_.clear();
    for (std::int32_t here = leaf; ensemble_.parent[static_cast<std::size_t>(here)] >= 0;) {
        const std::int32_t above = ensemble_.parent[static_cast<std::size_t>(here)];
        const Node& split = ensemble_.nodes[static_cast<std::size_t>(above)];
        const bool is_left = here == above + 1;
        const double value = instance.routed[split.axis()];
        if (value == value && split.is_by_set()) {
            if (ensemble_.lists(split, value) != is_left)
                states_.push_back(split.axis());
        } else if (value == value) {
            std::int32_t& position = range_of_[static_cast<std::size_t>(split.feature)];
            if (position < 0) {
                position = static_cast<std::int32_t>(ranges_.size());
                ranges_.push_back({split.feature, -infinity, infinity});
            }
            Range& range = ranges_[static_cast<std::size_t>(position)];
            if (is_left)
                range.high = std::min(range.high, split.threshold);
            else
                range.low = std::max(range.low, split.threshold);
        }
        here = above;
    }
    moves_.clear();
    for (const auto& [feature, low, high] : ranges_) {
        range_of_[static_cast<std::size_t>(feature)] = -1;
        const double value = instance.routed[feature];
        if (value <= low)
            moves_.push_back({feature, ensemble_.next_above(feature, low)});
        else if (value > high)
            moves_.push_back({feature, high});
    }
    std::ranges::sort(states_);
    states_.erase(std::ranges::unique(states_).begin(), states_.end());
    for (const auto feature : states_)
        moves_.push_back({feature, open_state(ensemble_, instance, leaf, feature)});
    return moves_;
}

} // namespace carve
