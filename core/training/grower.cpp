#include "training/grower.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "running/team.hpp"
#include "training/bits.hpp"
#include "training/gains.hpp"
#include "training/histograms.hpp"

namespace carve {

namespace {

constexpr std::size_t most_histogram_bytes = std::size_t{1} << 28; // kept for later splits

std::vector<int> usable_features(const Codes& codes, const GrowerRows& rows) {
    std::vector<int> usable;
    for (int f = 0; f < codes.features(); ++f)
        if (codes.codes_of(f) > 1 && rows.features[static_cast<std::size_t>(f)] != 0)
            usable.push_back(f);
    return usable;
}

std::vector<Sums> sums_of(const GrowerRows& rows, const SumUnits& units) {
    std::vector<Sums> sums;
    sums.reserve(rows.gradient.size());
    for (std::size_t i = 0; i < rows.gradient.size(); ++i)
        sums.push_back(units.of(rows.gradient[i], rows.hessian[i]));
    return sums;
}

class Grower {
  public:
    Grower(const Codes& codes, const GrowerRows& rows, const GrowerOptions& options, int threads,
           const SumUnits& units, const Join& join)
        : codes_(codes), given_(rows), options_(options), join_(join), gains_(units, options),
          team_(worker_count(threads, codes.groups(), 1)),
          order_(rows.used.begin(), rows.used.end()), spare_(order_.size()),
          sums_(sums_of(rows, units)), usable_(usable_features(codes, rows)),
          histograms_(codes, usable_, sums_, rows.down) {
        looked_at_ = std::max<std::size_t>(
            1, static_cast<std::size_t>(
                   std::llround(options.feature_share * static_cast<double>(usable_.size()))));
    }

    CodedTree grow(const std::function<bool()>& go_on) {
        CodedTree tree;
        leaves_.reserve(static_cast<std::size_t>(options_.leaves));
        start();
        while (leaves_.size() < static_cast<std::size_t>(options_.leaves) && go_on()) {
            const auto best = std::ranges::max_element(
                leaves_, {}, [](const Leaf& leaf) { return leaf.cut.gain; });
            if (!best->cut.exists())
                break;
            split(static_cast<std::size_t>(best - leaves_.begin()), tree);
        }
        for (const Leaf& leaf : leaves_) {
            tree.values.push_back(gains_.figures(leaf.sums).value(leaf.bounds));
            tree.hessians.push_back(gains_.units.hessian(leaf.sums));
            tree.rows.push_back(gains_.units.rows(leaf.sums));
        }
        return tree;
    }

  private:
    struct Leaf {
        std::size_t begin = 0; // of this process's rows in order_
        std::size_t end = 0;
        Sums sums; // of the rows of all processes
        ValueBounds bounds;
        int depth = 0;
        std::uint64_t number = 0;       // of the node: the root has 0, the children of split i
        std::int32_t parent = -1;       // 2i + 1 and 2i + 2
        bool is_left = false;           //
        Histogram histogram;            // empty: not kept
        std::vector<std::uint8_t> seen; // per feature: is it looked at?
        Cut cut;
    };

    int first_of(int group) const { return group * Codes::group; }
    int end_of(int group) const { return std::min(codes_.features(), (group + 1) * Codes::group); }

    // ── cuts ────────────────────────────────────────────────────────────────────────────────────

    Cut best_cut(const Leaf& leaf, int group) const {
        Cut best;
        LeafFigures whole{leaf.sums, leaf.bounds, 0, 0};
        whole.before = gains_.figures(leaf.sums).fall(leaf.bounds) + options_.least_gain;
        for (int f = first_of(group); f < end_of(group); ++f) {
            if (leaf.seen[static_cast<std::size_t>(f)] == 0)
                continue;
            whole.draw = draw_of(leaf, f);
            if (codes_.kind(f) == CodeKind::categories) {
                find_best_set(gains_, codes_, f, histograms_.bins(leaf.histogram, f, true), whole,
                              options_.drawn, best);
                continue;
            }
            const bool has_missing = codes_.missing_code(f) >= 0;
            for (const bool left_lower : {true, false})
                for (const bool missing_left : {false, true})
                    if (has_missing || !missing_left)
                        find_best_position({0, f, left_lower, 0, missing_left, false, {}, {}},
                                           histograms_.bins(leaf.histogram, f, left_lower), whole,
                                           best);
        }
        return best;
    }

