#include "training/split_finder.hpp"

#include <algorithm>
#include <cmath>
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

FeatureSplit SplitFinder::find(int feature, const LeafSums& leaf, const std::uint64_t* down,
                               const std::uint64_t* up, std::uint64_t draw) const {
    return rows_.kind(feature) == FeatureKind::categories
               ? find_set(feature, leaf, down, up, draw)
               : find_threshold(feature, leaf, down, up, draw);
}

FeatureSplit SplitFinder::find_threshold(int feature, const LeafSums& leaf,
                                         const std::uint64_t* down, const std::uint64_t* up,
                                         std::uint64_t draw) const {
    FeatureSplit best;
    best.feature = feature;
    const int positions = rows_.positions(feature);
    if (positions == 0)
        return best;
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
    const SideSums missing =
        has_missing ? SideSums{down[RowBlocks::missing_code], up[RowBlocks::missing_code]}
                    : SideSums{};

    const double total_hessian = hessian(leaf.sums);
    const double rows_per_hessian = format_.counts_rows() || !(total_hessian > 0)
                                        ? 0.0
                                        : static_cast<double>(leaf.rows) / total_hessian;
    const double origin = value(leaf.sums, leaf);
    std::uint64_t left_down[most_positions];
    std::uint64_t left_up[most_positions];
    GainInput input{};
    input.down = left_down;
    input.up = left_up;
    input.g_shift = format_.g_shift;
    input.h_shift = format_.h_shift;
    input.h_mask = format_.h_mask;
    input.row_mask = format_.row_mask;
    input.g_unit = static_cast<float>(format_.g_unit);
    input.h_unit = static_cast<float>(format_.h_unit);
    input.rows_per_hessian = static_cast<float>(rows_per_hessian);
    input.total_gradient = static_cast<float>(gradient(leaf.sums));
    input.total_hessian = static_cast<float>(total_hessian);
    input.total_rows = static_cast<float>(leaf.rows);
    input.l1 = static_cast<float>(options_.lambda_l1);
    input.l2 = static_cast<float>(options_.lambda_l2);
    input.origin = static_cast<float>(origin);
    input.low = static_cast<float>(leaf.low - origin);
    input.high = static_cast<float>(leaf.high - origin);
    // No side may be empty; estimated numbers of rows are not whole.
    input.least_rows = static_cast<float>(std::max<std::int64_t>(options_.min_data_in_leaf, 1)) -
                       (format_.counts_rows() ? 0.0F : 0.5F);
    input.least_hessian =
        static_cast<float>(std::max(options_.min_sum_hessian_in_leaf, 0.5 * format_.h_unit));
    for (const bool left_lower : {true, false})
        for (const bool missing_left : {false, true}) {
            if (missing_left && !has_missing)
                continue;
            const SideSums base = missing_left ? missing : SideSums{};
            const int last = missing_left ? std::min(end, rows_.thresholds(feature)) : end;
            const std::uint8_t* const by_down =
                left_lower ? rows_.can_left(feature) : rows_.must_left(feature);
            const std::uint8_t* const by_up =
                left_lower ? rows_.must_left(feature) : rows_.can_left(feature);
            int count = 0;
            for (int j = first; j < last; ++j, ++count) {
                left_down[count] = base.down + down_below[by_down[j]];
                left_up[count] = base.up + up_below[by_up[j]];
            }
            if (count == 0)
                continue;
            input.count = (count + 15) / 16 * 16;
            std::fill(left_down + count, left_down + input.count, std::uint64_t{0});
            std::fill(left_up + count, left_up + input.count, std::uint64_t{0});
            input.sign = left_lower ? 1.0F : -1.0F;
            const SplitGain found = kernel_.best_gain(input);
            const double gain = static_cast<double>(found.gain) - options_.min_gain_to_split;
            if (found.gain > 0 && gain > best.gain) {
                best.gain = gain;
                best.position = first + found.position;
                best.left_lower = left_lower;
                best.missing_left = missing_left;
                best.left = {left_down[found.position], left_up[found.position]};
            }
        }
    return best;
}

FeatureSplit SplitFinder::find_set(int feature, const LeafSums& leaf, const std::uint64_t* down,
                                   const std::uint64_t* up, std::uint64_t draw) const {
    const double total_hessian = hessian(leaf.sums);
    const auto rows_of = [&](const SideSums& sums) {
        return format_.counts_rows() ? static_cast<double>(format_.rows(sums.down + sums.up))
                                     : hessian(sums) * static_cast<double>(leaf.rows) /
                                           std::max(total_hessian, 1e-300);
    };
    std::vector<Named> named;
    for (int code = 1; code < rows_.bins(feature); ++code) {
        const SideSums sums{down[code], up[code]};
        if (rows_of(sums) >= least_named)
            named.push_back({gradient(sums) / (hessian(sums) + smoothing), code, sums});
    }
    std::ranges::sort(named, [](const Named& a, const Named& b) {
        return a.order != b.order ? a.order < b.order : a.code < b.code;
    });
    const auto may_be_leaf = [&](const SideSums& sums) {
        return rows_of(sums) >= static_cast<double>(options_.min_data_in_leaf) &&
               hessian(sums) >= options_.min_sum_hessian_in_leaf;
    };
    // Twice the loss of a value, with its sign changed.
    const auto fall = [&](const SideSums& sums, double extra, double& best_value) {
        const double g = soft(gradient(sums));
        const double weight = hessian(sums) + options_.lambda_l2 + extra;
        best_value = weight > 0 ? -g / weight : 0;
        const double given = std::clamp(best_value, leaf.low, leaf.high);
        return -(2 * g * given + weight * given * given);
    };
    FeatureSplit best;
    best.feature = feature;
    double ignored = 0;
    const double before = fall(leaf.sums, 0, ignored) + options_.min_gain_to_split;
    const std::size_t most = std::min(most_named, (named.size() + 1) / 2);
    for (const bool from_below : {true, false}) {
        if (!from_below)
            std::ranges::reverse(named);
        if (options_.extra_trees && from_below != (draw % 2 == 0))
            continue;
        SideSums left;
        CodeSet set;
        for (std::size_t i = 0; i < most; ++i) {
            left = left + named[i].sums;
            set.add(named[i].code);
            const SideSums right = leaf.sums - left;
            if ((options_.extra_trees && i != draw / 2 % most) || !may_be_leaf(left) ||
                !may_be_leaf(right))
                continue;
            double left_value = 0;
            double right_value = 0;
            const double gain = fall(left, extra_weight, left_value) +
                                fall(right, extra_weight, right_value) - before;
            if (left_value != right_value && gain > best.gain)
                best = {gain, feature, 0, left_value < right_value, false, true, set, left};
        }
    }
    return best;
}

} // namespace carve
