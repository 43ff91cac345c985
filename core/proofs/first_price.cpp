#include "proofs/first_price.hpp"

namespace carve {

struct FirstPrice::Visitor {
    FirstPrice& self;
    const Objective& objective;
    LongSum margin;
    double home_value = 0;
    double least = 0;    // the smallest value of an option so far …
    double cheapest = 0; // … and its cost

    void begin(int /*tree*/, std::int32_t leaf) {
        home_value = least = objective.value(leaf);
        cheapest = 0;
        objective.add(margin, leaf);
        self.options_.clear();
    }
    bool worth(std::int32_t node, double cost) const {
        const double below = objective.least(node);
        return below < least || (below < home_value && cost < cheapest);
    }
    void visit(std::int32_t leaf, double cost) {
        const double value = objective.value(leaf);
        if (!(value < home_value))
            return;
        self.options_.push_back({cost, home_value - value, leaf});
        if (value < least) {
            least = value;
            cheapest = cost;
        }
    }
    void end(int tree) {
        if (!self.options_.empty())
            self.knapsack_.add_group(tree, self.options_,
                                     [](std::int32_t, std::int32_t) { return false; });
    }
};

FirstPrice::Bound FirstPrice::bound(Reach& reach, Instance& instance, const Objective& objective) {
    knapsack_.clear({});
    Visitor visitor{*this, objective, objective.start()};
    reach.walk_all(instance, visitor);
    // Costs are off by the slack, as are those of the nodes where the walk turned back.
    const double capacity = costs_.capacity() + 4 * costs_.slack();
    const Knapsack::Relaxation relaxed = knapsack_.relaxation(capacity);
    return {visitor.margin.rounded() - relaxed.gain, relaxed.price * costs_.capacity()};
}

} // namespace carve
