// Splits by sets of categories, as LightGBM finds them.
//
// Categories are put in order of  gradient / (hessian + smoothing);  for a convex loss the best set
// is an end of that order. A category of few rows in the leaf is not named: it stays on the right,
// with what was never seen. Categories are many where thresholds are few, so that a split by them
// has to do better: both sides' weights are counted as larger than they are.
#include <algorithm>
#include <vector>

#include "training/gains.hpp"

namespace carve {

namespace {

constexpr double smoothing = 10;
constexpr double extra_weight = 10;
constexpr std::int64_t least_named = 10; // rows of a category
constexpr std::size_t most_named = 32;   // categories of a set

struct Named {
    double order;
    int code;
    Sums sums;
};

std::vector<Named> named_categories(const Gains& gains, const Codes& codes, int feature,
                                    const Sums* bins) {
    std::vector<Named> found;
    for (int code = 1; code < codes.codes_of(feature); ++code) {
        const Sums& sums = bins[codes.swapped(feature, code)];
        if (gains.units.rows(sums) >= least_named)
            found.push_back(
                {gains.units.gradient(sums) / (gains.units.hessian(sums) + smoothing), code, sums});
    }
    std::ranges::sort(found, [](const Named& a, const Named& b) {
        return a.order != b.order ? a.order < b.order : a.code < b.code;
    });
    return found;
}

} // namespace

void find_best_set(const Gains& gains, const Codes& codes, int feature, const Sums* bins,
                   const LeafFigures& leaf, bool drawn, Cut& best) {
    std::vector<Named> named = named_categories(gains, codes, feature, bins);
    const std::size_t most = std::min(most_named, (named.size() + 1) / 2);
    for (const bool from_below : {true, false}) {
        if (!from_below)
            std::ranges::reverse(named);
        if (drawn && from_below != (leaf.draw % 2 == 0))
            continue;
        Sums left_sums;
        CodeSet set;
        for (std::size_t i = 0; i < most; ++i) {
            left_sums += named[i].sums;
            set.add(named[i].code);
            if (drawn && i != leaf.draw / 2 % most)
                continue;
            const Sums right_sums = leaf.sums - left_sums;
            if (!gains.may_be_leaf(left_sums) || !gains.may_be_leaf(right_sums))
                continue;
            Figures left = gains.figures(left_sums);
            Figures right = gains.figures(right_sums);
            left.weight += extra_weight;
            right.weight += extra_weight;
            const double slant = left.slant(right);
            const double gain = left.fall(leaf.bounds) + right.fall(leaf.bounds) - leaf.before;
            if (slant != 0 && gain > best.gain)
                best = {gain, feature, slant < 0, 0, false, true, set, left_sums};
        }
    }
}

} // namespace carve
