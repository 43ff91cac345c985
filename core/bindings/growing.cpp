// The grower: codes of rows, and trees whose splits see the attacker.
#include "training/grower.hpp"

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "bindings/joining.hpp"
#include "bindings/module.hpp"
#include "bindings/running.hpp"
#include "training/codes.hpp"

namespace {

// One number per split, or per leaf, of a tree, as an array.
template <class T> auto per_split(T carve::CodedTree::Split::* field) {
    return [field](const carve::CodedTree& tree) {
        Owned<T> values(tree.splits.size());
        for (std::size_t i = 0; i < tree.splits.size(); ++i)
            values.data[i] = tree.splits[i].*field;
        return values.template release<1>(tree.splits.size());
    };
}

template <class T> auto per_leaf(std::vector<T> carve::CodedTree::* field) {
    return [field](const carve::CodedTree& tree) {
        const std::vector<T>& all = tree.*field;
        Owned<T> values(all.size());
        std::ranges::copy(all, values.data.get());
        return values.template release<1>(all.size());
    };
}

Output<std::uint8_t, 2> ends(const carve::Codes& codes, bool high) {
    const auto n = static_cast<std::size_t>(codes.rows());
    const auto d = static_cast<std::size_t>(codes.features());
    Owned<std::uint8_t> values(n * d);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t f = 0; f < d; ++f) {
            const auto range = codes.at(static_cast<std::int64_t>(i), static_cast<int>(f));
            values.data[i * d + f] = static_cast<std::uint8_t>(high ? range.high : range.low);
        }
    return values.release<2>(n, d);
}

nb::list sets_of(const carve::CodedTree& tree) {
    nb::list found;
    for (const auto& split : tree.splits) {
        if (split.set < 0) {
            found.append(nb::none());
            continue;
        }
        nb::list codes;
        for (int code = 0; code <= carve::Codes::most_thresholds; ++code)
            if (tree.sets[static_cast<std::size_t>(split.set)].holds(code))
                codes.append(code);
        found.append(codes);
    }
    return found;
}

carve::CodedTree tree_of(const Vector<std::int32_t>& feature, const Vector<std::int32_t>& position,
                         const Vector<std::int32_t>& left, const Vector<std::int32_t>& right,
                         const Vector<double>& values) {
    carve::CodedTree tree;
    const auto n = static_cast<std::int32_t>(feature.size());
    if (position.size() != feature.size() || left.size() != feature.size() ||
        right.size() != feature.size() || values.size() != feature.size() + 1)
        throw std::invalid_argument("a tree has one leaf more than splits");
    for (std::int32_t i = 0; i < n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        for (const std::int32_t child : {left(k), right(k)})
            if (child >= n || child < ~n || (child >= 0 && child <= i))
                throw std::invalid_argument("a child must be a leaf or come after its parent");
        tree.splits.push_back({feature(k), position(k), left(k), right(k), 0});
    }
    tree.values = copy(values);
    tree.hessians.assign(tree.values.size(), 0);
    tree.rows.assign(tree.values.size(), 0);
    return tree;
}

} // namespace

