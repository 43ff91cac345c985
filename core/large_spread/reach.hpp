// Reach: the leaves of one tree that the attacker can push an instance into, and at what cost.
//
// A depth-first walk that drops a subtree as soon as its cost exceeds the budget; for small
// budgets it visits little more than a prediction does. A feature tested twice is paid once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"

namespace carve {

// Costs as floating-point numbers, in units of the budget.
//   norm 0     the number of changed features; capacity = budget. Exact.
//   norm p     (distance / (scale * budget))^p; capacity = 1, known to within `slack`.
//   norm inf   0: the limits of the instance say it all.
class RoundedCosts {
  public:
    RoundedCosts(const Ensemble& ensemble, const Attacker& attacker);
    // Of moving a feature, up or down.
    double of(std::int32_t feature, double move) const {
        if (norm_ <= 0)
            return norm_ == 0 ? 1.0 : 0.0;
        const auto f = static_cast<std::size_t>(feature);
        const double ratio = std::fabs(move) * (up_.empty() ? uniform_inverse_
                                                : move > 0  ? up_[f]
                                                            : down_[f]);
        double cost = ratio;
        for (int i = 1; i < norm_; ++i)
            cost *= ratio;
        return cost;
    }
    double capacity() const { return capacity_; }
    // A rounded total of leaf costs that is <= capacity differs from the exact one by at most this.
    double slack() const { return slack_; }

  private:
    int norm_;
    double uniform_inverse_ = 0;
    std::vector<double> up_;
    std::vector<double> down_;
    double capacity_ = 0;
    double slack_ = 0;
};

// Scratch space of one worker; one per thread.
class Reach {
  public:
    Reach(const Ensemble& ensemble, const RoundedCosts& costs)
        : ensemble_(ensemble), costs_(costs),
          spent_(static_cast<std::size_t>(ensemble.n_features), 0.0),
          interval_(static_cast<std::size_t>(ensemble.n_features)),
          owner_(static_cast<std::size_t>(ensemble.n_features), nobody),
          entries_(static_cast<std::size_t>(ensemble.depth) + 1), crossings_(entries_.size()) {}

    // Calls visit(leaf, cost) for every leaf with cost <= capacity + slack, the leaf the instance
    // itself falls into first. Returns false, having stopped early, iff `claim` is set and a
    // feature the attacker can use in this tree was claimed by another tree since `release`.
    template <class Visit> bool walk(int tree, Instance& instance, bool claim, Visit&& visit) {
        const auto always = [](std::int32_t, double) { return true; };
        return is_tangled(tree, instance) ? walk_as<true>(tree, instance, claim, visit, always)
                                          : walk_as<false>(tree, instance, claim, visit, always);
    }
    // Walks all trees in their order, without claims. Of each tree it calls
    //   visitor.begin(tree, leaf)    the leaf the instance itself falls into
    //   visitor.worth(node, cost)    is a leaf below the node of interest at that cost or more?
    //   visitor.visit(leaf, cost)    another leaf in reach, below nodes that are
    //   visitor.end(tree)
    template <class Visitor> void walk_all(Instance& instance, Visitor& visitor) {
        for (int tree = 0; tree < ensemble_.n_trees(); ++tree) {
            if (is_plain(tree, instance))
                walk_plainly(tree, instance, visitor);
            else
                walk_carefully(tree, instance, visitor);
            visitor.end(tree);
        }
    }

    // Can every leaf be reached, and does every split on the path to it stand for itself?
    bool is_plain(int tree, const Instance& instance) const {
        return !is_tangled(tree, instance) &&
               ensemble_.repeats[static_cast<std::size_t>(tree)] == 0;
    }

    // Forget which tree uses which feature.
    void release();

  private:
    static constexpr std::int32_t nobody = -1;
    struct Interval { // (low, high]: what the path so far says of a feature
        double low = -std::numeric_limits<double>::infinity();
        double high = std::numeric_limits<double>::infinity();
    };
    struct Pending {
        std::int32_t node;
        std::int32_t feature;
        double threshold;
        double feature_cost;
        double cost;
        std::size_t trail;
        bool is_left;
    };
    struct Undo {
        std::int32_t feature;
        double spent;
        Interval interval;
    };

