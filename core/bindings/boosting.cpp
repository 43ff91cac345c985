// Robust training against norm inf: encoded rows, boosting, refitting of leaf values, bounds.
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/running.hpp"
#include "training/block_refit.hpp"
#include "training/robust_booster.hpp"

namespace {

using carve::BlockForest;
using carve::BlockObjective;
using carve::BoostingOptions;
using carve::CodedTree;
using carve::RefitOptions;
using carve::RobustBooster;
using carve::RowBlocks;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
using Numbers = Vector<double>;

carve::Rows matrix_of(const Matrix& X) {
    const bool single = X.dtype() == nb::dtype<float>();
    if (!single && X.dtype() != nb::dtype<double>())
        throw std::invalid_argument("X must be float64 or float32");
    return {X.data(), single, static_cast<std::int64_t>(X.shape(0)),
            static_cast<std::int64_t>(X.shape(1))};
}

carve::Task task_of(const std::string& name) {
    if (name == "binary")
        return carve::Task::binary;
    if (name == "multiclass")
        return carve::Task::multiclass;
    if (name == "regression")
        return carve::Task::regression;
    throw std::invalid_argument("task must be binary, multiclass or regression, got " + name);
}

std::span<const double> optional_view(const std::optional<Numbers>& array) {
    return array ? view(*array) : std::span<const double>();
}

template <class T> Output<T, 1> array_of(const std::vector<T>& values) {
    Owned<T> owned(values.size());
    std::ranges::copy(values, owned.data.get());
    return owned.template release<1>(values.size());
}

// Calls work(go_on) without the GIL; go_on() is false once a signal (Ctrl-C) has raised an
// exception, for which it looks about ten times a second.
template <class Work> void run_watched(Work&& work) {
    run([&](const auto& watch) {
        using Clock = std::chrono::steady_clock;
        auto last = Clock::now();
        bool goes_on = true;
        work([&] {
            if (goes_on && Clock::now() - last > std::chrono::milliseconds(100)) {
                goes_on = watch({});
                last = Clock::now();
            }
            return goes_on;
        });
        return goes_on;
    });
}

// Trees with their outputs; values are those of all leaves, tree after tree.
BlockForest forest_of(const RowBlocks& rows, const std::vector<const CodedTree*>& trees,
                      const std::vector<int>& outputs, const Numbers& values,
                      std::size_t n_outputs) {
    if (outputs.size() != trees.size())
        throw std::invalid_argument("one output per tree is needed");
    BlockForest forest;
    std::size_t first = 0;
    for (std::size_t t = 0; t < trees.size(); ++t) {
        const std::size_t count = trees[t]->splits.size() + 1;
        if (outputs[t] < 0 || static_cast<std::size_t>(outputs[t]) >= n_outputs)
            throw std::invalid_argument("a tree counts for an output that has no bias");
        if (first + count > values.size())
            throw std::invalid_argument("values must have one number per leaf of all trees");
        forest.add(rows, *trees[t], outputs[t], view(values).subspan(first, count));
        first += count;
    }
    if (first != values.size())
        throw std::invalid_argument("values must have one number per leaf of all trees");
    return forest;
}

nb::object score_bounds(const RowBlocks& rows, const std::vector<const CodedTree*>& trees,
                        const std::vector<int>& outputs, const Numbers& values, const Numbers& bias,
                        const BlockObjective* objective, int threads) {
    const BlockForest forest = forest_of(rows, trees, outputs, values, bias.size());
    const auto n = static_cast<std::size_t>(rows.source_rows());
    const std::size_t size = n * bias.size();
    Owned<double> low(size);
    Owned<double> high(objective != nullptr ? 0 : size);
    std::fill_n(low.data.get(), size, nan);
    if (objective == nullptr)
        std::fill_n(high.data.get(), size, nan);
    run([&](const auto& watch) {
        return carve::find_score_bounds(rows, forest, view(values), view(bias), objective,
                                        low.data.get(), high.data.get(), threads, watch);
    });
    nb::object lows = nb::cast(low.release<2>(n, bias.size()));
    if (objective != nullptr)
        return lows;
    return nb::make_tuple(lows, high.release<2>(n, bias.size()));
}

} // namespace