    // The best position of a cut that is like `cut`, if it is better than `best`.
    void find_best_position(Cut cut, const Sums* bins, const LeafFigures& leaf, Cut& best) const {
        const int missing = codes_.missing_code(cut.feature);
        const int positions =
            codes_.thresholds_of(cut.feature) + (missing >= 0 && !cut.missing_left ? 1 : 0);
        const int drawn = options_.drawn ? drawn_position(leaf, cut.feature) : -1;
        if (cut.missing_left)
            cut.left = bins[codes_.swapped(cut.feature, missing)];
        const std::uint64_t none = cut.left.packed;
        for (cut.position = 0; cut.position < positions; ++cut.position) {
            const Sums& bin = bins[codes_.swapped(cut.feature, cut.position)];
            cut.left += bin;
            // Where no row is, the cut is the one before it, or none.
            if (drawn >= 0 ? cut.position != drawn : bin.packed == 0)
                continue;
            // Missing values alone are told from numbers by having these on the left.
            if (cut.missing_left && cut.left.packed == none)
                continue;
            const Sums right_sums = leaf.sums - cut.left;
            if (!gains_.may_be_leaf(cut.left))
                continue;
            if (!gains_.may_be_leaf(right_sums))
                break;
            const Figures left = gains_.figures(cut.left);
            const Figures right = gains_.figures(right_sums);
            const double slant = left.slant(right);
            if (cut.left_lower ? slant >= 0 : slant <= 0)
                continue;
            cut.gain = left.fall(leaf.bounds) + right.fall(leaf.bounds) - leaf.before;
            if (cut.gain > best.gain)
                best = cut;
        }
    }

    // ── growing ─────────────────────────────────────────────────────────────────────────────────

    std::int64_t rows(const Leaf& leaf) const { return gains_.units.rows(leaf.sums); }

    bool may_split(const Leaf& leaf) const {
        return rows(leaf) >= 2 * options_.least_rows &&
               (options_.depth <= 0 || leaf.depth < options_.depth) && !usable_.empty();
    }

    // What the leaf's random choices for the feature go by.
    std::uint64_t draw_of(const Leaf& leaf, int feature) const {
        const std::uint64_t seed = scrambled(~options_.seed, leaf.number);
        return scrambled(seed, static_cast<std::uint64_t>(feature));
    }
    // Which threshold of the feature the leaf looks at; -1 where there is none.
    int drawn_position(const LeafFigures& leaf, int feature) const {
        const auto count = static_cast<std::uint64_t>(codes_.codes_of(feature) - 1);
        return count == 0 ? -1 : static_cast<int>(leaf.draw % count);
    }

    void choose_features(Leaf& leaf) const {
        const std::uint64_t seed = scrambled(options_.seed, leaf.number);
        std::vector<std::pair<std::uint64_t, int>> ranked; // those of the lowest ranks are seen
        ranked.reserve(usable_.size());
        for (const int f : usable_)
            ranked.emplace_back(scrambled(seed, static_cast<std::uint64_t>(f)), f);
        const std::size_t seen = std::min(looked_at_, ranked.size());
        std::ranges::nth_element(ranked, ranked.begin() + static_cast<std::ptrdiff_t>(seen));
        leaf.seen.assign(static_cast<std::size_t>(codes_.features()), 0);
        for (std::size_t i = 0; i < seen; ++i)
            leaf.seen[static_cast<std::size_t>(ranked[i].second)] = 1;
    }

    void start() {
        Leaf root;
        root.end = order_.size();
        for (const std::int32_t row : order_)
            root.sums += sums_[static_cast<std::size_t>(row)];
        if (join_) {
            const auto sums = std::make_shared<std::vector<std::int64_t>>();
            root.sums.append_to(*sums);
            join_(sums);
            root.sums.take(sums->data());
        }
        leaves_.push_back(std::move(root));
        if (may_split(leaves_[0]))
            look_at({&leaves_[0]}, {});
    }

