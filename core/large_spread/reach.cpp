#include "large_spread/reach.hpp"

#include "model/states.hpp"

namespace carve {

RoundedCosts::RoundedCosts(const Ensemble& ensemble, const Attacker& attacker)
    : norm_(attacker.norm) {
    if (norm_ == norm_inf)
        return;
    if (norm_ == 0) {
        capacity_ = attacker.budget;
        return;
    }
    capacity_ = 1;
    uniform_inverse_ = 1 / attacker.budget;
    for (std::int32_t f = 0; f < ensemble.n_features && !attacker.has_one_unit(); ++f)
        for (const bool up : {false, true}) {
            const auto [scale, numerator, denominator] = attacker.unit_of(f, up);
            (up ? up_ : down_).push_back(numerator / (scale * denominator * attacker.budget));
        }
    // A feature's cost, p factors each off by a few u, is off by at most 6 p u of itself; along a
    // path it may replace a cheaper one `depth` times; then come at most n_trees additions of
    // numbers <= 1.
    slack_ = unit_roundoff *
             (6.0 * (ensemble.depth + 1) * (attacker.norm + 8) + 4.0 * ensemble.n_trees() + 64);
}

Reach::Fork Reach::fork_at(std::int32_t split, const Instance& instance, double cost) const {
    const Node& node = ensemble_.nodes[static_cast<std::size_t>(split)];
    const auto axis = static_cast<std::size_t>(node.axis());
    const double state = instance.routed[axis];
    const std::int32_t left = split + 1;
    const bool home_left = state != state
                               ? ensemble_.missing[static_cast<std::size_t>(split)] == Missing::left
                               : ensemble_.lists(node, state);
    if (!instance.may_switch(node.axis()))
        return {home_left ? left : node.right, -1, 0, 0};
    const Sides sides = sides_of(ensemble_, instance, split, state);
    const bool go_left = sides.home ? home_left : sides.left;
    const std::int32_t on = go_left ? left : node.right;
    if (!(go_left ? sides.right : sides.left))
        return {on, -1, 0, 0};
    // Where the way is not that of the instance's own state, the change is paid already.
    const double feature_cost = sides.home ? costs_.of(node.axis(), 1) : spent_[axis];
    const double far_cost = cost + (feature_cost - spent_[axis]);
    const bool in_reach = far_cost <= costs_.capacity() + costs_.slack();
    return {on, in_reach ? (go_left ? node.right : left) : -1, feature_cost, far_cost};
}

// In a place of its own, not in its callers': all it works with fits into registers.
Reach::Descent Reach::descend(std::int32_t here, const Instance& instance) {
    const Node* const nodes = ensemble_.nodes.data();
    const double* const routed = instance.routed;
    std::int32_t* end = crossings_.data();
    const Instance::Spans spans = instance.spans();
    for (const Node* node = nodes + here; !node->is_leaf(); node = nodes + here) {
        // Written in any case, and kept if it counts: no branch could be foreseen.
        *end = here;
        end += spans.may_cross(node->feature, node->threshold) ? 1 : 0;
        here = routed[node->feature] <= node->threshold ? here + 1 : node->right;
    }
    return {here, end};
}

void Reach::release() {
    for (const auto feature : claimed_)
        owner_[static_cast<std::size_t>(feature)] = nobody;
    claimed_.clear();
}

} // namespace carve
