#include "training/block_grower.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "training/bits.hpp"

namespace carve {

namespace {

constexpr std::size_t most_histogram_bytes = std::size_t{1} << 28; // kept for later splits
constexpr std::size_t chunk_blocks = 128;                          // at most

// Which features belong to a random fraction of them, but at least one.
std::vector<bool> draw_features(const std::vector<int>& features, double fraction,
                                std::uint64_t seed) {
    std::vector<bool> drawn(features.size(), fraction >= 1);
    if (fraction >= 1 || features.empty())
        return drawn;
    std::vector<std::pair<std::uint64_t, std::size_t>> ranked;
    for (std::size_t i = 0; i < features.size(); ++i)
        ranked.emplace_back(scrambled(seed, static_cast<std::uint64_t>(features[i])), i);
    const auto count = static_cast<std::ptrdiff_t>(
        std::max<long long>(1, std::llround(fraction * static_cast<double>(ranked.size()))));
    std::ranges::nth_element(ranked, ranked.begin() + count - 1);
    for (auto rank = ranked.begin(); rank < ranked.begin() + count; ++rank)
        drawn[rank->second] = true;
    return drawn;
}

} // namespace

BlockGrower::BlockGrower(const RowBlocks& rows, const BoostingOptions& options, ThreadPool& pool)
    : rows_(rows), options_(options), pool_(pool), histograms_(rows, pool), finder_(rows, options) {
    for (int f = 0; f < rows.features(); ++f)
        if (rows.positions(f) > 0 || (rows.kind(f) == FeatureKind::categories && rows.bins(f) > 1))
            usable_.push_back(f);
}

CodedTree BlockGrower::grow(const TreeRows& rows, std::uint64_t seed,
                            const std::function<bool()>& go_on) {
    given_ = rows;
    seed_ = seed;
    finder_.set_format(rows.format);
    CodedTree tree;
    leaves_.reserve(static_cast<std::size_t>(options_.num_leaves));
    start(rows);
    while (leaves_.size() < static_cast<std::size_t>(options_.num_leaves) && go_on()) {
        const auto best =
            std::ranges::max_element(leaves_, {}, [](const Leaf& leaf) { return leaf.split.gain; });
        if (!(best->split.gain > 0))
            break;
        split(static_cast<std::size_t>(best - leaves_.begin()), tree);
    }
    for (Leaf& leaf : leaves_) {
        tree.values.push_back(options_.learning_rate * finder_.value(leaf.sums, leaf));
        tree.hessians.push_back(finder_.hessian(leaf.sums));
        tree.rows.push_back(leaf.rows);
        histograms_.give_back(std::move(leaf.histogram));
    }
    leaves_.clear();
    return tree;
}

void BlockGrower::start(const TreeRows& rows) {
    features_.clear();
    const std::vector<bool> drawn = draw_features(usable_, options_.feature_fraction, seed_);
    for (std::size_t i = 0; i < usable_.size(); ++i)
        if (drawn[i])
            features_.push_back(usable_[i]);
    histograms_.use(rows, features_);
    Leaf root;
    const std::size_t blocks = rows.blocks.size();
    const std::size_t size =
        pool_.size() == 1 ? blocks : std::clamp<std::size_t>(blocks / 16, 1, chunk_blocks);
    root.chunks.resize((blocks + size - 1) / size);
    for (std::size_t j = 0; j < blocks; ++j) {
        const std::uint32_t block = rows.blocks[j];
        const std::uint64_t valid = rows_.valid(block);
        root.chunks[j / size].push_back({valid, block, static_cast<std::uint32_t>(j)});
        root.rows += rows_.rows_in(block);
        for (int i = 0; i < RowBlocks::block_size; ++i) {
            const std::uint64_t packed =
                (valid >> i & 1) *
                rows.packed[j * RowBlocks::block_size + static_cast<std::size_t>(i)];
            root.sums.down += (rows.down[j] >> i & 1) * packed;
            root.sums.up += (~rows.down[j] >> i & 1) * packed;
        }
    }
    leaves_.push_back(std::move(root));
    if (may_split(leaves_[0]))
        find_splits(leaves_[0], nullptr);
}

bool BlockGrower::may_split(const Leaf& leaf) const {
    return leaf.rows >= std::max<std::int64_t>(2, 2 * options_.min_data_in_leaf) &&
           (options_.max_depth <= 0 || leaf.depth < options_.max_depth) && !features_.empty();
}

// Finds the best splits of a leaf and, if any, of its sibling, whose histogram is still that of
// their parent.
void BlockGrower::find_splits(Leaf& counted, Leaf* sibling) {
    counted.histogram = histograms_.take();
    histograms_.count(counted.chunks, counted.histogram);
    std::vector<Leaf*> leaves{&counted};
    if (sibling != nullptr)
        leaves.push_back(sibling);
    std::vector<std::vector<bool>> wanted; // per leaf and feature
    for (const Leaf* const leaf : leaves)
        wanted.push_back(may_split(*leaf)
                             ? draw_features(features_, options_.feature_fraction_bynode,
                                             scrambled(seed_, leaf->number))
                             : std::vector<bool>(features_.size()));
    constexpr std::size_t per_task = 8; // features
    const std::size_t tasks = (features_.size() + per_task - 1) / per_task;
    std::vector<FeatureSplit> found(leaves.size() * tasks);
    pool_.run(static_cast<int>(tasks), [&](int, int task) {
        const std::size_t begin = static_cast<std::size_t>(task) * per_task;
        for (std::size_t i = begin; i < std::min(begin + per_task, features_.size()); ++i) {
            histograms_.finish(i, counted.sums, counted.histogram,
                               sibling != nullptr ? &sibling->histogram : nullptr);
            for (std::size_t p = 0; p < leaves.size(); ++p) {
                const Leaf& leaf = *leaves[p];
                if (wanted[p][i])
                    finder_.find(features_[i], leaf, histograms_.down(leaf.histogram, i),
                                 histograms_.up(leaf.histogram, i),
                                 scrambled(scrambled(~seed_, leaf.number),
                                           static_cast<std::uint64_t>(features_[i])),
                                 found[p * tasks + static_cast<std::size_t>(task)]);
            }
        }
    });
    for (std::size_t p = 0; p < leaves.size(); ++p) {
        Leaf& leaf = *leaves[p];
        leaf.split = {};
        for (std::size_t task = 0; task < tasks; ++task)
            if (found[p * tasks + task].gain > leaf.split.gain)
                leaf.split = found[p * tasks + task];
        std::size_t kept = 0;
        for (const Leaf& other : leaves_)
            kept += other.histogram.empty() ? 0 : histograms_.bytes();
        if (!(leaf.split.gain > 0))
            histograms_.give_back(std::move(leaf.histogram));
        else if (kept > most_histogram_bytes)
            leaf.histogram = {};
    }
}

void BlockGrower::split(std::size_t index, CodedTree& tree) {
    Leaf& left = leaves_[index];
    const FeatureSplit split = left.split;
    const auto node = static_cast<std::int32_t>(tree.splits.size());
    tree.splits.push_back({split.feature, split.position, ~static_cast<std::int32_t>(index),
                           ~static_cast<std::int32_t>(leaves_.size()), split.gain,
                           static_cast<std::uint8_t>(split.missing_left ? 1 : 0)});
    if (rows_.kind(split.feature) == FeatureKind::categories) {
        tree.splits.back().set = static_cast<std::int32_t>(tree.sets.size());
        tree.sets.push_back(split.set);
    }
    if (left.parent >= 0) {
        auto& above = tree.splits[static_cast<std::size_t>(left.parent)];
        (left.is_left ? above.left : above.right) = node;
    }
    Leaf right;
    right.chunks.resize(left.chunks.size());
    right.rows = partition(left, right, split);
    left.rows -= right.rows;
    Histogram histogram = std::move(left.histogram);
    right.sums = left.sums - split.left;
    right.low = left.low;
    right.high = left.high;
    if (options_.ordered) {
        const double middle =
            finder_.value(split.left, left) / 2 + finder_.value(right.sums, left) / 2;
        (split.left_lower ? left.high : left.low) = middle;
        (split.left_lower ? right.low : right.high) = middle;
    }
    left.sums = split.left;
    right.depth = ++left.depth;
    left.number = 2 * static_cast<std::uint64_t>(node) + 1;
    right.number = left.number + 1;
    left.parent = right.parent = node;
    left.is_left = true;
    left.split = {};
    leaves_.push_back(std::move(right)); // within the reserved capacity: `left` stays valid
    Leaf* smaller = &left;
    Leaf* larger = &leaves_.back();
    if (smaller->rows > larger->rows)
        std::swap(smaller, larger);
    if (leaves_.size() == static_cast<std::size_t>(options_.num_leaves) ||
        (!may_split(left) && !may_split(leaves_.back()))) {
        histograms_.give_back(std::move(histogram));
    } else if (histogram.empty()) {
        find_splits(*smaller, nullptr);
        find_splits(*larger, nullptr);
    } else {
        larger->histogram = std::move(histogram);
        find_splits(*smaller, larger);
    }
}

// Moves rows from `left` to `right` as the attacker pushes them; returns how many.
std::int64_t BlockGrower::partition(Leaf& left, Leaf& right, const FeatureSplit& split) {
    RowSplit rule{rows_.column(split.feature), given_.down.data(), nullptr, 0, 0, 0};
    std::uint8_t set[256];
    if (rows_.kind(split.feature) == FeatureKind::categories) {
        for (int code = 0; code < 256; ++code)
            set[code] = split.set.holds(code) ? 0 : 1;
        rule.set = set;
    } else {
        rule.shift = split.missing_left ? 1 : 0;
        const int offset = rule.shift - RowBlocks::bias;
        const int can_left = rows_.can_left(split.feature)[split.position];
        const int must_left = rows_.must_left(split.feature)[split.position];
        rule.down_limit =
            static_cast<std::int8_t>((split.left_lower ? can_left : must_left) + offset);
        rule.up_limit =
            static_cast<std::int8_t>((split.left_lower ? must_left : can_left) + offset);
    }
    std::vector<std::int64_t> moved(left.chunks.size());
    pool_.run(static_cast<int>(left.chunks.size()), [&](int, int task) {
        std::vector<BlockRows>& own = left.chunks[static_cast<std::size_t>(task)];
        std::vector<BlockRows>& other = right.chunks[static_cast<std::size_t>(task)];
        other.resize(own.size());
        const auto found = block_kernel().split_rows(rule, own.data(), own.size(), other.data());
        own.resize(found.kept);
        other.resize(found.moved);
        moved[static_cast<std::size_t>(task)] = found.rows;
    });
    return std::accumulate(moved.begin(), moved.end(), std::int64_t{0});
}

} // namespace carve
