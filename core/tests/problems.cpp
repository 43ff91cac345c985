#include "tests/problems.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace carve::tests {

namespace {

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
    Grower(Random& random, const Shape& shape, bool single_precision)
        : random_(random), shape_(shape), single_precision_(single_precision),
          scores_{random.below(5)} {}

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
        const double threshold = lattice(random_);
        const std::int32_t left = node(first_feature, depth - 1);
        const std::int32_t right = node(first_feature, depth - 1);
        nodes[here] = {single_precision_ ? static_cast<float>(threshold) : threshold,
                       first_feature + random_.below(shape_.features), left, right,
                       random_.below(2)};
        return static_cast<std::int32_t>(here);
    }

    Random& random_;
    const Shape& shape_;
    bool single_precision_;
    Scores scores_;
};

} // namespace

Ensemble random_ensemble(Random& random, const Shape& shape) {
    const bool single_precision = random.chance(0.25);
    Grower grower(random, shape, single_precision);
    for (int tree = 0; tree < shape.trees; ++tree)
        grower.grow(tree);
    std::vector<double> base;
    for (int output = 0; output < shape.outputs; ++output)
        base.push_back(random.chance(0.5) ? 0.0 : grower.score());
    const double threshold = shape.outputs > 1 || random.chance(0.5) ? 0.0 : grower.score();
    const int features = shape.apart ? shape.trees * shape.features : shape.features;
    const int average = random.chance(0.7) ? 1 : shape.trees;
    return Ensemble(grower.nodes, grower.roots, std::move(grower.scores), std::move(base),
                    {threshold, features, average, random.chance(0.5), single_precision, false});
}

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
    return attacker;
}

std::vector<double> random_rows(Random& random, const Ensemble& ensemble, int count) {
    std::vector<double> rows;
    for (int i = 0; i < count * ensemble.n_features; ++i) {
        const double value = std::min(1.75, lattice(random)); // within all bounds
        rows.push_back(random.chance(0.03) ? std::numeric_limits<double>::quiet_NaN() : value);
    }
    return rows;
}

void for_every_attack(const Ensemble& ensemble, const Attacker& attacker, Instance& instance,
                      const VisitAttack& visit) {
    const auto n = static_cast<std::size_t>(ensemble.n_features);
    std::vector<std::vector<double>> landings(n); // other cells, by their nearest values
    for (const Node& node : ensemble.nodes) {
        if (node.is_leaf() || std::isnan(instance.routed[node.feature]) ||
            !crosses(instance.limits(node.feature), node.threshold))
            continue;
        const bool home_left = instance.routed[node.feature] <= node.threshold;
        landings[static_cast<std::size_t>(node.feature)].push_back(
            home_left ? ensemble.next_above(node.threshold) : node.threshold);
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
