#include "training/cut_trees.hpp"

#include <algorithm>
#include <limits>

namespace carve {

CutTrees::CutTrees(const Ensemble& ensemble, const Attacker& attacker) {
    std::vector<std::vector<double>> cuts(static_cast<std::size_t>(ensemble.n_features));
    std::vector<std::size_t> words(cuts.size(), 0);
    for (const auto& node : ensemble.nodes) {
        if (node.is_leaf())
            continue;
        const auto f = static_cast<std::size_t>(node.axis());
        if (node.is_by_set())
            words[f] = std::max({words[f], attacker.states_of(node.axis()).size(),
                                 ensemble.sets[static_cast<std::size_t>(node.threshold)].size()});
        else
            cuts[f].push_back(node.threshold);
    }
    // As many cuts as make state s cell s + 1, up to the first state that is not known.
    for (std::size_t f = 0; f < cuts.size(); ++f)
        for (std::size_t state = 0; words[f] > 0 && state <= 64 * words[f]; ++state)
            cuts[f].push_back(static_cast<double>(state) - 1);
    first_.push_back(0);
    for (auto& of_feature : cuts) {
        std::ranges::sort(of_feature);
        of_feature.erase(std::ranges::unique(of_feature).begin(), of_feature.end());
        cuts_.insert(cuts_.end(), of_feature.begin(), of_feature.end());
        first_.push_back(units::index(cuts_.size()));
    }
    for (std::size_t i = 0; i < ensemble.nodes.size(); ++i) {
        const auto& node = ensemble.nodes[i];
        const bool leaf = node.is_leaf();
        const bool by_set = node.is_by_set();
        nodes.push_back({by_set ? std::numeric_limits<double>::quiet_NaN() : node.threshold,
                         node.axis(), node.right,
                         leaf     ? 0
                         : by_set ? static_cast<std::int32_t>(node.threshold)
                                  : cell_of(node.feature, node.threshold),
                         !leaf && ensemble.missing[i] == Missing::left, by_set});
    }
    for (int tree = 0; tree < ensemble.n_trees(); ++tree)
        output.push_back(std::max(only_output(ensemble, tree), no_output));
}

std::int32_t only_output(const Ensemble& ensemble, int tree) {
    const auto outputs = static_cast<std::size_t>(ensemble.n_outputs());
    std::int32_t only = outputs == 1 ? 0 : no_output;
    const auto t = static_cast<std::size_t>(tree);
    for (auto n = ensemble.roots[t]; n < ensemble.roots[t + 1]; ++n) {
        const auto& node = ensemble.nodes[static_cast<std::size_t>(n)];
        for (std::size_t k = 0; node.is_leaf() && outputs > 1 && k < outputs; ++k) {
            if (ensemble.scores[static_cast<std::size_t>(node.right) * outputs + k] == 0)
                continue;
            if (only >= 0 && only != static_cast<std::int32_t>(k))
                return several_outputs;
            only = static_cast<std::int32_t>(k);
        }
    }
    return only;
}

std::int32_t CutTrees::cell_of(std::int32_t feature, double value) const {
    const auto found = cuts(feature);
    return static_cast<std::int32_t>(std::ranges::lower_bound(found, value) - found.begin());
}

} // namespace carve
