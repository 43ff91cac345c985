// Robust training against norm inf: encoded rows, boosting, refitting of leaf values, bounds.
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
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
using Split = CodedTree::Split;
using Numbers = Vector<double>;
using Trees = std::vector<const CodedTree*>;

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

// One number per split, or per leaf, of a tree, as an array.
template <class T> auto per_split(T Split::* field) {
    return [field](const CodedTree& tree) {
        std::vector<T> values;
        for (const Split& split : tree.splits)
            values.push_back(split.*field);
        return array_of(values);
    };
}
template <class T> auto per_leaf(std::vector<T> CodedTree::* field) {
    return [field](const CodedTree& tree) { return array_of(tree.*field); };
}

std::vector<std::optional<std::vector<int>>> sets_of(const CodedTree& tree) {
    std::vector<std::optional<std::vector<int>>> found;
    for (const Split& split : tree.splits) {
        found.emplace_back();
        if (split.set < 0)
            continue;
        found.back().emplace();
        for (int code = 0; code < 256; ++code)
            if (tree.sets[static_cast<std::size_t>(split.set)].holds(code))
                found.back()->push_back(code);
    }
    return found;
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
BlockForest forest_of(const RowBlocks& rows, const Trees& trees, const std::vector<int>& outputs,
                      const Numbers& values, std::size_t n_outputs) {
    if (outputs.size() != trees.size())
        throw std::invalid_argument("one output per tree is needed");
    std::size_t leaves = 0;
    for (const CodedTree* const tree : trees)
        leaves += tree->splits.size() + 1;
    if (leaves != values.size())
        throw std::invalid_argument("values must have one number per leaf of all trees");
    BlockForest forest;
    for (std::size_t t = 0; t < trees.size(); ++t) {
        if (outputs[t] < 0 || static_cast<std::size_t>(outputs[t]) >= n_outputs)
            throw std::invalid_argument("a tree counts for an output that has no bias");
        forest.add(rows, *trees[t], outputs[t],
                   view(values).subspan(forest.leaves(), trees[t]->splits.size() + 1));
    }
    return forest;
}

// Lowest and highest scores, or only the worse ones where there is an objective.
std::vector<Output<double, 2>> bounds_of(const RowBlocks& rows, const Trees& trees,
                                         const std::vector<int>& outputs, const Numbers& values,
                                         const Numbers& bias, const BlockObjective* objective,
                                         int threads) {
    const BlockForest forest = forest_of(rows, trees, outputs, values, bias.size());
    const auto n = static_cast<std::size_t>(rows.source_rows());
    std::vector<Output<double, 2>> found;
    for (int end = 0; end < (objective == nullptr ? 2 : 1); ++end) {
        Owned<double> scores(n * bias.size());
        std::fill_n(scores.data.get(), n * bias.size(), std::numeric_limits<double>::quiet_NaN());
        found.push_back(scores.release<2>(n, bias.size()));
    }
    run([&](const auto& watch) {
        return carve::find_score_bounds(rows, forest, view(values), view(bias), objective,
                                        found.front().data(), found.back().data(), threads, watch);
    });
    return found;
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
                RowBlocks rows({view(bounds), view(bound_offsets), view(can_left), view(must_left),
                                view(threshold_offsets), known});
                const carve::Rows matrix = rows_of(X);
                run([&](const auto& watch) {
                    return rows.encode(matrix, view(order), view(group_sizes), threads, watch);
                });
                new (self) RowBlocks(std::move(rows));
            },
            "X"_a, "order"_a, "group_sizes"_a, "bounds"_a, "bound_offsets"_a, "can_left"_a,
            "must_left"_a, "threshold_offsets"_a, "kinds"_a, "threads"_a = 1,
            "Encodes X[order], in groups of the given sizes (such as classes). Bins of feature f "
            "end at bounds[bound_offsets[f]:bound_offsets[f + 1]], at most 254; a row can be "
            "pushed to the left of a threshold iff its bin is <= can_left, and is always there iff "
            "its bin is <= must_left. kinds: 0 numbers, 1 numbers with missing values, 2 "
            "categories (with bounds 0.5, 1.5, ... and no thresholds).")
        .def_prop_ro("rows", &RowBlocks::rows)
        .def_prop_ro("features", &RowBlocks::features)
        .def(
            "codes",
            [](const RowBlocks& self) {
                const auto n = static_cast<std::size_t>(self.rows());
                const auto d = static_cast<std::size_t>(self.features());
                Owned<std::uint8_t> codes(n * d);
                std::uint8_t* next = codes.data.get();
                for (std::size_t row = 0; row < self.padded_rows(); ++row)
                    if ((self.valid(row / RowBlocks::block_size) >> row % RowBlocks::block_size &
                         1) != 0)
                        for (int f = 0; f < self.features(); ++f)
                            *next++ =
                                static_cast<std::uint8_t>(self.column(f)[row] + RowBlocks::bias);
                return codes.release<2>(n, d);
            },
            "uint8 (rows, features), in the order of `order`; 255 for missing values");

    nb::class_<CodedTree>(
        module, "CodedTree",
        "A tree over thresholds: values up to number `position` go left; child ~i is leaf i.")
        .def("__init__",
             [](CodedTree* self, const Vector<std::int32_t>& feature,
                const Vector<std::int32_t>& position, const Vector<std::int32_t>& left,
                const Vector<std::int32_t>& right, const Numbers& values) {
                 const std::size_t n = feature.size();
                 if (position.size() != n || left.size() != n || right.size() != n ||
                     values.size() != n + 1)
                     throw std::invalid_argument("a tree has one leaf more than splits");
                 CodedTree tree;
                 for (std::size_t i = 0; i < n; ++i)
                     tree.splits.push_back({feature(i), position(i), left(i), right(i), 0});
                 tree.values = copy(values);
                 tree.hessians.resize(n + 1);
                 tree.rows.resize(n + 1);
                 new (self) CodedTree(std::move(tree));
             })
        .def_prop_ro("feature", per_split(&Split::feature), nb::rv_policy::move)
        .def_prop_ro("position", per_split(&Split::position), nb::rv_policy::move)
        .def_prop_ro("left", per_split(&Split::left), nb::rv_policy::move)
        .def_prop_ro("right", per_split(&Split::right), nb::rv_policy::move)
        .def_prop_ro("gain", per_split(&Split::gain), nb::rv_policy::move)
        .def_prop_ro("missing_left", per_split(&Split::missing_left), nb::rv_policy::move)
        .def_prop_ro("sets", &sets_of, "per split: the codes that go left, or None")
        .def_prop_ro("values", per_leaf(&CodedTree::values), nb::rv_policy::move)
        .def_prop_ro("hessians", per_leaf(&CodedTree::hessians), nb::rv_policy::move)
        .def_prop_ro("rows", per_leaf(&CodedTree::rows), nb::rv_policy::move);

    nb::class_<BoostingOptions> boosting(module, "BoostingOptions",
                                         "Named as LightGBM's parameters.");
    def_fields(boosting,
               "At most 256 leaves; max_depth 0: unlimited. bagging_fraction: of the blocks of "
               "every group, drawn for every round. ordered: values below a split agree with its "
               "orientation all the way down.",
               std::pair{"num_leaves", &BoostingOptions::num_leaves},
               std::pair{"max_depth", &BoostingOptions::max_depth},
               std::pair{"learning_rate", &BoostingOptions::learning_rate},
               std::pair{"min_data_in_leaf", &BoostingOptions::min_data_in_leaf},
               std::pair{"min_sum_hessian_in_leaf", &BoostingOptions::min_sum_hessian_in_leaf},
               std::pair{"min_gain_to_split", &BoostingOptions::min_gain_to_split},
               std::pair{"lambda_l1", &BoostingOptions::lambda_l1},
               std::pair{"lambda_l2", &BoostingOptions::lambda_l2},
               std::pair{"bagging_fraction", &BoostingOptions::bagging_fraction},
               std::pair{"feature_fraction", &BoostingOptions::feature_fraction},
               std::pair{"feature_fraction_bynode", &BoostingOptions::feature_fraction_bynode},
               std::pair{"extra_trees", &BoostingOptions::extra_trees},
               std::pair{"ordered", &BoostingOptions::ordered},
               std::pair{"seed", &BoostingOptions::seed});

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
            "set_values",
            [](RobustBooster& self, const Numbers& values) { self.set_values(view(values)); },
            "values"_a, "Replaces the leaf values of all trees, tree after tree, and all scores.")
        .def(
            "watch",
            [](RobustBooster& self, const RowBlocks& rows, const Numbers& targets,
               const std::optional<Numbers>& weights) {
                self.watch(rows, view(targets), optional_view(weights));
            },
            "rows"_a, "targets"_a, "weights"_a.none(), nb::keep_alive<1, 2>(),
            "Finds `loss` on these rows from now on; to be called before the first round.")
        .def_prop_ro("n_trees", [](const RobustBooster& self) { return self.trees().size(); })
        .def_prop_ro("loss", &RobustBooster::loss,
                     "mean loss of the watched rows at their worst scores after the last round")
        .def_prop_ro("trees", &RobustBooster::trees, nb::rv_policy::copy,
                     "trees so far, output after output; their values include the learning rate")
        .def_prop_ro(
            "bias", [](const RobustBooster& self) { return array_of(self.bias()); },
            nb::rv_policy::move, "scores before the first tree, one per output");

    nb::class_<RefitOptions> refit(module, "RefitOptions");
    def_fields(refit, "The rate falls linearly to 0. The result is an average of the iterates.",
               std::pair{"steps", &RefitOptions::steps},
               std::pair{"blocks_per_batch", &RefitOptions::blocks_per_batch},
               std::pair{"rate", &RefitOptions::rate}, std::pair{"l2", &RefitOptions::l2},
               std::pair{"seed", &RefitOptions::seed});

    module.def(
        "refit_leaves",
        [](const RowBlocks& rows, const Numbers& targets, const std::optional<Numbers>& weights,
           const std::string& task, const Trees& trees, const std::vector<int>& outputs,
           const Numbers& values, const Numbers& bias, const RefitOptions& options, int threads) {
            const BlockObjective objective(rows, task_of(task), static_cast<int>(bias.size()),
                                           view(targets), optional_view(weights));
            BlockForest forest = forest_of(rows, trees, outputs, values, bias.size());
            std::vector<double> found;
            run_watched([&](const auto& go_on) {
                found = carve::refit_leaves(rows, objective, std::move(forest), view(values),
                                            view(bias), options, threads, go_on);
            });
            return array_of(found);
        },
        "rows"_a, "targets"_a, "weights"_a.none(), "task"_a, "trees"_a, "outputs"_a, "values"_a,
        "bias"_a, "options"_a, "threads"_a = 1,
        "New leaf values of all trees, tree after tree like `values`: Adam on the mean loss of the "
        "worst scores + l2 / 2 * |values|^2.");

    module.def(
        "score_bounds",
        [](const RowBlocks& rows, const Trees& trees, const std::vector<int>& outputs,
           const Numbers& values, const Numbers& bias, int threads) {
            const auto found = bounds_of(rows, trees, outputs, values, bias, nullptr, threads);
            return std::pair(found[0], found[1]);
        },
        "rows"_a, "trees"_a, "outputs"_a, "values"_a, "bias"_a, "threads"_a = 1,
        "(low, high), float64 (rows of X, outputs): bias + the sums of the lowest and of the "
        "highest leaf values in reach; NaN for rows that were not encoded.");

    module.def(
        "worst_scores",
        [](const RowBlocks& rows, const Numbers& targets, const std::string& task,
           const Trees& trees, const std::vector<int>& outputs, const Numbers& values,
           const Numbers& bias, int threads) {
            if (task == "regression")
                throw std::invalid_argument("both ends count for a regression; use score_bounds");
            const BlockObjective objective(rows, task_of(task), static_cast<int>(bias.size()),
                                           view(targets), {});
            return bounds_of(rows, trees, outputs, values, bias, &objective, threads)[0];
        },
        "rows"_a, "targets"_a, "task"_a, "trees"_a, "outputs"_a, "values"_a, "bias"_a,
        "threads"_a = 1,
        "Like score_bounds, but only the worse end: low for the row's class, high for others.");
}