    struct Fork {          // at a split by a set
        std::int32_t on;   // the node to go on to
        std::int32_t away; // another one in reach, or -1
        double feature_cost;
        double cost; // of going there
    };

    struct Entry { // to a subtree that is still to be walked
        std::int32_t node;
        double cost;
    };

    bool is_tangled(int tree, const Instance& instance) const {
        return instance.has_missing || ensemble_.tangled[static_cast<std::size_t>(tree)] != 0;
    }
    template <bool careful, class Visit, class Worth>
    bool walk_as(int tree, Instance& instance, bool claim, Visit& visit, Worth& worth);
    template <class Visitor> void walk_carefully(int tree, Instance& instance, Visitor& visitor);
    // Of trees in which no path tests a feature twice: costs just add up.
    template <class Visitor> void walk_plainly(int tree, Instance& instance, Visitor& visitor);
    // From a node down to the leaf of the instance.
    struct Descent {
        std::int32_t leaf;
        // Of crossings_: the splits on the way that the attacker may be able to turn round.
        const std::int32_t* end;
    };
    Descent descend(std::int32_t here, const Instance& instance);
    // Where the attacker can go at a split, having paid `cost`; nowhere: node -1.
    Entry turn_round(std::int32_t split, double cost, Instance& instance) const;
    Fork fork_at(std::int32_t split, const Instance& instance, double cost) const;
    bool claims(std::int32_t feature, int tree);
    void unwind(std::size_t size);

