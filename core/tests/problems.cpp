#include "tests/problems.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace carve::tests {

namespace {

constexpr int most_sets = 6;
constexpr int most_states = 5;

// A multiple of 1/4 in [0, 2], or close to one.
double lattice(Random& random) {
    const double value = 0.25 * random.below(9);
    return random.chance(0.8) ? value : value + (random.real() - 0.5) / 8;
}

struct Scores { // of one ensemble
    int kind;
    double operator()(Random& random) const {
        const double sign = random.chance(0.5) ? 1 : -1;
        switch (kind) {
        case 0:
            return sign * random.real();
        case 1:
            return sign * random.below(4);
        case 2: // what units are too coarse to tell apart
            return sign * random.below(3) + random.below(5) * 0x1p-70;
        case 3:
            return sign * random.real() * 1e200;
        default: // subnormal
            return sign * random.below(8) * std::numeric_limits<double>::denorm_min();
        }
    }
};

class Grower {
  public:
    Grower(Random& random, const Shape& shape, bool single_precision, std::vector<Grid> grid)
        : random_(random), shape_(shape), single_precision_(single_precision),
          grid_(std::move(grid)), scores_{random.below(5)} {}

    void grow(int tree) {
        roots.push_back(static_cast<std::int32_t>(nodes.size()));
        node(shape_.apart ? tree * shape_.features : 0, shape_.depth);
    }
    double score() { return scores_(random_); }

    std::vector<StoredNode> nodes;
    std::vector<std::int32_t> roots;
    std::vector<double> scores;

  private:
    std::int32_t node(int first_feature, int depth) {
        const auto here = nodes.size();
        nodes.push_back({0, -1, -1, -1, -1});
        if (depth == 0 || random_.chance(0.15)) {
            nodes[here].left = static_cast<std::int32_t>(scores.size()) / shape_.outputs;
            for (int output = 0; output < shape_.outputs; ++output)
                scores.push_back(score());
            return static_cast<std::int32_t>(here);
        }
        const std::int32_t feature = first_feature + random_.below(shape_.features);
        const double threshold = threshold_of(feature);
        const std::int32_t left = node(first_feature, depth - 1);
        const std::int32_t right = node(first_feature, depth - 1);
        nodes[here] = {threshold, feature, left, right, random_.below(2)};
        return static_cast<std::int32_t>(here);
    }

    double threshold_of(std::int32_t feature) {
        if (!grid_.empty() && grid_[static_cast<std::size_t>(feature)] == Grid::finite)
            return random_.below(most_sets);
        const double threshold = lattice(random_);
        if (!grid_.empty() && grid_[static_cast<std::size_t>(feature)] == Grid::whole)
            return std::floor(4 * threshold);
        return single_precision_ ? static_cast<float>(threshold) : threshold;
    }

    Random& random_;
    const Shape& shape_;
    bool single_precision_;
    std::vector<Grid> grid_;
    Scores scores_;
};

} // namespace

Ensemble random_ensemble(Random& random, const Shape& shape) {
    const bool single_precision = random.chance(0.25);
    const int features = shape.apart ? shape.trees * shape.features : shape.features;
    Form form{0, features, 1, random.chance(0.5), single_precision, false};
    if (shape.mixed) {
        for (int feature = 0; feature < features; ++feature)
            form.grid.push_back(random.pick({Grid::real, Grid::whole, Grid::finite}));
        form.sets.starts = {0};
        for (int set = 0; set < most_sets; ++set) {
            form.sets.words.push_back(static_cast<std::uint64_t>(random.below(1 << most_states)));
            form.sets.starts.push_back(set + 1);
        }
    }
    Grower grower(random, shape, single_precision, form.grid);
    for (int tree = 0; tree < shape.trees; ++tree)
        grower.grow(tree);
    std::vector<double> base;
    for (int output = 0; output < shape.outputs; ++output)
        base.push_back(random.chance(0.5) ? 0.0 : grower.score());
    form.threshold = shape.outputs > 1 || random.chance(0.5) ? 0.0 : grower.score();
    form.average = random.chance(0.7) ? 1 : shape.trees;
    return Ensemble(grower.nodes, grower.roots, std::move(grower.scores), std::move(base), form);
}

