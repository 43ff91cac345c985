#include "training/reached.hpp"

#include <limits>

#include "numbers/units.hpp"

namespace carve {

LeafNumbers::LeafNumbers(const Ensemble& ensemble) : number_(ensemble.nodes.size(), -1) {
    constexpr std::int32_t most = std::numeric_limits<std::uint16_t>::max();
    for (int tree = 0; tree < ensemble.n_trees(); ++tree) {
        const auto t = static_cast<std::size_t>(tree);
        first_.push_back(units::index(row_.size()));
        for (auto node = static_cast<std::size_t>(ensemble.roots[t]);
             node < static_cast<std::size_t>(ensemble.roots[t + 1]); ++node) {
            if (!ensemble.nodes[node].is_leaf())
                continue;
            number_[node] = units::index(row_.size());
            row_.push_back(ensemble.nodes[node].right);
        }
        narrow_ = narrow_ && units::index(row_.size()) - first_.back() <= most;
    }
    first_.push_back(units::index(row_.size()));
}

void Reached::clear() {
    narrow.clear();
    wide.clear();
    home.clear();
    end.clear();
    contests.clear();
    leaf.clear();
    cost.clear();
}

void Reached::shrink() {
    narrow.shrink_to_fit();
    wide.shrink_to_fit();
    home.shrink_to_fit();
    end.shrink_to_fit();
    contests.shrink_to_fit();
    leaf.shrink_to_fit();
    cost.shrink_to_fit();
}

std::size_t Reached::memory() const {
    return narrow.capacity() * sizeof(std::uint16_t) + wide.capacity() * sizeof(std::uint32_t) +
           (home.capacity() + end.capacity() + leaf.capacity()) * sizeof(std::int32_t) +
           contests.capacity() * sizeof(Contest) + cost.capacity() * sizeof(float);
}

} // namespace carve