void bind_growing(nb::module_& module) {
    nb::class_<carve::Codes>(module, "Codes",
                             "Where the attacker can push every feature of every row, in codes.")
        .def(
            "__init__",
            [](carve::Codes* self, const carve::Ensemble& ensemble, const carve::Attacker& attacker,
               const Matrix& X, const Vector<double>& thresholds,
               const Vector<std::int64_t>& offsets, int threads,
               const std::vector<std::uint8_t>& kinds, std::optional<nb::callable> join) {
                if (offsets.size() != X.shape(1) + 1)
                    throw std::invalid_argument("one offset per feature is needed, and the end");
                const carve::Rows rows = rows_of(ensemble, X);
                std::vector<carve::CodeKind> known;
                for (const std::uint8_t kind : kinds) {
                    if (kind > 2)
                        throw std::invalid_argument("kinds are 0, 1 and 2");
                    known.push_back(static_cast<carve::CodeKind>(kind));
                }
                auto codes = std::make_unique<carve::Codes>(view(thresholds), view(offsets), known);
                const carve::Join joins = join ? join_of(std::move(*join)) : carve::Join();
                run([&](const auto& watch) {
                    return codes->encode(ensemble, attacker, rows, threads, watch, joins);
                });
                new (self) carve::Codes(std::move(*codes));
            },
            "ensemble"_a, "attacker"_a, "X"_a, "thresholds"_a, "offsets"_a, "threads"_a,
            "kinds"_a = std::vector<std::uint8_t>(), "join"_a = nb::none(),
            "kinds: per feature, 0 numbers, 1 numbers and a code for missing values, 2 categories; "
            "empty: numbers. join: see Whole; for rows that are a part of a whole")
        .def_prop_ro("rows", &carve::Codes::rows)
        .def_prop_ro("features", &carve::Codes::features)
        .def("low", [](const carve::Codes& self) { return ends(self, false); })
        .def("high", [](const carve::Codes& self) { return ends(self, true); });

    using carve::GrowerOptions;
    nb::class_<GrowerOptions>(module, "GrowerOptions")
        .def(
            "__init__",
            [](GrowerOptions* self, int leaves, int depth, std::int64_t least_rows,
               double least_hessian, double l1, double l2, double least_gain, double feature_share,
               bool drawn, bool ordered, std::uint64_t seed) {
                new (self)
                    GrowerOptions{leaves,     depth,         least_rows, least_hessian, l1,  l2,
                                  least_gain, feature_share, drawn,      ordered,       seed};
            },
            nb::kw_only(), "leaves"_a = 32, "depth"_a = 0, "least_rows"_a = 1,
            "least_hessian"_a = 0.0, "l1"_a = 0.0, "l2"_a = 0.0, "least_gain"_a = 0.0,
            "feature_share"_a = 1.0, "drawn"_a = false, "ordered"_a = false, "seed"_a = 0);

    using carve::Whole;
    nb::class_<Whole>(module, "Whole", "What rows are a part of, where processes have some each.")
        .def(
            "__init__",
            [](Whole* self, std::int64_t rows, double largest_gradient, double largest_hessian,
               nb::callable join) {
                new (self) Whole{rows, largest_gradient, largest_hessian, join_of(std::move(join))};
            },
            "rows"_a, "largest_gradient"_a, "largest_hessian"_a, "join"_a,
            "rows: of the codes of all processes. largest_gradient, largest_hessian: the largest "
            "absolute values of all these rows. join: replaces every number of an int64 array by "
            "its sum over all processes, which call it in lock step");

    using carve::CodedTree;
    using Split = CodedTree::Split;
    nb::class_<CodedTree>(module, "CodedTree",
                          "A tree over codes: code <= position goes left; child ~i is leaf i.")
        .def("__init__",
             [](CodedTree* self, const Vector<std::int32_t>& feature,
                const Vector<std::int32_t>& position, const Vector<std::int32_t>& left,
                const Vector<std::int32_t>& right, const Vector<double>& values) {
                 new (self) CodedTree(tree_of(feature, position, left, right, values));
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
        .def_prop_ro("rows", per_leaf(&CodedTree::rows), nb::rv_policy::move)
        .def(
            "reachable",
            [](const CodedTree& self, const carve::Codes& codes, const Vector<double>& values,
               int threads) {
                if (values.size() != self.values.size())
                    throw std::invalid_argument("one value per leaf is needed");
                for (const Split& split : self.splits)
                    if (split.feature < 0 || split.feature >= codes.features())
                        throw std::invalid_argument("a split is at a feature that there is not");
                const auto n = static_cast<std::size_t>(codes.rows());
                Owned<double> lowest(n);
                Owned<double> highest(n);
                run([&](const auto& watch) {
                    return carve::reachable_values(self, codes, view(values), lowest.data.get(),
                                                   highest.data.get(), threads, watch);
                });
                return nb::make_tuple(lowest.release<1>(n), highest.release<1>(n));
            },
            "codes"_a, "values"_a, "threads"_a,
            "(lowest, highest) of the leaves' values that the attacker can push every row to");

    module.def(
        "grow_tree",
        [](const carve::Codes& codes, const Vector<std::uint8_t>& down,
           const Vector<double>& gradient, const Vector<double>& hessian,
           const Vector<std::int32_t>& used, const Vector<std::uint8_t>& features,
           const GrowerOptions& options, int threads, const Whole* whole) {
            CodedTree tree;
            const carve::GrowerRows rows{view(down), view(gradient), view(hessian), view(used),
                                         view(features)};
            run([&](const auto& watch) {
                bool goes_on = true;
                tree = carve::grow_tree(
                    codes, rows, options, threads, [&] { return goes_on = watch({}); }, whole);
                return goes_on;
            });
            return tree;
        },
        "codes"_a, "down"_a, "gradient"_a, "hessian"_a, "used"_a, "features"_a, "options"_a,
        "threads"_a, "whole"_a = nb::none(),
        "one tree whose splits see the attacker; of `whole`, if the rows are a part of it");
}