    const Ensemble& ensemble_;
    const RoundedCosts& costs_;
    std::vector<double> spent_; // per feature: its cost on the current path
    std::vector<Interval> interval_;
    std::vector<std::int32_t> owner_;
    std::vector<std::int32_t> claimed_;
    std::vector<Pending> pending_;
    std::vector<Undo> trail_;
    // One per split on a path, at most, and a place to write to.
    std::vector<Entry> entries_;
    std::vector<std::int32_t> crossings_;
};

inline bool Reach::claims(std::int32_t feature, int tree) {
    std::int32_t& owner = owner_[static_cast<std::size_t>(feature)];
    if (owner == nobody) {
        owner = tree;
        claimed_.push_back(feature);
    }
    return owner == tree;
}

inline void Reach::unwind(std::size_t size) {
    while (trail_.size() > size) {
        const Undo& undo = trail_.back();
        spent_[static_cast<std::size_t>(undo.feature)] = undo.spent;
        interval_[static_cast<std::size_t>(undo.feature)] = undo.interval;
        trail_.pop_back();
    }
}

inline Reach::Entry Reach::turn_round(std::int32_t split, double cost, Instance& instance) const {
    const Node& node = ensemble_.nodes[static_cast<std::size_t>(split)];
    const bool home_left = instance.routed[node.feature] <= node.threshold;
    const double to =
        home_left ? ensemble_.next_above(node.feature, node.threshold) : node.threshold;
    const double far_cost = cost + costs_.of(node.feature, to - instance.x[node.feature]);
    if (far_cost <= costs_.capacity() + costs_.slack() &&
        instance.can_cross(node.feature, node.threshold, to))
        return {home_left ? node.right : split + 1, far_cost};
    return {-1, 0};
}

template <class Visitor> void Reach::walk_plainly(int tree, Instance& instance, Visitor& visitor) {
    Descent path = descend(ensemble_.roots[static_cast<std::size_t>(tree)], instance);
    visitor.begin(tree, path.leaf);
    Entry* const bottom = entries_.data();
    Entry* top = bottom;
    double cost = 0;
    for (;;) {
        for (const std::int32_t* split = crossings_.data(); split != path.end; ++split) {
            *top = turn_round(*split, cost, instance);
            top += top->node >= 0 ? 1 : 0;
        }
        do {
            if (top == bottom)
                return;
            --top;
        } while (!visitor.worth(top->node, top->cost));
        cost = top->cost;
        path = descend(top->node, instance);
        visitor.visit(path.leaf, cost);
    }
}

template <class Visitor>
void Reach::walk_carefully(int tree, Instance& instance, Visitor& visitor) {
    bool is_home = true;
    const auto visit = [&](std::int32_t leaf, double cost) {
        if (is_home)
            visitor.begin(tree, leaf);
        else
            visitor.visit(leaf, cost);
        is_home = false;
    };
    const auto worth = [&](std::int32_t node, double cost) { return visitor.worth(node, cost); };
    if (is_tangled(tree, instance))
        walk_as<true>(tree, instance, false, visit, worth);
    else
        walk_as<false>(tree, instance, false, visit, worth);
}

template <bool careful, class Visit, class Worth>
bool Reach::walk_as(int tree, Instance& instance, bool claim, Visit& visit, Worth& worth) {
    const Node* const nodes = ensemble_.nodes.data();
    const double affordable = costs_.capacity() + costs_.slack();
    std::int32_t here = ensemble_.roots[static_cast<std::size_t>(tree)];
    double cost = 0;
    pending_.clear();
    const auto narrow = [this](std::size_t feature, double threshold, bool to_left) {
        Interval& interval = interval_[feature];
        if (to_left)
            interval.high = std::min(interval.high, threshold);
        else
            interval.low = std::max(interval.low, threshold);
    };
    for (;;) {
        const Node& node = nodes[here];
        if (node.is_leaf()) {
            visit(here, cost);
            while (!pending_.empty() && !worth(pending_.back().node, pending_.back().cost))
                pending_.pop_back();
            if (pending_.empty())
                break;
            const Pending& next = pending_.back();
            const auto feature = static_cast<std::size_t>(next.feature);
            unwind(next.trail);
            trail_.push_back({next.feature, spent_[feature], interval_[feature]});
            spent_[feature] = next.feature_cost;
            if constexpr (careful)
                narrow(feature, next.threshold, next.is_left);
            here = next.node;
            cost = next.cost;
            pending_.pop_back();
            continue;
        }
        if (node.is_by_set()) {
            const Fork fork = fork_at(here, instance, cost);
            if (fork.away >= 0) {
                if (claim && !claims(node.axis(), tree)) {
                    unwind(0);
                    return false;
                }
                pending_.push_back({fork.away, node.axis(), 0, fork.feature_cost, fork.cost,
                                    trail_.size(), false});
            }
            here = fork.on;
            continue;
        }
        const auto feature = static_cast<std::size_t>(node.feature);
        const double value = instance.routed[feature];
        const bool home_left = value <= node.threshold;
        if constexpr (careful) {
            if (value != value) {
                const bool go_left =
                    ensemble_.missing[static_cast<std::size_t>(here)] == Missing::left;
                here = go_left ? here + 1 : node.right;
                continue;
            }
            // The path may leave one side only, and that need not be the home side.
            const bool left = interval_[feature].low < node.threshold;
            const bool right = node.threshold < interval_[feature].high;
            if (!(left && right)) {
                here = left ? here + 1 : node.right;
                continue;
            }
        }
        const double to =
            home_left ? ensemble_.next_above(node.feature, node.threshold) : node.threshold;
        if (!instance.may_cross(node.feature, node.threshold) ||
            !instance.can_cross(node.feature, node.threshold, to)) {
            here = home_left ? here + 1 : node.right;
            continue;
        }
        const double feature_cost = costs_.of(node.feature, to - instance.x[feature]);
        const double far_cost = cost + (feature_cost - spent_[feature]);
        if (far_cost <= affordable) {
            if (claim && !claims(node.feature, tree)) {
                unwind(0);
                return false;
            }
            pending_.push_back({home_left ? node.right : here + 1, node.feature, node.threshold,
                                feature_cost, far_cost, trail_.size(), !home_left});
        }
        if constexpr (careful) {
            trail_.push_back({node.feature, spent_[feature], interval_[feature]});
            narrow(feature, node.threshold, home_left);
        }
        here = home_left ? here + 1 : node.right;
    }
    unwind(0);
    return true;
}

} // namespace carve
