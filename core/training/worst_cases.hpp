// Worst cases as functions of the leaf scores: what a robust refit descends on.
//
// With the trees fixed, so are the leaves within reach of an instance and what they cost; only the
// scores change from step to step. What an attacker can do at most to an instance,
//
//   min over attacks of  constant + sum over trees of value(picked leaf),
//
// is a minimum of linear functions of the scores. Attacks are made up of a leaf per tree, as if no
// two trees shared a feature: exact for norm inf on large-spread ensembles, else a lower bound on
// the true minimum, and still a minimum of linear functions (see attack_by_limits.hpp and
// attack_by_costs.hpp). Training needs no more; verdicts come from elsewhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "large_spread/reach.hpp"
#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "running/parallel.hpp"
#include "training/margin_terms.hpp"
#include "training/reach_by_limits.hpp"
#include "training/reached.hpp"

namespace carve {

class WorstCases {
  public:
    // What the rows ought to be: of one of the two kinds, even where there are no rows.
    struct Wanted {
        std::vector<std::int32_t> label;
        std::vector<double> number;
        bool is_number = !number.empty();
    };
    static constexpr std::int64_t most_block = ReachByLimits::most_rows;
    struct Plan {
        // Per tree, the output it counts for; scores are then one per leaf. Empty, where there is
        // more than one output: scores are a row per leaf, a column per output.
        std::vector<std::int32_t> output;
        // Rows in the order in which blocks take them; empty: as they come.
        std::vector<std::int64_t> order;
        std::int64_t block = most_block; // rows in it
        // Bytes that may be kept; what is within reach of other blocks is found anew.
        std::size_t most_memory = static_cast<std::size_t>(-1);
    };
    // `rows` must stay where they are.
    WorstCases(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows, Wanted wanted,
               Plan plan);

    // Finds what is within reach; to be called once. False iff `watch` cancelled.
    bool collect(int threads, const WatchFunction& watch);

    // Per row; nullptr: not wanted.
    struct Outcomes {
        // Classes: the least margin against any rival; negative where it is a tie that goes to the
        // rival.
        double* margin = nullptr;
        // Numbers: the range of raw scores within reach.
        double* lowest = nullptr;
        double* highest = nullptr;
        // Classes: log(1 + sum over rivals of exp(-steepness * margin)).
        // Numbers: (the end of the range that is further from the wanted number - that number)^2.
        double* loss = nullptr;
    };
    // False iff `watch` cancelled.
    bool judge(const double* scores, double steepness, const Outcomes& outcomes, int threads,
               const WatchFunction& watch) const;

    struct Batch {
        const double* weight; // per row, in [0, 1]; nullptr: 1
        std::span<const std::int64_t> blocks;
    };
    // The derivative of the weighted sum of losses over the blocks' rows by every score; its
    // rounding does not depend on the number of threads. False iff `watch` cancelled.
    bool slope(const double* scores, double steepness, const Batch& batch, double* slope,
               int threads, const WatchFunction& watch) const;

    bool has_classes() const { return kind_ != TermKind::numbers; }
    std::int64_t rows() const { return rows_.count; }
    std::int64_t blocks() const { return (rows_.count + plan_.block - 1) / plan_.block; }
    std::size_t score_count() const { return numbers_.size() * width_; }
    // Bytes that are kept.
    std::size_t memory() const;

  private:
    class Finder;
    class Worker;

    bool by_limits() const { return attacker_.norm == norm_inf; }
    std::span<const std::int64_t> rows_of(std::int64_t block) const;
    std::span<const std::int32_t> labels_of(std::int64_t block) const;
    // Scores in the order of the leaves' numbers.
    std::vector<double> in_order(const double* scores) const;
    // No row's output is further from what is wanted than this, of numbers: a power of two.
    double most_distance(std::span<const double> scores) const;

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    Rows rows_;
    Wanted wanted_;
    Plan plan_;
    RoundedCosts costs_;
    LeafNumbers numbers_;
    std::optional<Cuts> cuts_; // by limits
    std::size_t width_;        // scores per leaf
    TermKind kind_;
    double force_unit_;         // forces are added up in whole multiples of this, in any order
    double largest_number_ = 0; // of the |numbers|
    std::vector<std::int32_t> label_; // in the order of the plan
    std::vector<std::optional<Reached>> kept_;
};

} // namespace carve
