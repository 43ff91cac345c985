// What the way to a node says of a finite feature: which of its states are left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"

namespace carve {

// Calls visit(split, goes_left) for every split by a set of the feature on the way to the node.
template <class Visit>
void for_sets_above(const Ensemble& ensemble, std::int32_t node, std::int32_t feature,
                    Visit&& visit) {
    for (std::int32_t here = node, above = ensemble.parent[static_cast<std::size_t>(here)];
         above >= 0; here = above, above = ensemble.parent[static_cast<std::size_t>(above)]) {
        const Node& split = ensemble.nodes[static_cast<std::size_t>(above)];
        if (split.is_by_set() && split.axis() == feature)
            visit(split, here == above + 1);
    }
}

// Does the way to the node leave the state open?
inline bool leaves_open(const Ensemble& ensemble, std::int32_t node, std::int32_t feature,
                        double state) {
    bool open = true;
    for_sets_above(ensemble, node, feature, [&](const Node& split, bool goes_left) {
        open = open && ensemble.lists(split, state) == goes_left;
    });
    return open;
}

// 64 states that the attacker may change the feature to, as bits, less those that the way to the
// node has closed.
inline std::uint64_t open_states(const Ensemble& ensemble, const Instance& instance,
                                 std::int32_t node, std::int32_t feature, std::size_t word) {
    std::uint64_t open = instance.states_of(feature)[word];
    for_sets_above(ensemble, node, feature, [&](const Node& split, bool goes_left) {
        const std::uint64_t listed = ensemble.listed(split, word);
        open &= goes_left ? listed : ~listed;
    });
    return open;
}

// A state that the attacker may change the feature to and that leads to the node; -1: none.
double open_state(const Ensemble& ensemble, const Instance& instance, std::int32_t node,
                  std::int32_t feature);

// Where the attacker can go at a split by a set, whose feature it can change.
struct Sides {
    bool home; // the way there is that of the instance's own state, as far as this feature goes
    bool left;
    bool right;
};
Sides sides_of(const Ensemble& ensemble, const Instance& instance, std::int32_t split,
               double home_state);

} // namespace carve
