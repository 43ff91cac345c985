#include "large_spread/reach.hpp"

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
    for (const double scale : attacker.scale)
        inverse_.push_back(1 / (scale * attacker.budget));
    // A feature's cost, p factors each off by a few u, is off by at most 5 p u of itself; along a
    // path it may replace a cheaper one `depth` times; then come at most n_trees additions of
    // numbers <= 1.
    slack_ = unit_roundoff *
             (6.0 * (ensemble.depth + 1) * (attacker.norm + 8) + 4.0 * ensemble.n_trees() + 64);
}

void Reach::release() {
    for (const auto feature : claimed_)
        owner_[static_cast<std::size_t>(feature)] = nobody;
    claimed_.clear();
}

} // namespace carve
