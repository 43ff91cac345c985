#include "training/block_forest.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace carve {

namespace {

void check(const RowBlocks& rows, const CodedTree& tree, std::span<const double> values) {
    const auto n = static_cast<std::int32_t>(tree.splits.size());
    if (values.size() != tree.splits.size() + 1 || values.size() > BlockForest::most_leaves)
        throw std::invalid_argument("a tree has one leaf more than splits, and at most 256 leaves");
    if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
        throw std::invalid_argument("leaf values must be finite");
    for (std::int32_t i = 0; i < n; ++i) {
        const auto& split = tree.splits[static_cast<std::size_t>(i)];
        for (const std::int32_t child : {split.left, split.right})
            if (child >= n || child < ~n || (child >= 0 && child <= i))
                throw std::invalid_argument("a child must be a leaf or come after its parent");
        if (split.feature < 0 || split.feature >= rows.features())
            throw std::invalid_argument("a split tests a feature that the rows lack");
        const bool by_set = rows.kind(split.feature) == FeatureKind::categories;
        if (by_set != (split.set >= 0) ||
            (!by_set && (split.position < 0 || split.position >= rows.positions(split.feature))))
            throw std::invalid_argument("a split is at no threshold of its feature");
    }
}

} // namespace

void BlockForest::add(const RowBlocks& rows, const CodedTree& tree, int output,
                      std::span<const double> values) {
    check(rows, tree, values);
    trees_.push_back({tests_.size(), order_.size(), static_cast<int>(tree.splits.size()), output});
    for (const auto& split : tree.splits) {
        BlockTest test{};
        test.feature = static_cast<std::uint32_t>(split.feature);
        test.set = -1;
        if (split.set >= 0) {
            test.set = static_cast<std::int32_t>(sets_.size());
            const CodeSet& set = tree.sets[static_cast<std::size_t>(split.set)];
            for (int code = 0; code < 256; ++code)
                sets_.push_back(set.holds(code) ? 0 : 1);
            test.left_limit = 0;
            test.right_limit = 1;
            test.is_translated = 1;
        } else {
            if (split.missing_left != 0 &&
                rows.kind(split.feature) == FeatureKind::numbers_or_missing)
                test.is_translated = 1;
            const int offset = test.is_translated - RowBlocks::bias;
            test.left_limit =
                static_cast<std::int8_t>(rows.can_left(split.feature)[split.position] + offset);
            test.right_limit = static_cast<std::int8_t>(
                rows.must_left(split.feature)[split.position] + 1 + offset);
        }
        test.leaf_children =
            static_cast<std::uint8_t>((split.left < 0 ? 1 : 0) | (split.right < 0 ? 2 : 0));
        test.left = static_cast<std::uint8_t>(split.left < 0 ? ~split.left : split.left);
        test.right = static_cast<std::uint8_t>(split.right < 0 ? ~split.right : split.right);
        tests_.push_back(test);
    }
    const std::size_t first = order_.size();
    order_.resize(first + values.size());
    std::iota(order_.begin() + static_cast<std::ptrdiff_t>(first), order_.end(), std::uint8_t{0});
    low_ranks_.resize(order_.size());
    high_ranks_.resize(order_.size());
    sorted_.resize(order_.size() + 32); // see BlockKernel::add_values
    set_values(trees_.size() - 1, values.data());
}

void BlockForest::find_worst(const BlockKernel& kernel, const BlockCodes& codes, std::size_t tree,
                             std::uint8_t* low, std::uint8_t* high) const {
    const Tree& own = trees_[tree];
    if (own.splits == 0) {
        for (std::uint8_t* const ranks : {low, high})
            if (ranks != nullptr)
                std::memset(ranks, 0, RowBlocks::block_size);
        return;
    }
    kernel.find_worst({tests_.data() + own.first_test, sets_.data(), own.splits,
                       low_ranks_.data() + own.first_leaf, high_ranks_.data() + own.first_leaf},
                      codes, low, high);
}

} // namespace carve
