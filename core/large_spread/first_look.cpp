#include "large_spread/first_look.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace carve {

namespace {
// Of what all trees together can say, per capacity. Attacks that just win are worth so much in
// trained models.
constexpr double lowest_price = 1.0 / 64;
} // namespace

FirstLook::FirstLook(const Ensemble& ensemble, const RoundedCosts& costs)
    : costs_(costs), choices_(static_cast<std::size_t>(ensemble.n_trees())) {
    // Powers of two, which take few bytes in a proof.
    const double lowest = std::exp2(std::round(std::log2(lowest_price * ensemble.magnitude)));
    for (std::size_t i = 0; i < count; ++i) {
        of_capacity_[i] = std::ldexp(lowest, static_cast<int>(i));
        prices_[i] = of_capacity_[i] / costs.capacity();
    }
}

struct FirstLook::Visitor {
    FirstLook& self;
    const Objective& objective;
    std::vector<std::int32_t>& homes;
    LongSum margin;
    Choice* choice = nullptr;
    double home_value = 0;

    void begin(int tree, std::int32_t leaf) {
        homes[static_cast<std::size_t>(tree)] = leaf;
        home_value = objective.value(leaf);
        objective.add(margin, leaf);
        choice = &self.choices_[static_cast<std::size_t>(tree)];
        choice->surplus.fill(0);
        choice->cost.fill(0);
        choice->leaf.fill(leaf);
    }
    bool worth(std::int32_t node, double cost) const {
        const double gain = home_value - objective.least(node);
        bool any = false;
        for (std::size_t i = 0; i < count; ++i)
            any |= gain - self.prices_[i] * cost > choice->surplus[i];
        return any;
    }
    void visit(std::int32_t leaf, double cost) {
        const double gain = home_value - objective.value(leaf);
        for (std::size_t i = 0; i < count; ++i) {
            const double surplus = gain - self.prices_[i] * cost;
            if (surplus > choice->surplus[i]) {
                choice->surplus[i] = surplus;
                choice->cost[i] = cost;
                choice->leaf[i] = leaf;
            }
        }
    }
    void end(int /*tree*/) {
        for (std::size_t i = 0; i < count; ++i)
            self.surplus_[i] += choice->surplus[i];
    }
};

LongSum FirstLook::walk(Reach& reach, Instance& instance, const Objective& objective,
                        std::vector<std::int32_t>& home) {
    surplus_.fill(0);
    Visitor visitor{*this, objective, home, objective.start()};
    reach.walk_all(instance, visitor);
    return visitor.margin;
}

FirstLook::Most FirstLook::most_gain() const {
    // The costs of an affordable choice, and of the nodes where the walk turned back from it, are
    // off by the slack; so are the prices of single leaves, which are rounded as often.
    const double capacity = costs_.capacity() + 4 * costs_.slack();
    Most most{std::numeric_limits<double>::infinity(), 0};
    for (std::size_t i = 0; i < count; ++i)
        if (const double gain = surplus_[i] + prices_[i] * capacity; gain < most.gain)
            most = {gain, of_capacity_[i]};
    return most;
}

bool FirstLook::choose(std::vector<std::int32_t>& leaf) const {
    const double affordable = costs_.capacity() - costs_.slack();
    for (std::size_t i = 0; i < count; ++i) {
        double cost = 0;
        for (const Choice& choice : choices_)
            cost += choice.cost[i];
        if (!(cost <= affordable))
            continue;
        // What is left of the capacity goes to choices of the price below.
        for (std::size_t tree = 0; tree < choices_.size(); ++tree) {
            const Choice& choice = choices_[tree];
            const double more = i > 0 ? choice.cost[i - 1] - choice.cost[i] : 0;
            const bool fits = i > 0 && cost + more <= affordable;
            leaf[tree] = choice.leaf[fits ? i - 1 : i];
            cost += fits ? more : 0;
        }
        return true;
    }
    return false;
}

} // namespace carve
