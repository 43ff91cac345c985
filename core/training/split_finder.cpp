#include "training/split_finder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace carve {

namespace {

// Splits by sets of categories, as LightGBM finds them: categories in the order of
// gradient / (hessian + smoothing), of which the best set is, for a convex loss, an end.
constexpr double smoothing = 10;
constexpr double extra_weight = 10; // sets are many, so a split by one has to be better
constexpr double least_named = 10;  // rows of a category; others stay on the right
constexpr std::size_t most_named = 32;

struct Named {
    double order;
    int code;
    SideSums sums;
};

} // namespace

double SplitFinder::soft(double gradient) const {
    const double rest = std::max(0.0, std::fabs(gradient) - options_.lambda_l1);
    return gradient < 0 ? -rest : rest;
}

double SplitFinder::value(const SideSums& sums, const LeafSums& leaf) const {
    const double weight = hessian(sums) + options_.lambda_l2;
    return weight > 0 ? std::clamp(-soft(gradient(sums)) / weight, leaf.low, leaf.high) : 0;
}

void SplitFinder::find(int feature, const LeafSums& leaf, const std::uint64_t* down,
                       const std::uint64_t* up, std::uint64_t draw, FeatureSplit& best) const {
    if (rows_.kind(feature) == FeatureKind::categories)
        find_set(feature, leaf, down, up, draw, best);
    else
        find_threshold(feature, leaf, down, up, draw, best);
}

GainInput SplitFinder::input_of(const LeafSums& leaf, double extra_l2) const {
    const double total_hessian = hessian(leaf.sums);
    const double origin = value(leaf.sums, leaf);
    GainInput input{};
    input.format = format_;
    if (!format_.counts_rows() && total_hessian > 0)
        input.rows_per_hessian = static_cast<float>(static_cast<double>(leaf.rows) / total_hessian);
    input.total_gradient = static_cast<float>(gradient(leaf.sums));
    input.total_hessian = static_cast<float>(total_hessian);
    input.total_rows = static_cast<float>(leaf.rows);
    input.l1 = static_cast<float>(options_.lambda_l1);
    input.l2 = static_cast<float>(options_.lambda_l2 + extra_l2);
    input.origin_l2 = static_cast<float>(options_.lambda_l2 + 2 * extra_l2);
    input.origin = static_cast<float>(origin);
    input.low = static_cast<float>(leaf.low - origin);
    input.high = static_cast<float>(leaf.high - origin);
    // No side may be empty; estimated numbers of rows are not whole.
    input.least_rows = static_cast<float>(std::max<std::int64_t>(options_.min_data_in_leaf, 1)) -
                       (format_.counts_rows() ? 0.0F : 0.5F);
    input.least_hessian =
        static_cast<float>(std::max(options_.min_sum_hessian_in_leaf, 0.5 * format_.h_unit));
    return input;
}

// True, and `best` is the best of the candidates, numbered from 0, if it is better than before.
bool SplitFinder::improve(FeatureSplit& best, Candidates& left, GainInput& input,
                          bool left_lower) const {
    if (left.count == 0)
        return false;
    input.count = (left.count + 15) / 16 * 16;
    std::fill(left.down + left.count, left.down + input.count, std::uint64_t{0});
    std::fill(left.up + left.count, left.up + input.count, std::uint64_t{0});
    input.down = left.down;
    input.up = left.up;
    input.sign = left_lower ? 1.0F : -1.0F;
    const SplitGain found = kernel_.best_gain(input);
    const double gain = static_cast<double>(found.gain) - options_.min_gain_to_split;
    if (!(found.gain > 0 && gain > best.gain))
        return false;
    best.gain = gain;
    best.position = found.position;
    best.left_lower = left_lower;
    best.left = {left.down[found.position], left.up[found.position]};
    return true;
}

void SplitFinder::find_threshold(int feature, const LeafSums& leaf, const std::uint64_t* down,
                                 const std::uint64_t* up, std::uint64_t draw,
                                 FeatureSplit& best) const {
    const int positions = rows_.positions(feature);
    std::uint64_t down_below[256]; // sums of codes <= c
    std::uint64_t up_below[256];
    const int bins = rows_.bins(feature);
    SideSums sum;
    for (int code = 0; code < bins; ++code) {
        down_below[code] = sum.down += down[code];
        up_below[code] = sum.up += up[code];
    }
    const int first =
        options_.extra_trees ? static_cast<int>(draw % static_cast<unsigned>(positions)) : 0;
    const int end = options_.extra_trees ? first + 1 : positions;
    const bool has_missing = rows_.kind(feature) == FeatureKind::numbers_or_missing;
    GainInput input = input_of(leaf, 0);
    for (const bool left_lower : {true, false})
        for (const bool missing_left : {false, true}) {
            if (missing_left && !has_missing)
                continue;
            SideSums base;
            if (missing_left)
                base = {down[RowBlocks::missing_code], up[RowBlocks::missing_code]};
            const int last = missing_left ? std::min(end, rows_.thresholds(feature)) : end;
            const std::uint8_t* by_down = rows_.can_left(feature);
            const std::uint8_t* by_up = rows_.must_left(feature);
            if (!left_lower)
                std::swap(by_down, by_up);
            Candidates left;
            left.count = std::max(last - first, 0);
            for (int i = 0; i < left.count; ++i) {
                left.down[i] = base.down + down_below[by_down[first + i]];
                left.up[i] = base.up + up_below[by_up[first + i]];
            }
            if (improve(best, left, input, left_lower)) {
                best.feature = feature;
                best.position += first;
                best.missing_left = missing_left;
            }
        }
}

void SplitFinder::find_set(int feature, const LeafSums& leaf, const std::uint64_t* down,
                           const std::uint64_t* up, std::uint64_t draw, FeatureSplit& best) const {
    GainInput input = input_of(leaf, extra_weight);
    std::vector<Named> named;
    for (int code = 1; code < rows_.bins(feature); ++code) {
        const SideSums sums{down[code], up[code]};
        const double rows = format_.counts_rows()
                                ? static_cast<double>(format_.rows(sums.down + sums.up))
                                : hessian(sums) * static_cast<double>(input.rows_per_hessian);
        if (rows >= least_named)
            named.push_back({gradient(sums) / (hessian(sums) + smoothing), code, sums});
    }
    std::ranges::sort(named, [](const Named& a, const Named& b) {
        return a.order != b.order ? a.order < b.order : a.code < b.code;
    });
    const std::size_t most = std::min(most_named, (named.size() + 1) / 2);
    for (const bool left_lower : {false, true}) { // the lowest gradients want the highest values
        if (left_lower)
            std::ranges::reverse(named);
        if (most == 0 || (options_.extra_trees && left_lower != (draw % 2 != 0)))
            continue;
        const std::size_t first = options_.extra_trees ? draw / 2 % most : 0;
        const std::size_t end = options_.extra_trees ? first + 1 : most;
        Candidates left;
        SideSums sum;
        for (std::size_t i = 0; i < end; ++i) {
            sum = sum + named[i].sums;
            if (i >= first) {
                left.down[left.count] = sum.down;
                left.up[left.count++] = sum.up;
            }
        }
        if (!improve(best, left, input, left_lower))
            continue;
        best.feature = feature;
        best.set = {};
        for (std::size_t i = 0; i <= first + static_cast<std::size_t>(best.position); ++i)
            best.set.add(named[i].code);
    }
}

} // namespace carve
