// Where the search cuts a domain in two.
#include <algorithm>

#include "search/search.hpp"

namespace carve {

namespace {
constexpr std::size_t strong_candidates = 12;
}

// Cuts at which the trees' choices and the features' votes disagree, the most disputed first.
void Search::conflicts(std::vector<Cut>& cuts) {
    cuts.clear();
    struct Dispute {
        std::int32_t feature;
        std::int32_t last;
        double weight;
    };
    std::vector<Dispute> disputes;
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f) {
        if (domain_.low(f) == domain_.high(f))
            continue;
        const auto& feature = reduction_.features[f];
        const std::int32_t vote = std::clamp(dual_.vote(f), domain_.low(f), domain_.high(f));
        std::int32_t below = -1;            // nearest cut below the vote that a tree asks for
        std::int32_t above = feature.count; // nearest cut above it
        double weight_below = 0;
        double weight_above = 0;
        for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
            const std::int32_t s = reduction_.slots_of_feature[i];
            const auto& slot = reduction_.slots[s];
            const auto& leaf = reduction_.leaves[dual_.leaf(slot.tree)];
            const auto entry = std::find_if(reduction_.entries.begin() + leaf.entry_begin,
                                            reduction_.entries.begin() + leaf.entry_end,
                                            [&](const Reduction::Entry& e) { return e.slot == s; });
            if (entry == reduction_.entries.begin() + leaf.entry_end)
                continue;
            const Reduction::Range& range = reduction_.ranges[entry->range];
            const std::int32_t* const begin = reduction_.segment_begin.data() + slot.first;
            const std::int32_t low = begin[range.low];
            const std::int32_t high =
                range.high + 1 < slot.count ? begin[range.high + 1] - 1 : feature.count - 1;
            const auto spread = static_cast<double>(reduction_.trees[slot.tree].spread);
            if (high < vote) {
                below = std::max(below, high);
                weight_below += spread;
            } else if (low > vote) {
                above = std::min(above, low - 1);
                weight_above += spread;
            }
        }
        if (weight_below > 0)
            disputes.push_back({f, below, weight_below});
        if (weight_above > 0)
            disputes.push_back({f, above, weight_above});
    }
    std::ranges::sort(disputes,
                      [](const Dispute& a, const Dispute& b) { return a.weight > b.weight; });
    for (const Dispute& dispute : disputes)
        if (dispute.last >= domain_.low(dispute.feature) &&
            dispute.last < domain_.high(dispute.feature)) {
            cuts.push_back({dispute.feature, dispute.last, 0, 0});
            if (cuts.size() == strong_candidates)
                break;
        }
}

bool Search::choose_cut(std::int64_t bound, Cut& cut) {
    dual_.refresh();
    dual_.evaluate();
    conflicts(cuts_);
    if (cuts_.empty()) {
        // No dispute, yet no decision: prefer a feature that votes to move.
        std::int32_t chosen = -1;
        for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f)
            if (domain_.low(f) < domain_.high(f) &&
                (chosen < 0 || dual_.vote(f) != reduction_.features[f].home))
                chosen = f;
        if (chosen < 0)
            return false;
        const std::int32_t vote =
            std::clamp(dual_.vote(chosen), domain_.low(chosen), domain_.high(chosen));
        cuts_.push_back({chosen, std::min(vote, domain_.high(chosen) - 1), 0, 0});
    }
    double best = -1;
    for (Cut& candidate : cuts_) {
        candidate.left =
            std::max(bound, dual_.evaluate_if(candidate.feature, domain_.low(candidate.feature),
                                              candidate.last));
        candidate.right = std::max(bound, dual_.evaluate_if(candidate.feature, candidate.last + 1,
                                                            domain_.high(candidate.feature)));
        const double gap = static_cast<double>(cutoff_ - bound);
        const double left = std::min(static_cast<double>(candidate.left - bound), gap);
        const double right = std::min(static_cast<double>(candidate.right - bound), gap);
        const double score = 5 * std::min(left, right) + std::max(left, right);
        if (score > best) {
            best = score;
            cut = candidate;
        }
    }
    return true;
}

} // namespace carve
