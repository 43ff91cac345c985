// The classes that may take over, and how the unchanged instance stands against them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "model/problem.hpp"

namespace carve {

struct Rival {
    int id;
    double margin = 0; // of the label over this class, as a raw score, rounded
};

// Reused from instance to instance.
class Rivals {
  public:
    explicit Rivals(const Problem& problem)
        : problem_(problem), home_(static_cast<std::size_t>(problem.ensemble.n_trees())) {}

    // All classes but the label, in their order.
    void list(int label);
    // The same with their margins, the most dangerous first, and all that can be said of the
    // instance without an attack.
    void predict(const Instance& instance, int label);

    std::size_t size() const { return list_.size(); }
    const Rival& operator[](std::size_t i) const { return list_[i]; }

    // What `predict` found:
    bool right = true;          // the label holds the decision
    double margin = 0;          // against the most dangerous rival
    Enclosure around{0.0, 0.0}; // of the margin

  private:
    const Problem& problem_;
    std::vector<Rival> list_;
    std::vector<std::int32_t> home_; // per tree: the leaf the instance falls into
};

} // namespace carve
