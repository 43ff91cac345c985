#include "search/aim.hpp"

#include <algorithm>

namespace carve {

void Aim::set(const Instance& given, const Objective& pushed, Goal what, const Stopwatch& limit,
              const std::vector<const Objective*>& also) {
    instance = &given;
    objective = &pushed;
    stopwatch = &limit;
    rivals = also;
    if (!also.empty())
        rivals.push_back(&pushed);
    goal = what;
    exactly = false;
    need = pushed.tie_wins() ? 1 : 0;
    nodes = 0;
    most_nodes = std::numeric_limits<std::int64_t>::max();
    best_features.clear();
    best_values.clear();
    best_total = pushed.total(whole_.home);
    wins = wins_everywhere(whole_.home);
}

bool Aim::wins_everywhere(const std::vector<std::int32_t>& leaves) const {
    const auto wins_against = [&](const Objective* rival) {
        return rival->wins(rival->total(leaves).sign());
    };
    return rivals.empty() ? wins_against(objective) : std::ranges::all_of(rivals, wins_against);
}

void Aim::keep(const Reduction& reduction, const std::vector<std::int32_t>& cells,
               std::int64_t total) {
    const auto is_of_interest = [this](std::int64_t units) {
        const bool may_win = goal == Goal::decide && !wins && units < need;
        return units < best || may_win || (exactly && units <= best + whole_.doubt);
    };
    if (!is_of_interest(total))
        return;
    routed_.assign(instance->routed, instance->routed + ensemble.n_features);
    for (std::size_t f = 0; f < cells.size(); ++f)
        if (const auto& feature = reduction.features[f]; cells[f] != feature.home)
            routed_[feature.id] = reduction.value(feature, cells[f]);
    std::vector<std::int32_t> leaves = whole_.home;
    for (const auto& tree : whole_.trees)
        leaves[tree.id] = ensemble.leaf_of(tree.id, routed_.data());
    const std::int64_t reached = whole_.total_of(leaves);
    if (!is_of_interest(reached))
        return;
    const ExactSum exact = objective->total(leaves);
    const bool winner = wins_everywhere(leaves);
    if (exactly) {
        ExactSum difference = exact;
        difference.subtract(best_total);
        if (difference.sign() >= 0)
            return;
    } else if (wins ? !winner : reached >= best && !winner) {
        return;
    }
    best = std::min(best, reached);
    best_total = exact;
    wins = wins || winner;
    best_features.clear();
    best_values.clear();
    for (std::size_t f = 0; f < cells.size(); ++f) {
        const auto& feature = reduction.features[f];
        if (cells[f] == feature.home)
            continue;
        best_features.push_back(feature.id);
        best_values.push_back(reduction.value(feature, cells[f]));
    }
    if (goal != Goal::decide && !exactly)
        cutoff = std::min(cutoff, whole_.total_below(best) + 1);
}

} // namespace carve