void bind_boosting(nb::module_& module) {
    nb::class_<RowBlocks>(
        module, "RowBlocks",
        "Rows in blocks of 64, with one byte per value that says what an attacker "
        "of norm inf can do at every threshold.")
        .def(
            "__init__",
            [](RowBlocks* self, const Matrix& X, const Vector<std::int64_t>& order,
               const Vector<std::int64_t>& group_sizes, const Numbers& bounds,
               const Vector<std::int64_t>& bound_offsets, const Vector<std::uint8_t>& can_left,
               const Vector<std::uint8_t>& must_left, const Vector<std::int64_t>& threshold_offsets,
               const Vector<std::uint8_t>& kinds, int threads) {
                std::vector<carve::FeatureKind> known;
                for (const std::uint8_t kind : view(kinds)) {
                    if (kind > 2)
                        throw std::invalid_argument("kinds are 0, 1 and 2");
                    known.push_back(static_cast<carve::FeatureKind>(kind));
                }
                auto rows = std::make_unique<RowBlocks>(
                    carve::BinTable{view(bounds), view(bound_offsets), view(can_left),
                                    view(must_left), view(threshold_offsets), known});
                const carve::Rows matrix = matrix_of(X);
                run([&](const auto& watch) {
                    return rows->encode(matrix, view(order), view(group_sizes), threads, watch);
                });
                new (self) RowBlocks(std::move(*rows));
            },
            "X"_a, "order"_a, "group_sizes"_a, "bounds"_a, "bound_offsets"_a, "can_left"_a,
            "must_left"_a, "threshold_offsets"_a, "kinds"_a, "threads"_a = 1,
            "Encodes X[order], in groups of the given sizes (such as classes). Bins of feature f "
            "end "
            "at bounds[bound_offsets[f]:bound_offsets[f + 1]], at most 254; a row can be pushed to "
            "the left of a threshold iff its bin is <= can_left, and is always there iff its bin "
            "is "
            "<= must_left. kinds: 0 numbers, 1 numbers with missing values, 2 categories (with "
            "bounds 0.5, 1.5, ... and no thresholds).")
        .def_prop_ro("rows", &RowBlocks::rows)
        .def_prop_ro("features", &RowBlocks::features)
        .def_prop_ro("blocks", &RowBlocks::blocks)
        .def(
            "codes",
            [](const RowBlocks& self) {
                const auto n = static_cast<std::size_t>(self.rows());
                const auto d = static_cast<std::size_t>(self.features());
                Owned<std::uint8_t> codes(n * d);
                std::size_t row = 0;
                for (std::size_t block = 0; block < self.blocks(); ++block)
                    for (std::size_t i = 0; i < static_cast<std::size_t>(self.rows_in(block));
                         ++i, ++row)
                        for (std::size_t f = 0; f < d; ++f)
                            codes.data[row * d + f] = self.line(block * RowBlocks::block_size +
                                                                i)[self.place(static_cast<int>(f))];
                return codes.release<2>(n, d);
            },
            "uint8 (rows, features), in the order of `order`; 255 for missing values");

    nb::class_<BoostingOptions>(module, "BoostingOptions", "Named as LightGBM's parameters.")
        .def(
            "__init__",
            [](BoostingOptions* self, int num_leaves, int max_depth, double learning_rate,
               std::int64_t min_data_in_leaf, double min_sum_hessian_in_leaf,
               double min_gain_to_split, double lambda_l1, double lambda_l2,
               double bagging_fraction, double feature_fraction, double feature_fraction_bynode,
               bool extra_trees, bool ordered, std::uint64_t seed) {
                new (self) BoostingOptions{num_leaves,
                                           max_depth,
                                           learning_rate,
                                           min_data_in_leaf,
                                           min_sum_hessian_in_leaf,
                                           min_gain_to_split,
                                           lambda_l1,
                                           lambda_l2,
                                           bagging_fraction,
                                           feature_fraction,
                                           feature_fraction_bynode,
                                           extra_trees,
                                           ordered,
                                           seed};
            },
            nb::kw_only(), "num_leaves"_a = 32, "max_depth"_a = 0, "learning_rate"_a = 0.15,
            "min_data_in_leaf"_a = 1, "min_sum_hessian_in_leaf"_a = 0.0,
            "min_gain_to_split"_a = 0.0, "lambda_l1"_a = 0.0, "lambda_l2"_a = 0.0,
            "bagging_fraction"_a = 1.0, "feature_fraction"_a = 1.0,
            "feature_fraction_bynode"_a = 1.0, "extra_trees"_a = false, "ordered"_a = false,
            "seed"_a = 0,
            "At most 256 leaves; max_depth 0: unlimited. bagging_fraction: of the blocks of every "
            "group, drawn for every round. ordered: values below a split agree with its "
            "orientation all the way down.");

    nb::class_<RobustBooster>(module, "RobustBooster",
                              "Boosting on the worst scores that the trees, one by one, allow.")
        .def(
            "__init__",
            [](RobustBooster* self, const RowBlocks& rows, const Numbers& targets,
               const std::optional<Numbers>& weights, const std::string& task, int n_outputs,
               const BoostingOptions& options, int threads) {
                new (self) RobustBooster(rows, task_of(task), n_outputs, view(targets),
                                         optional_view(weights), options, threads);
            },
            "rows"_a, "targets"_a, "weights"_a.none(), "task"_a, "n_outputs"_a, "options"_a,
            "threads"_a = 1, nb::keep_alive<1, 2>(),
            "targets, weights: float64 per row of X; targets are class indices for the tasks "
            "binary and multiclass, numbers for regression.")
        .def(
            "round",
            [](RobustBooster& self) {
                bool found = false;
                run_watched([&](const auto& go_on) { found = self.round(go_on); });
                return found;
            },
            "Grows a tree per output. Returns False, and adds none, if none has a split.")
        .def(
            "set_scores",
            [](RobustBooster& self, const Numbers& low, const Numbers& high) {
                self.set_scores(view(low), view(high));
            },
            "low"_a, "high"_a,
            "Replaces the scores of all rows, flat, per row of X and output: the worst ones twice, "
            "or, for a regression, the lowest and the highest. The next round grows at these.")
        .def(
            "trees_from",
            [](const RobustBooster& self, std::size_t first) {
                const auto& trees = self.trees();
                return std::vector<CodedTree>(
                    trees.begin() + static_cast<std::ptrdiff_t>(std::min(first, trees.size())),
                    trees.end());
            },
            "first"_a, "the trees from number `first` on")
        .def_prop_ro("n_trees", [](const RobustBooster& self) { return self.trees().size(); })
        .def_prop_ro(
            "bias", [](const RobustBooster& self) { return array_of(self.bias()); },
            nb::rv_policy::move, "scores before the first tree, one per output")
        .def_prop_ro("trees", &RobustBooster::trees, nb::rv_policy::copy,
                     "trees so far; their values include the learning rate")
        .def_prop_ro("n_trees", [](const RobustBooster& self) { return self.trees().size(); })
        .def(
            "tree",
            [](const RobustBooster& self, std::size_t index) { return self.trees().at(index); },
            "index"_a, "one of `trees`, without a copy of the others")
        .def_prop_ro(
            "outputs",
            [](const RobustBooster& self) {
                std::vector<int> outputs;
                for (std::size_t t = 0; t < self.trees().size(); ++t)
                    outputs.push_back(static_cast<int>(t) % self.outputs());
                return outputs;
            },
            "the output that each tree counts for");

    nb::class_<RefitOptions>(module, "RefitOptions")
        .def(
            "__init__",
            [](RefitOptions* self, int steps, int blocks_per_batch, double rate, double end_rate,
               double averaging, double l2, std::uint64_t seed) {
                new (self)
                    RefitOptions{steps, blocks_per_batch, rate, end_rate, averaging, l2, seed};
            },
            nb::kw_only(), "steps"_a, "blocks_per_batch"_a = 64, "rate"_a = 0.02,
            "end_rate"_a = 0.0, "averaging"_a = 0.8, "l2"_a = 0.0, "seed"_a = 0,
            "The rate changes linearly from `rate` to `end_rate`; averaging is the weight of the "
            "past in the average of the iterates, which is the result.");

    module.def(
        "refit_leaves",
        [](const RowBlocks& rows, const Numbers& targets, const std::optional<Numbers>& weights,
           const std::string& task, const std::vector<const CodedTree*>& trees,
           const std::vector<int>& outputs, const Numbers& values, const Numbers& bias,
           const RefitOptions& options, const std::optional<Numbers>& anchor, int threads) {
            const BlockObjective objective(rows, task_of(task), static_cast<int>(bias.size()),
                                           view(targets), optional_view(weights));
            BlockForest forest = forest_of(rows, trees, outputs, values, bias.size());
            std::vector<double> found;
            run_watched([&](const auto& go_on) {
                found =
                    carve::refit_leaves(rows, objective, std::move(forest), view(values),
                                        view(bias), optional_view(anchor), options, threads, go_on);
            });
            return array_of(found);
        },
        "rows"_a, "targets"_a, "weights"_a.none(), "task"_a, "trees"_a, "outputs"_a, "values"_a,
        "bias"_a, "options"_a, "anchor"_a = nb::none(), "threads"_a = 1,
        "New leaf values of all trees, tree after tree like `values`: Adam on the mean loss of the "
        "worst scores + l2 / 2 * |values - anchor|^2.");

    module.def(
        "score_bounds",
        [](const RowBlocks& rows, const std::vector<const CodedTree*>& trees,
           const std::vector<int>& outputs, const Numbers& values, const Numbers& bias,
           int threads) {
            return score_bounds(rows, trees, outputs, values, bias, nullptr, threads);
        },
        "rows"_a, "trees"_a, "outputs"_a, "values"_a, "bias"_a, "threads"_a = 1,
        "(low, high), float64 (rows of X, outputs): bias + the sums of the lowest and of the "
        "highest leaf values in reach; NaN for rows that were not encoded.");

    module.def(
        "worst_scores",
        [](const RowBlocks& rows, const Numbers& targets, const std::string& task,
           const std::vector<const CodedTree*>& trees, const std::vector<int>& outputs,
           const Numbers& values, const Numbers& bias, int threads) {
            if (task == "regression")
                throw std::invalid_argument("both ends count for a regression; use score_bounds");
            const BlockObjective objective(rows, task_of(task), static_cast<int>(bias.size()),
                                           view(targets), {});
            return score_bounds(rows, trees, outputs, values, bias, &objective, threads);
        },
        "rows"_a, "targets"_a, "task"_a, "trees"_a, "outputs"_a, "values"_a, "bias"_a,
        "threads"_a = 1,
        "Like score_bounds, but only the worse end: low for the row's class, high for others.");
}
