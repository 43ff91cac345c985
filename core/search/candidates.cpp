// The search's candidates: cells per feature that may be an attack, made affordable and better.
#include <algorithm>
#include <limits>

#include "search/descent.hpp"

namespace carve {

void Descent::poll(std::vector<std::int32_t>& cells) {
    cells.clear();
    std::vector<std::int64_t> votes;
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f) {
        const auto& feature = reduction_.features[f];
        votes.assign(feature.count + 1, 0); // differences of neighbours
        for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
            const std::int32_t s = reduction_.slots_of_feature[i];
            const auto& slot = reduction_.slots[s];
            const auto& tree = reduction_.trees[slot.tree];
            const auto& leaf = reduction_.leaves[dual_.leaf(slot.tree)];
            for (std::int32_t e = leaf.entry_begin; e < leaf.entry_end; ++e) {
                if (reduction_.entries[e].slot != s)
                    continue;
                const Reduction::Range asked =
                    reduction_.cells_of(slot, reduction_.ranges[reduction_.entries[e].range]);
                votes[asked.low] += tree.spread;
                votes[asked.high + 1] -= tree.spread;
            }
        }
        for (std::int32_t cell = 1; cell < feature.count; ++cell)
            votes[cell] += votes[cell - 1];
        std::int32_t best = feature.start;
        for (std::int32_t cell = feature.open.low; cell <= feature.open.high; ++cell)
            if (votes[cell] > votes[best])
                best = cell;
        cells.push_back(best);
    }
}

void Descent::place(const std::vector<std::int32_t>& cells) {
    for (std::size_t f = 0; f < cells.size(); ++f)
        position_.move(static_cast<std::int32_t>(f), cells[f]);
}

// Takes moves back, the least useful for their cost first, until the rest is affordable, as the
// cells nearest to the instance are.
void Descent::repair(std::vector<std::int32_t>& cells) {
    double cost = reduction_.cost_of(cells);
    while (!reduction_.affordable(cells, cost)) {
        std::int32_t worst = -1;
        double worst_rate = std::numeric_limits<double>::infinity();
        for (std::int32_t f = 0; f < static_cast<std::int32_t>(cells.size()); ++f) {
            const auto& feature = reduction_.features[f];
            const double* const price = reduction_.cost.data() + feature.first;
            const double saved = price[cells[f]] - price[feature.start];
            if (saved <= 0 || aim_.stopwatch->expired())
                continue;
            const double rate = static_cast<double>(position_.profile(f)[feature.start]) / saved;
            if (worst < 0 || rate < worst_rate) {
                worst = f;
                worst_rate = rate;
            }
        }
        if (worst < 0) {
            choose(cells, [&](std::int32_t f) { return reduction_.features[f].start; });
            place(cells);
            return;
        }
        cells[worst] = reduction_.features[worst].start;
        position_.move(worst, cells[worst]);
        cost = reduction_.cost_of(cells);
    }
}

// Moves one feature at a time, as long as that helps.
void Descent::polish(std::vector<std::int32_t>& cells) {
    double cost = reduction_.cost_of(cells);
    for (int round = 0; round < 32; ++round) {
        std::int64_t best = 0;
        double best_rate = 0;
        std::int32_t best_feature = -1;
        std::int32_t best_cell = 0;
        for (std::int32_t f = 0; f < static_cast<std::int32_t>(cells.size()); ++f) {
            if (aim_.stopwatch->expired())
                return;
            const auto& feature = reduction_.features[f];
            const double* const price = reduction_.cost.data() + feature.first;
            const std::vector<std::int64_t>& profile = position_.profile(f);
            for (std::int32_t cell = feature.open.low; cell <= feature.open.high; ++cell) {
                const double extra = price[cell] - price[cells[f]];
                if (profile[cell] >= 0 || cost + extra > reduction_.capacity() - reduction_.slack())
                    continue;
                const double rate = static_cast<double>(-profile[cell]) / std::max(extra, 1e-3);
                if (best_feature < 0 || rate > best_rate) {
                    best = profile[cell];
                    best_rate = rate;
                    best_feature = f;
                    best_cell = cell;
                }
            }
        }
        if (best >= 0)
            break;
        cells[best_feature] = best_cell;
        position_.move(best_feature, best_cell);
        cost = reduction_.cost_of(cells);
    }
}

void Descent::consider(std::vector<std::int32_t>& cells, bool thoroughly) {
    place(cells);
    repair(cells);
    aim_.keep(reduction_, cells, position_.total());
    if (thoroughly && !aim_.found()) {
        polish(cells);
        aim_.keep(reduction_, cells, position_.total());
    }
}

void Descent::try_votes(bool root, int sweep) {
    choose(trial_, [&](std::int32_t f) { return dual_.vote(f); });
    if (trial_ == tried_)
        return;
    tried_ = trial_;
    consider(trial_, !root || sweep % 8 == 3);
    if (root && sweep == 3 && !aim_.found()) {
        choose(trial_, [&](std::int32_t f) { return reduction_.features[f].start; });
        consider(trial_, true);
    }
}

} // namespace carve
