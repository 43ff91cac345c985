#include "model/ensemble.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace carve {

Ensemble::Ensemble(std::span<const StoredNode> stored, std::span<const std::int32_t> stored_roots,
                   std::vector<double> leaf_scores, std::vector<double> base, const Form& form)
    : Form(form), scores(std::move(leaf_scores)), base_score(std::move(base)) {
    nodes.reserve(stored.size());
    parent.reserve(stored.size());
    missing.reserve(stored.size());
    lacks_missing_rule.assign(static_cast<std::size_t>(n_features), 0);
    for (const std::int32_t root : stored_roots) {
        roots.push_back(static_cast<std::int32_t>(nodes.size()));
        append_tree(stored, root);
    }
    roots.push_back(static_cast<std::int32_t>(nodes.size()));

    std::vector<std::uint8_t> used(static_cast<std::size_t>(n_features), 0);
    for (const Node& node : nodes)
        if (!node.is_leaf())
            used[static_cast<std::size_t>(node.axis())] = 1;
    for (int feature = 0; feature < n_features; ++feature)
        if (used[static_cast<std::size_t>(feature)] != 0)
            used_features.push_back(feature);

    magnitude = std::fabs(threshold) * average;
    for (const double value : base_score)
        magnitude += std::fabs(value);
    tangled.assign(static_cast<std::size_t>(n_trees()), 0);
    repeats = tangled;
    for (int tree = 0; tree < n_trees(); ++tree)
        inspect_tree(tree);
    if (n_outputs() == 1)
        find_extremes();
}

void Ensemble::find_extremes() {
    lowest.resize(nodes.size());
    highest.resize(nodes.size());
    for (std::size_t here = nodes.size(); here-- > 0;) { // children before their parents
        const Node& node = nodes[here];
        const auto right = static_cast<std::size_t>(node.right);
        lowest[here] = node.is_leaf() ? node.threshold : std::min(lowest[here + 1], lowest[right]);
        highest[here] =
            node.is_leaf() ? node.threshold : std::max(highest[here + 1], highest[right]);
    }
}

void Ensemble::append_tree(std::span<const StoredNode> stored, std::int32_t root) {
    struct Pending {
        std::int32_t position; // in `stored`
        std::int32_t parent;   // in `nodes`, -1 for the root
        bool is_right;
    };
    std::vector<Pending> stack{{root, -1, false}};
    while (!stack.empty()) {
        const Pending pending = stack.back();
        stack.pop_back();
        const auto here = static_cast<std::int32_t>(nodes.size());
        const StoredNode& from = stored[static_cast<std::size_t>(pending.position)];
        if (pending.is_right)
            nodes[static_cast<std::size_t>(pending.parent)].right = here;
        parent.push_back(pending.parent);
        missing.push_back(static_cast<Missing>(from.missing));
        if (from.feature < 0) {
            const double inlined =
                n_outputs() == 1 ? scores[static_cast<std::size_t>(from.left)] : 0.0;
            nodes.push_back({inlined, -1, from.left});
            continue;
        }
        const bool by_set = grid_of(from.feature) == Grid::finite;
        nodes.push_back({from.threshold, by_set ? -2 - from.feature : from.feature, -1});
        if (missing.back() == Missing::no_rule)
            lacks_missing_rule[static_cast<std::size_t>(from.feature)] = 1;
        stack.push_back({from.right, here, true});
        stack.push_back({from.left, here, false});
    }
}

void Ensemble::inspect_tree(int tree) {
    // Per node on the current path: the interval (low, high] its feature had before the split.
    struct Interval {
        double low = -std::numeric_limits<double>::infinity();
        double high = std::numeric_limits<double>::infinity();
    };
    struct Undo {
        std::int32_t feature;
        Interval interval;
    };
    std::vector<Interval> intervals(static_cast<std::size_t>(n_features));
    std::vector<Undo> trail;
    std::vector<int> trail_size_at; // trail size on entering a node, by depth
    double largest = 0;
    const auto root = roots[static_cast<std::size_t>(tree)];
    const auto end = roots[static_cast<std::size_t>(tree) + 1];
    std::vector<int> level(static_cast<std::size_t>(end - root), 0);
    for (std::int32_t here = root; here < end; ++here) {
        const std::int32_t above = parent[static_cast<std::size_t>(here)];
        const int depth_here = above < 0 ? 0 : level[static_cast<std::size_t>(above - root)] + 1;
        level[static_cast<std::size_t>(here - root)] = depth_here;
        depth = std::max(depth, depth_here);
        // Depth-first order: leave the subtrees that ended before this node.
        trail_size_at.resize(static_cast<std::size_t>(depth_here) + 1);
        if (depth_here > 0) {
            const auto keep =
                static_cast<std::size_t>(trail_size_at[static_cast<std::size_t>(depth_here) - 1]);
            while (trail.size() > keep) {
                intervals[static_cast<std::size_t>(trail.back().feature)] = trail.back().interval;
                trail.pop_back();
            }
            const Node& split = nodes[static_cast<std::size_t>(above)];
            Interval& interval = intervals[static_cast<std::size_t>(split.axis())];
            trail.push_back({split.axis(), interval});
            if (split.is_by_set())
                ; // walks look at the sets themselves
            else if (here == above + 1)
                interval.high = std::min(interval.high, split.threshold);
            else
                interval.low = std::max(interval.low, split.threshold);
        }
        trail_size_at[static_cast<std::size_t>(depth_here)] = static_cast<int>(trail.size());
        const Node& node = nodes[static_cast<std::size_t>(here)];
        if (node.is_leaf()) {
            double sum = 0;
            for (int output = 0; output < n_outputs(); ++output)
                sum += std::fabs(score(here, output));
            largest = std::max(largest, sum);
        } else if (!node.is_by_set()) {
            const Interval& interval = intervals[static_cast<std::size_t>(node.feature)];
            if (std::isfinite(interval.low) || std::isfinite(interval.high))
                repeats[static_cast<std::size_t>(tree)] = 1;
            if (!(interval.low < node.threshold && node.threshold < interval.high))
                tangled[static_cast<std::size_t>(tree)] = 1;
        } else {
            tangled[static_cast<std::size_t>(tree)] = 1;
        }
    }
    magnitude += largest;
}

std::int32_t Ensemble::leaf_of(int tree, const double* routed) const {
    std::int32_t here = roots[static_cast<std::size_t>(tree)];
    for (;;) {
        const Node& node = nodes[static_cast<std::size_t>(here)];
        if (node.is_leaf())
            return here;
        const double value = routed[node.axis()];
        const bool listed = node.is_by_set() ? lists(node, value) : value <= node.threshold;
        const bool left =
            listed || (value != value && missing[static_cast<std::size_t>(here)] == Missing::left);
        here = left ? here + 1 : node.right;
    }
}

} // namespace carve