    // Fills the histograms of one leaf, or of two siblings from what their parent's was, and finds
    // their best cuts.
    void look_at(std::vector<Leaf*> pair, Histogram parent) {
        if (pair.size() == 2 && rows(*pair[0]) > rows(*pair[1]))
            std::swap(pair[0], pair[1]);
        const bool subtracts = pair.size() == 2 && !parent.empty();
        if (subtracts)
            pair[1]->histogram = std::move(parent);
        std::vector<Leaf*> fresh(pair.begin(), pair.end() - (subtracts ? 1 : 0));
        for (Leaf* const leaf : pair)
            choose_features(*leaf);
        for (Leaf* const leaf : fresh)
            leaf->histogram = histograms_.blank();
        std::vector<Cut> found(pair.size() * static_cast<std::size_t>(codes_.groups()));
        const auto count = [&](int group) {
            for (Leaf* const leaf : fresh)
                histograms_.count({order_.data() + leaf->begin, leaf->end - leaf->begin}, group,
                                  leaf->histogram);
        };
        const auto judge = [&](int group) {
            for (Leaf* const leaf : fresh)
                histograms_.fill_usual(leaf->sums, group, leaf->histogram);
            if (subtracts)
                histograms_.subtract(pair[0]->histogram, group, pair[1]->histogram);
            for (std::size_t i = 0; i < pair.size(); ++i)
                if (may_split(*pair[i]))
                    found[static_cast<std::size_t>(group) * pair.size() + i] =
                        best_cut(*pair[i], group);
        };
        if (join_) {
            team_.share(codes_.groups(), count);
            std::vector<Histogram*> counted;
            for (Leaf* const leaf : fresh)
                counted.push_back(&leaf->histogram);
            histograms_.join(counted, join_);
            team_.share(codes_.groups(), judge);
        } else {
            team_.share(codes_.groups(), [&](int group) {
                count(group);
                judge(group);
            });
        }
        for (std::size_t i = 0; i < pair.size(); ++i) {
            Cut& best = pair[i]->cut;
            best = {};
            for (std::size_t g = 0; g < static_cast<std::size_t>(codes_.groups()); ++g)
                if (found[g * pair.size() + i].gain > best.gain)
                    best = found[g * pair.size() + i];
            keep_or_drop(*pair[i]);
        }
    }

    void keep_or_drop(Leaf& leaf) {
        std::size_t kept = 0;
        for (const Leaf& other : leaves_)
            kept += other.histogram.empty() ? 0 : histograms_.bytes();
        if (!leaf.cut.exists() || kept > most_histogram_bytes)
            histograms_.give_back(std::move(leaf.histogram));
    }

    void split(std::size_t index, CodedTree& tree) {
        Leaf& left = leaves_[index];
        const Cut cut = left.cut;
        const auto node = static_cast<std::int32_t>(tree.splits.size());
        tree.splits.push_back({cut.feature, cut.position, ~static_cast<std::int32_t>(index),
                               ~static_cast<std::int32_t>(leaves_.size()), cut.gain,
                               static_cast<std::uint8_t>(cut.missing_left ? 1 : 0)});
        if (cut.by_set) {
            tree.splits.back().set = static_cast<std::int32_t>(tree.sets.size());
            tree.sets.push_back(cut.set);
        }
        if (left.parent >= 0) {
            auto& above = tree.splits[static_cast<std::size_t>(left.parent)];
            (left.is_left ? above.left : above.right) = node;
        }
        Histogram histogram = std::move(left.histogram);
        Leaf right;
        right.end = left.end;
        right.begin = left.end = partition(left, cut, tree);
        right.sums = left.sums - cut.left;
        right.bounds = left.bounds;
        if (options_.ordered) {
            const double middle = gains_.figures(cut.left).value(left.bounds) / 2 +
                                  gains_.figures(right.sums).value(left.bounds) / 2;
            (cut.left_lower ? left.bounds.high : left.bounds.low) = middle;
            (cut.left_lower ? right.bounds.low : right.bounds.high) = middle;
        }
        left.sums = cut.left;
        right.depth = ++left.depth;
        left.number = 2 * static_cast<std::uint64_t>(node) + 1;
        right.number = left.number + 1;
        left.parent = right.parent = node;
        left.is_left = true;
        left.cut = {};
        leaves_.push_back(std::move(right)); // room was made before: `left` stays where it is
        if (leaves_.size() == static_cast<std::size_t>(options_.leaves))
            return;
        if (may_split(left) || may_split(leaves_.back()))
            look_at({&left, &leaves_.back()}, std::move(histogram));
    }