namespace {

// Other ways up than down, steps, states to change to.
void add_grids(Random& random, const Ensemble& ensemble, Attacker& attacker) {
    const bool ways = random.chance(0.5);
    attacker.states.starts = {0};
    for (std::int32_t feature = 0; feature < ensemble.n_features; ++feature) {
        const Grid grid = ensemble.grid_of(feature);
        const double down = attacker.scale_of(feature, false);
        if (ways)
            attacker.scale_up.push_back(grid == Grid::finite ? down
                                                             : random.pick({0.0, 0.25, 1.0, 3.0}));
        const bool whole = grid == Grid::whole;
        attacker.step_numerator.push_back(whole ? random.pick({1.0, 3.0}) : 1.0);
        attacker.step_denominator.push_back(whole ? random.pick({1.0, 4.0, 255.0}) : 1.0);
        if (grid == Grid::finite)
            attacker.states.words.push_back(
                static_cast<std::uint64_t>(random.below(1 << most_states)));
        attacker.states.starts.push_back(static_cast<std::int64_t>(attacker.states.words.size()));
    }
}

} // namespace

Attacker random_attacker(Random& random, const Ensemble& ensemble, int norm) {
    Attacker attacker{norm, 0, {}, {}, {}, {}};
    attacker.budget = norm == 0 ? random.below(4) : 0.25 * random.below(7);
    if (norm != 0 && random.chance(0.3))
        attacker.budget += random.real() / 8;
    const bool scales = random.chance(0.3);
    const bool fixed = random.chance(0.3);
    const bool bounds = random.chance(0.3);
    for (int feature = 0; feature < ensemble.n_features; ++feature) {
        if (scales)
            attacker.scale.push_back(random.pick({0.1, 0.5, 1.0, 1.0 / 3, 2.0}));
        if (fixed)
            attacker.changeable.push_back(random.chance(0.7) ? 1 : 0);
        if (bounds) {
            attacker.lower.push_back(-0.5);
            attacker.upper.push_back(1.75);
        }
    }
    if (!ensemble.grid.empty())
        add_grids(random, ensemble, attacker);
    return attacker;
}

std::vector<double> random_rows(Random& random, const Ensemble& ensemble, int count) {
    std::vector<double> rows;
    for (int i = 0; i < count * ensemble.n_features; ++i) {
        double value = std::min(1.75, lattice(random)); // within all bounds
        const Grid grid = ensemble.grid_of(i % ensemble.n_features);
        if (grid == Grid::whole)
            value = std::clamp(std::floor(4 * value), 0.0, 1.0); // within all bounds, too
        else if (grid == Grid::finite)
            value = random.between(-1, most_states - 1);
        rows.push_back(random.chance(0.03) ? std::numeric_limits<double>::quiet_NaN() : value);
    }
    return rows;
}

void for_every_attack(const Ensemble& ensemble, const Attacker& attacker, Instance& instance,
                      const VisitAttack& visit) {
    const auto n = static_cast<std::size_t>(ensemble.n_features);
    std::vector<std::vector<double>> landings(n); // other cells, by their nearest values
    for (const Node& node : ensemble.nodes) {
        const std::int32_t feature = node.axis();
        if (node.is_leaf() || std::isnan(instance.routed[feature]))
            continue;
        auto& list = landings[static_cast<std::size_t>(feature)];
        for (int state = 0; node.is_by_set() && state < most_states; ++state)
            if (state != instance.x[feature] && instance.allows(feature, state))
                list.push_back(state);
        if (node.is_by_set() || !crosses(instance.limits(feature), node.threshold))
            continue;
        const bool home_left = instance.routed[feature] <= node.threshold;
        list.push_back(home_left ? ensemble.next_above(feature, node.threshold) : node.threshold);
    }
    for (auto& list : landings) {
        std::ranges::sort(list);
        list.erase(std::ranges::unique(list).begin(), list.end());
    }
    std::vector<std::size_t> choice(n, 0); // 0: as it is, i: landing i - 1
    for (;;) {
        std::vector<double> z(instance.x, instance.x + n);
        std::vector<double> routed(instance.routed, instance.routed + n);
        std::vector<std::int32_t> changed;
        for (std::size_t f = 0; f < n; ++f)
            if (choice[f] > 0) {
                changed.push_back(static_cast<std::int32_t>(f));
                z[f] = routed[f] = landings[f][choice[f] - 1];
            }
        if (attacker.affords(changed, instance.x, z.data())) {
            std::vector<std::int32_t> leaves;
            for (int tree = 0; tree < ensemble.n_trees(); ++tree)
                leaves.push_back(ensemble.leaf_of(tree, routed.data()));
            visit(z, leaves);
        }
        std::size_t f = 0;
        while (f < n && choice[f] == landings[f].size())
            choice[f++] = 0;
        if (f == n)
            return;
        ++choice[f];
    }
}

} // namespace carve::tests
