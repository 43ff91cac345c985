#include "large_spread/changes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace carve {

Changes::Changes(const Ensemble& ensemble, const Attacker& attacker, const Multiples& scores)
    : ensemble_(ensemble), scores_(scores) {
    const auto is_plain = [&](std::size_t tree) {
        return ensemble.tangled[tree] == 0 &&
               ensemble.roots[tree + 1] - ensemble.roots[tree] <= most_nodes;
    };
    // Both sides of a threshold hold finite numbers of either precision.
    const auto has_sides = [](const Node& node) {
        return node.is_leaf() || std::fabs(node.threshold) < std::numeric_limits<float>::max();
    };
    applies_ = attacker.norm == 0 && attacker.budget < most_changes + 1 &&
               ensemble.n_outputs() == 1 && scores_.fits() &&
               std::ranges::all_of(ensemble.nodes, has_sides);
    for (std::size_t tree = 0; applies_ && tree + 1 < ensemble.roots.size(); ++tree)
        applies_ = is_plain(tree);
    if (!applies_)
        return;
    budget_ = static_cast<int>(attacker.budget);
    before_.resize(ensemble.nodes.size());
    for (int tree = 0; tree < ensemble.n_trees(); ++tree)
        find_repeats(tree);
    changes_.resize(most_nodes);
    changed_.resize(most_nodes);
    gain_.resize(static_cast<std::size_t>(budget_) + 1);
    shares_.resize(gain_.size() * ensemble.roots.size());
    best_.resize(shares_.size());
}

void Changes::find_repeats(int tree) {
    const std::int32_t root = ensemble_.roots[static_cast<std::size_t>(tree)];
    const std::int32_t end = ensemble_.roots[static_cast<std::size_t>(tree) + 1];
    for (std::int32_t node = root; node < end; ++node) {
        const auto axis = ensemble_.nodes[static_cast<std::size_t>(node)].axis();
        for (std::int32_t here = node; here > root && axis >= 0;) {
            const std::int32_t above = ensemble_.parent[static_cast<std::size_t>(here)];
            if (ensemble_.nodes[static_cast<std::size_t>(above)].axis() == axis) {
                before_[static_cast<std::size_t>(node)] = static_cast<std::uint8_t>(here - root);
                break;
            }
            here = above;
        }
    }
}

bool Changes::apply(const Instance& instance, const Objective& objective) const {
    return applies_ && objective.single_output() && !instance.has_missing &&
           instance.moves_freely();
}

// As nodes are in depth-first order, what is above a node has been seen before it.
template <bool repeats> void Changes::count_changes(int tree, const double* routed) {
    const auto root = static_cast<std::size_t>(ensemble_.roots[static_cast<std::size_t>(tree)]);
    const auto end = static_cast<std::size_t>(ensemble_.roots[static_cast<std::size_t>(tree) + 1]);
    const Node* const nodes = ensemble_.nodes.data() + root;
    const std::uint8_t* const before = before_.data() + root;
    std::uint8_t* const changes = changes_.data();
    std::uint8_t* const changed = changed_.data();
    changes[0] = changed[0] = 0;
    for (std::size_t here = 0; here < end - root; ++here) {
        const Node& node = nodes[here];
        if (node.is_leaf())
            continue;
        const std::size_t right = static_cast<std::size_t>(node.right) - root;
        const int goes_left = routed[node.feature] <= node.threshold ? 1 : 0;
        const int known = repeats ? changed[before[here]] : 0; // changed already: for nothing
        changes[here + 1] = static_cast<std::uint8_t>(changes[here] + ((1 - goes_left) & ~known));
        changes[right] = static_cast<std::uint8_t>(changes[here] + (goes_left & ~known));
        if constexpr (repeats) {
            changed[here + 1] = static_cast<std::uint8_t>((1 - goes_left) | known);
            changed[right] = static_cast<std::uint8_t>(goes_left | known);
        }
    }
}

void Changes::attack(const Instance& instance, const Objective& objective,
                     std::vector<std::int32_t>& home, std::vector<std::int32_t>& leaf) {
    const auto k = static_cast<std::size_t>(budget_);
    const std::size_t width = k + 1;
    const double sign = objective.sign();
    std::ranges::fill(gain_, Wide{0});
    double least[most_changes + 2];
    std::int32_t where[most_changes + 2]{};
    for (std::size_t tree = 0; tree < home.size(); ++tree) {
        if (ensemble_.repeats[tree] != 0)
            count_changes<true>(static_cast<int>(tree), instance.routed);
        else
            count_changes<false>(static_cast<int>(tree), instance.routed);
        // By so many changes; one place more for leaves that take too many.
        std::fill_n(least, width + 1, std::numeric_limits<double>::infinity());
        const std::int32_t root = ensemble_.roots[tree];
        const std::int32_t end = ensemble_.roots[tree + 1];
        for (std::int32_t node = root; node < end; ++node) {
            if (!ensemble_.nodes[static_cast<std::size_t>(node)].is_leaf())
                continue;
            const double value = sign * ensemble_.nodes[static_cast<std::size_t>(node)].threshold;
            const auto place =
                std::min<std::size_t>(changes_[static_cast<std::size_t>(node - root)], width);
            where[place] = value < least[place] ? node : where[place];
            least[place] = value < least[place] ? value : least[place];
        }
        home[tree] = where[0];
        std::uint8_t* const shares = shares_.data() + tree * width;
        std::fill_n(shares, width, std::uint8_t{0});
        std::copy_n(where, width, best_.data() + tree * width);
        double lowest = least[0];
        Wide gains[most_changes + 1];
        std::size_t useful[most_changes + 1]; // numbers of changes that gain more than fewer do
        std::size_t count = 0;
        for (std::size_t j = 1; j < width; ++j)
            if (least[j] < lowest) {
                lowest = least[j];
                gains[count] = scores_.of(least[0]) - scores_.of(lowest);
                useful[count++] = j;
            }
        for (std::size_t total = k; total > 0; --total)
            for (std::size_t i = 0; i < count && useful[i] <= total; ++i)
                if (const Wide found = gain_[total - useful[i]] + gains[i]; gain_[total] < found) {
                    gain_[total] = found;
                    shares[total] = static_cast<std::uint8_t>(useful[i]);
                }
    }
    leaf = home;
    std::size_t left = k;
    for (std::size_t tree = home.size(); tree-- > 0;)
        if (const std::size_t own = shares_[tree * width + left]; own > 0) {
            leaf[tree] = best_[tree * width + own];
            left -= own;
        }
}

} // namespace carve
