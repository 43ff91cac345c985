#include "model/states.hpp"

#include <bit>

namespace carve {

double open_state(const Ensemble& ensemble, const Instance& instance, std::int32_t node,
                  std::int32_t feature) {
    const std::size_t words = instance.states_of(feature).size();
    for (std::size_t word = 0; word < words; ++word)
        if (const auto open = open_states(ensemble, instance, node, feature, word); open != 0)
            return static_cast<double>(64 * word +
                                       static_cast<std::size_t>(std::countr_zero(open)));
    return -1;
}

Sides sides_of(const Ensemble& ensemble, const Instance& instance, std::int32_t split,
               double home_state) {
    const Node& node = ensemble.nodes[static_cast<std::size_t>(split)];
    const std::int32_t feature = node.axis();
    Sides sides{leaves_open(ensemble, split, feature, home_state), false, false};
    if (sides.home)
        (ensemble.lists(node, home_state) ? sides.left : sides.right) = true;
    const std::size_t words = instance.states_of(feature).size();
    for (std::size_t word = 0; word < words && !(sides.left && sides.right); ++word) {
        const std::uint64_t open = open_states(ensemble, instance, split, feature, word);
        const std::uint64_t listed = ensemble.listed(node, word);
        sides.left = sides.left || (open & listed) != 0;
        sides.right = sides.right || (open & ~listed) != 0;
    }
    return sides;
}

} // namespace carve
