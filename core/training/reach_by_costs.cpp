#include "training/reach_by_costs.hpp"

#include <algorithm>

#include "numbers/units.hpp"

namespace carve {

void ReachByCosts::find(const Rows& rows, std::span<const std::int64_t> chosen, Reached& reached) {
    reached.clear();
    for (const std::int64_t row : chosen) {
        with_row(rows, row, [&](const auto* values) { instance_.load(values); });
        find_row(reached);
    }
}

void ReachByCosts::find_row(Reached& reached) {
    for (int tree = 0; tree < ensemble_.n_trees(); ++tree) {
        std::int32_t home = -1;
        others_.clear();
        reach_.walk(tree, instance_, false, [&](std::int32_t node, double cost) {
            const std::int32_t leaf = numbers_.of(node);
            if (home < 0)
                home = leaf;
            else
                others_.emplace_back(static_cast<float>(cost), leaf);
        });
        reached.home.push_back(home);
        if (others_.empty())
            continue;
        std::ranges::sort(others_);
        for (const auto& [cost, leaf] : others_) {
            reached.leaf.push_back(leaf);
            reached.cost.push_back(cost);
        }
        reached.contests.push_back({tree, units::index(reached.leaf.size())});
    }
    reached.end.push_back(units::index(reached.contests.size()));
}

} // namespace carve
