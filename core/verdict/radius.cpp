#include "verdict/radius.hpp"

#include <algorithm>
#include <limits>

namespace carve {

RadiusFinder::RadiusFinder(const Problem& problem, RadiusSolver& solver)
    : problem_(problem), solver_(solver), rivals_(problem),
      known_(static_cast<std::size_t>(problem.objectives.classes() - 1)) {}

RadiusBounds RadiusFinder::find(const Instance& instance, int label, const Stopwatch& stopwatch) {
    if (solver_.is_thorough()) {
        rivals_.list(label);
    } else {
        rivals_.predict(instance, label);
        if (!rivals_.right)
            return {0, 0};
    }
    solver_.load(instance);
    std::ranges::fill(known_, RadiusBounds{});
    // Nobody needs to look further than the best attack known.
    RadiusBounds found{};
    turns_.take(rivals_.size(), stopwatch, [&](std::size_t i, const Stopwatch& limit) {
        const Objective& against = problem_.objectives(label, rivals_[i].id);
        const bool done = solver_.close_in(against, found.upper, limit, known_[i]);
        found.upper = std::min(found.upper, known_[i].upper);
        return done ? Turn::done : Turn::open;
    });
    found.lower = std::min(found.upper, std::ranges::min(known_, {}, &RadiusBounds::lower).lower);
    return found;
}

} // namespace carve
