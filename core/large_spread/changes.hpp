// Norm 0, where any feature may be changed to anything: the best attack by a pass over all nodes.
//
// A leaf costs as many changes as its path tests features against the instance. With the best leaf
// of every tree for 0, 1, …, k changes at hand, a program over the trees shares k changes out. All
// in whole numbers, so that nothing is rounded.
#pragma once

#include <cstdint>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/objective.hpp"
#include "numbers/multiples.hpp"

namespace carve {

// One per thread.
class Changes {
  public:
    // `scores`: those of the ensemble, for differences of sums over its trees.
    Changes(const Ensemble& ensemble, const Attacker& attacker, const Multiples& scores);

    // Is this a case for a pass? Of few changes, small trees, and values that are whole numbers in
    // one unit; of an instance that may be changed at will, against one output.
    bool apply(const Instance& instance, const Objective& objective) const;
    // The leaf that the instance falls into, and that of an attack that brings the total down as
    // far as any can; per tree.
    void attack(const Instance& instance, const Objective& objective,
                std::vector<std::int32_t>& home, std::vector<std::int32_t>& leaf);

  private:
    static constexpr int most_changes = 15;
    static constexpr std::int32_t most_nodes = 127; // of a tree: a walk looks at fewer than all

    template <bool repeats> void count_changes(int tree, const double* routed);
    void find_repeats(int tree);

    const Ensemble& ensemble_;
    int budget_ = 0; // k
    const Multiples& scores_;
    bool applies_;
    // Of every tree's nodes, numbered within the tree: the last one on the path to it that stands
    // right below a split by the same feature; 0, the root, where there is none.
    std::vector<std::uint8_t> before_;
    std::vector<std::uint8_t> changes_; // per node of a tree: features changed on the path to it
    std::vector<std::uint8_t> changed_; // per node of a tree: is the feature tested above it?
    std::vector<Wide> gain_;            // by 0, 1, …, k changes to the trees so far
    std::vector<std::uint8_t> shares_;  // per tree and number of changes: how many are its own
    std::vector<std::int32_t> best_;    // per tree and number of changes: the best leaf
};

} // namespace carve