    // Rows that go left first, both in the order they had; returns where the others begin.
    std::size_t partition(const Leaf& leaf, const Cut& cut, const CodedTree& tree) {
        const CodedTree::Split& split = tree.splits.back();
        const int missing = codes_.missing_code(cut.feature);
        std::size_t kept = leaf.begin;
        std::size_t moved = 0;
        for (std::size_t k = leaf.begin; k < leaf.end; ++k) {
            const std::int32_t row = order_[k];
            const auto [low, high] = codes_.at(row, cut.feature);
            const bool down = given_.down[static_cast<std::size_t>(row)] != 0;
            if (split.goes_left(tree, down == cut.left_lower ? low : high, missing))
                order_[kept++] = row;
            else
                spare_[moved++] = row;
        }
        std::copy_n(spare_.begin(), moved, order_.begin() + static_cast<std::ptrdiff_t>(kept));
        return kept;
    }

    const Codes& codes_;
    const GrowerRows& given_;
    const GrowerOptions& options_;
    const Join& join_;
    Gains gains_;
    Team team_;
    std::vector<std::int32_t> order_; // rows, leaf by leaf
    std::vector<std::int32_t> spare_;
    std::vector<Sums> sums_;  // per row
    std::vector<int> usable_; // features
    Histograms histograms_;
    std::size_t looked_at_ = 1;
    std::vector<Leaf> leaves_;
};

void check(const Codes& codes, const GrowerRows& rows, const GrowerOptions& options) {
    const auto n = static_cast<std::size_t>(codes.rows());
    if (rows.down.size() != n || rows.gradient.size() != n || rows.hessian.size() != n)
        throw std::invalid_argument("a side, a gradient and a hessian per row are needed");
    if (rows.features.size() != static_cast<std::size_t>(codes.features()))
        throw std::invalid_argument("one flag per feature is needed");
    if (options.leaves < 1 || !(options.l1 >= 0) || !(options.l2 >= 0) ||
        !(options.feature_share > 0))
        throw std::invalid_argument("a parameter of the grower is out of range");
    for (const double h : rows.hessian)
        if (!(h >= 0))
            throw std::invalid_argument("hessians must not be negative");
    std::int32_t before = -1;
    for (const std::int32_t row : rows.used) {
        if (row <= before || static_cast<std::size_t>(row) >= n)
            throw std::invalid_argument("rows to grow on must be ascending row numbers");
        before = row;
    }
}

void check(const Whole& whole, const Whole& part) {
    if (!std::isfinite(whole.largest_gradient) || !std::isfinite(whole.largest_hessian))
        throw std::invalid_argument("gradients and hessians must be finite");
    if (whole.rows < part.rows || whole.largest_gradient < part.largest_gradient ||
        whole.largest_hessian < part.largest_hessian)
        throw std::invalid_argument("the rows are more, or larger, than the whole of them");
}

} // namespace

CodedTree grow_tree(const Codes& codes, const GrowerRows& rows, const GrowerOptions& options,
                    int threads, const std::function<bool()>& go_on, const Whole* whole) {
    check(codes, rows, options);
    const Whole part{codes.rows(), largest_of(rows.gradient), largest_of(rows.hessian), {}};
    if (whole != nullptr)
        check(*whole, part);
    const Whole& all = whole != nullptr ? *whole : part;
    const SumUnits units(all.rows, all.largest_gradient, all.largest_hessian);
    return Grower(codes, rows, options, threads, units, all.join).grow(go_on);
}

} // namespace carve
