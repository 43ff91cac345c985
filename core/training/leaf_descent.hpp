// Fits the leaf scores of fixed trees to worst cases: Adam on the mean loss of batches of rows.
//
// The best average of the iterates, judged on validation rows, is returned; without these the last
// one. An average with fewer robust rows than the first scores is never taken; of the others, those
// with at least the accuracy of the floor come first, then the most robust ones, then those with
// the smallest loss.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"

namespace carve {

struct DescentOptions {
    int steps = 120;
    int epochs = 0;     // in place of steps: passes over all rows
    double rate = 0.01; // of the first step; it falls linearly to 0
    std::int64_t batch = 4096;
    bool shuffle = false;   // new batches in every epoch
    double averaging = 0.9; // weight of the past in the averaged iterate
    double l2 = 0;          // l2 / 2 times the sum of squares of scores - anchor is added
    int patience = 0;       // steps without a better average; 0: any number
    double floor = -std::numeric_limits<double>::infinity();
    std::uint64_t seed = 0;
    int threads = 1;
    bool uses_witnesses = false; // instead of bounds on worst margins
    int batch_passes = 1;        // over the witnesses of a batch
    int point_passes = 2;        // over all witnesses in the end; 0: they are not returned
    double unit = 1;             // of scores
    double steepness = 1;        // of the logistic loss
    std::size_t most_memory = std::size_t{1} << 29; // bytes of leaves in reach that are kept
};

// Rows and what they should be: class indices, or numbers of a regression.
struct TargetRows {
    Rows rows;
    std::span<const double> target;
    std::span<const double> weight; // empty: all equal
};

struct DescentCheck {
    int step;
    double robustness; // share of rows whose worst margin, or a bound on it, is >= 0; NaN: numbers
    double accuracy;   // NaN without a floor
    double loss;
};

struct Descent {
    std::vector<double> scores; // a row per leaf, a column per output
    std::vector<DescentCheck> checks;
    int best = -1; // of the checks
    bool interrupted = false;
};

// Called after every step, and with the same number now and then within it; false stops.
using StepFunction = std::function<bool(int step)>;

// `points` (may be null) holds a row per training row: witnesses to start from, then, if wanted,
// those at the new scores; of a regression, those at the end that is farther from the target.
Descent descend(const Ensemble& ensemble, const Attacker& attacker, const TargetRows& train,
                const TargetRows* valid, const Attacker& nobody, std::span<const double> scores,
                std::span<const double> anchor, double* points, bool is_regression,
                const DescentOptions& options, const StepFunction& go_on);

} // namespace carve
