#include "proofs/by_price.hpp"

#include <algorithm>
#include <limits>

namespace carve {

ByPrice::Bound ByPrice::bound(const Objective& objective) {
    knapsack_.clear({});
    double total = objective.constant();
    for (std::size_t tree = 0; tree < reduction_.home.size(); ++tree)
        total += objective.value(reduction_.home[tree]);
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t) {
        const auto cost_of = [&](const Reduction::Leaf& leaf) {
            double cost = 0;
            for (std::int32_t e = leaf.entry_begin; e < leaf.entry_end; ++e)
                cost += domain_.extra_cost(reduction_.entries[e]);
            return cost;
        };
        // The best leaf that costs nothing more is taken in any case; there is one, as every axis
        // has a cell that costs no more than what is committed.
        options_.clear();
        double least = std::numeric_limits<double>::infinity();
        for (std::int32_t i = 0; i < domain_.alive_count(t); ++i) {
            const std::int32_t l = domain_.alive(t, i);
            const double cost = cost_of(reduction_.leaves[l]);
            const double value = objective.value(reduction_.leaves[l].node);
            if (cost <= 0)
                least = std::min(least, value);
            options_.push_back({cost, value, l});
        }
        total += least - objective.value(reduction_.home[reduction_.trees[t].id]);
        std::erase_if(options_, [&](const Option& option) { return !(option.gain < least); });
        for (Option& option : options_)
            option.gain = least - option.gain;
        if (!options_.empty())
            knapsack_.add_group(t, options_, [](std::int32_t, std::int32_t) { return false; });
    }
    const double capacity = std::max(0.0, domain_.remaining());
    const Knapsack::Relaxation relaxed = knapsack_.relaxation(capacity);
    partial_ = relaxed.last.leaf;
    return {total - relaxed.gain, relaxed.price * reduction_.capacity()};
}

std::optional<Cutting::Place> ByPrice::cut() const {
    const Reduction::Entry* dearest = nullptr;
    const auto look_at = [&](std::int32_t l) {
        const auto& leaf = reduction_.leaves[l];
        for (std::int32_t e = leaf.entry_begin; e < leaf.entry_end; ++e) {
            const auto& entry = reduction_.entries[e];
            if (domain_.extra_cost(entry) > (dearest == nullptr ? 0 : domain_.extra_cost(*dearest)))
                dearest = &entry;
        }
    };
    if (partial_ >= 0)
        look_at(partial_);
    for (const auto& pick : knapsack_.picks)
        look_at(pick.leaf);
    if (dearest == nullptr)
        return {};
    const auto& slot = reduction_.slots[dearest->slot];
    const auto cells = domain_.cells_of(slot, reduction_.ranges[dearest->range]);
    const bool above =
        cells.low > domain_.low(slot.feature) && cells.low > reduction_.features[slot.feature].home;
    return Cutting::Place{slot.feature, above ? cells.low - 1 : cells.high};
}

} // namespace carve
