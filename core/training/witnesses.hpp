// A witness per row, kept from step to step while the scores of an ensemble change: what a refit
// descends on where no bound is tight enough (norms 0, 1, 2, … and trees that share features).
//
// A row's margin at its witness is linear in the leaf scores; the worst margin within reach is a
// minimum of such functions. `improve` takes the witnesses of a batch of rows a few passes further
// and returns the margins there; `slope` then is
//
//   sum over rows i of the batch of  force_i * (derivative of margin i by every score)
//
// at fixed witnesses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "running/parallel.hpp"
#include "training/witness_finder.hpp"

namespace carve {

class Witnesses {
  public:
    // The ensemble, the attacker and the rows must outlive it. Every row is its own witness at
    // first. A label is the class whose margin is lowered; with 1 and 0 for a regression it is the
    // output, or its negative.
    Witnesses(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
              const std::int32_t* label);
    ~Witnesses();
    Witnesses(const Witnesses&) = delete;
    Witnesses& operator=(const Witnesses&) = delete;

    // Starts from the given points, one per row, where they are affordable. False iff `watch`
    // cancelled, here and below.
    bool start_at(const Rows& points, int threads, const WatchFunction& watch);

    struct Effort : WitnessFinder::Effort {
        double anew = 0; // share of the rows that start from the row itself again
        std::uint64_t seed = 0;
    };
    // margin[i] at the witness of row batch[i], as a raw score; `batch` names a row at most once.
    // Neither margins nor witnesses depend on the number of threads. With `keep_leaves`, `slope`
    // may follow.
    bool improve(std::span<const std::int32_t> batch, const double* scores, const Effort& effort,
                 bool keep_leaves, double* margin, int threads, const WatchFunction& watch);
    // For the batch improved last; `output` has a number per leaf and output, 0 where the tree does
    // not count for the output. The rounding does not depend on the number of threads.
    bool slope(std::span<const double> force, double* output, int threads,
               const WatchFunction& watch);

    // Writes the witnesses over `output`, which holds the rows, as doubles.
    bool points(double* output, int threads, const WatchFunction& watch);

    std::int64_t rows() const { return rows_.count; }
    int features() const { return ensemble_.n_features; }
    std::size_t score_count() const { return ensemble_.scores.size(); }
    std::size_t improved() const { return improved_.size(); } // rows, with their leaves kept

  private:
    static constexpr auto block_size = static_cast<std::int64_t>(WitnessFinder::most_rows);
    // Calls work(finder of the worker, its number, range) for blocks of positions 0 … count - 1.
    template <class Work>
    bool for_blocks(std::int64_t count, int threads, const WatchFunction& watch, Work&& work);

    const Ensemble& ensemble_;
    const Attacker& attacker_;
    Rows rows_;
    std::vector<std::int32_t> label_;
    CutTrees trees_;
    std::vector<std::vector<CellMove>> moves_; // per row
    std::vector<std::unique_ptr<WitnessFinder>> finders_;
    std::vector<std::int32_t> improved_; // the rows of the last batch, …
    std::vector<std::int32_t> leaves_;   // … their leaves, a row's one after the other, …
    std::vector<std::int32_t> rival_;    // … and whom their margins are against
};

} // namespace carve
