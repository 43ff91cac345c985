// Finds the leaves within reach where the limits of each feature say it all (norm inf): up to 64
// rows at once, a bit for each.
//
// A row whose feature the attacker can give the values [low, high] can go left at a split iff
// low <= threshold, right iff threshold < high. It can reach a leaf iff it can take every turn on
// the way there: what a way asks of one feature is an interval, and [low, high] meets the interval
// if it meets both of its ends. Ways that ask for the impossible (x <= 1 and x > 2) are closed to
// all rows but those whose value is missing: these follow the splits' own rules. At a split by a
// set of states, all rows of one state go the same ways, see states.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "training/reached.hpp"

namespace carve {

// The different thresholds of each feature, and which one a split asks for; the finite features.
class Cuts {
  public:
    explicit Cuts(const Ensemble& ensemble);

    struct Feature {
        std::int32_t feature;
        std::int32_t begin; // of its thresholds, which ascend
        std::int32_t end;
    };
    struct Split {
        std::int32_t cut;   // place of its threshold; of a split by a set without meaning
        std::int32_t place; // of its feature in `features`, or in `finite`
        bool left_closed;   // the way to this split allows no value on this side
        bool right_closed;
    };
    std::vector<Feature> features;
    std::vector<double> thresholds;
    std::vector<std::int32_t> finite; // features that are split by sets, ascending
    std::vector<Split> splits;        // per node; at a leaf without meaning

  private:
    void close_ways(const Ensemble& ensemble, int tree);
};

// One per thread.
class ReachByLimits {
  public:
    static constexpr std::int64_t most_rows = 64;

    ReachByLimits(const Ensemble& ensemble, const Attacker& attacker, const LeafNumbers& numbers,
                  const Cuts& cuts);

    // `chosen` are the block's rows, at most `most_rows`, possibly none.
    void find(const Rows& rows, std::span<const std::int64_t> chosen, Reached& reached);

  private:
    using Bits = std::uint64_t; // a bit per row

    struct Known { // of one value of a feature
        double value = std::numeric_limits<double>::quiet_NaN();
        std::int32_t left = 0;  // the first cut that it can be left of
        std::int32_t right = 0; // the last cut that it can be right of
    };
    struct OfState { // of one state of a finite feature
        double state;
        bool may_switch;
        Bits rows;
    };
    struct Ways { // the rows that can go either way
        Bits left;
        Bits right;
    };
    Known look_up(const Cuts::Feature& of, double value);
    void find_sides(const Rows& rows, std::span<const std::int64_t> chosen);
    void find_states(Bits bit);
    Ways ways_at(std::int32_t split, Bits rows) const;
    Ways ways_by_set(std::int32_t split, Bits rows) const;
    void find_leaves(int tree, Bits all);
    template <class Leaf> void store(std::size_t rows, std::vector<Leaf>& leaves) const;

    struct Pending {
        std::int32_t node;
        Bits rows;
    };
    struct Found {
        std::int32_t leaf;
        Bits rows;
    };

    const Ensemble& ensemble_;
    const LeafNumbers& numbers_;
    const Cuts& cuts_;
    Instance instance_;
    std::vector<Bits> left_;                   // per cut: rows that can go left
    std::vector<Bits> right_;                  // per cut: rows that can go right
    std::vector<Bits> missing_;                // per place of a feature: rows that lack it
    std::vector<Known> known_;                 // per place of a feature: of the value seen last
    std::vector<std::vector<OfState>> states_; // per place of a finite feature
    std::vector<Bits> stateless_;              // … rows that lack it
    std::vector<Pending> pending_;
    std::vector<Found> found_;
};

} // namespace carve
