// The four questions.
#include <span>
#include <stdexcept>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/running.hpp"
#include "verdict/batch.hpp"

namespace {

using carve::Batch;
using carve::Decisions;
using carve::Engine;
using carve::Options;
using carve::Problem;
using Result = nb::typed<nb::object, Decisions>;

using Bounds = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct Solvers {}; // whose names Python knows

// The rows of some ranges, in the order they are given in.
Output<std::int64_t, 1> listed(std::span<const carve::RowRange> ranges) {
    std::size_t count = 0;
    for (const auto& [begin, end] : ranges)
        count += static_cast<std::size_t>(end - begin);
    Owned<std::int64_t> rows(count);
    std::int64_t* next = rows.data.get();
    for (const auto& [begin, end] : ranges)
        for (std::int64_t row = begin; row < end; ++row)
            *next++ = row;
    return rows.release<1>(count);
}

void check_single_output(const Problem& problem) {
    if (problem.ensemble.n_outputs() != 1)
        throw std::invalid_argument("an ensemble with one output is needed");
}

// Calls ask(batch) and returns what it decided.
template <class Ask>
Result answer(const Problem& problem, const Matrix& X, const Options& options,
              const nb::object& progress, Ask&& ask) {
    carve::Rows rows = rows_of(problem.ensemble, X);
    rows.bounds = options.bounds;
    if (rows.bounds.lower != nullptr && options.bounded != rows.count * rows.columns)
        throw std::invalid_argument("bounds of rows need the shape of X");
    if (static_cast<std::int64_t>(options.seconds.size()) != rows.count)
        throw std::invalid_argument("one limit of seconds per row is needed");
    auto* const decisions = new Decisions(rows.count, rows.columns);
    nb::object result = nb::cast(decisions, nb::rv_policy::take_ownership);
    const auto tell = [&](std::span<const carve::RowRange> finished) {
        if (!progress.is_none())
            progress(result, listed(finished));
    };
    run(
        [&](const carve::WatchFunction& watch) {
            return ask(Batch{problem, rows, options, watch, *decisions});
        },
        tell);
    return result;
}

} // namespace

void bind_decide(nb::module_& module) {
    // Not an enumeration of Python's: making one runs Python code, and Ctrl-C at that moment would
    // end the interpreter.
    const nb::class_<Solvers> solvers(
        module, "Solver",
        "Who is to decide, as in Decisions.engine; none: what can be said without an attack.");
    solvers.attr("none") = static_cast<int>(Engine::none);
    solvers.attr("large_spread") = static_cast<int>(Engine::large_spread);
    solvers.attr("search") = static_cast<int>(Engine::search);

    nb::class_<Options>(module, "Options", "How to decide.")
        .def(
            "__init__",
            [](Options* self, int solver, const Vector<double>& seconds, int threads, bool witness,
               bool any_witness, bool exact_margin, bool per_instance, bool basic, int grid) {
                if (solver < 0 || solver > static_cast<int>(Engine::search))
                    throw std::invalid_argument("solver must be one of Solver");
                new (self) Options{static_cast<Engine>(solver),
                                   copy(seconds),
                                   threads,
                                   witness,
                                   any_witness,
                                   exact_margin,
                                   per_instance,
                                   basic,
                                   grid};
            },
            "solver"_a, "seconds"_a, "threads"_a, nb::kw_only(), "witness"_a = false,
            "any_witness"_a = false, "exact_margin"_a = false, "per_instance"_a = false,
            "basic"_a = false, "grid"_a = -1, "seconds: a limit per row; threads: 0 for all cores")
        .def(
            "bound",
            [](Options& self, const Bounds& lower, const Bounds& upper) {
                if (lower.shape(0) != upper.shape(0) || lower.shape(1) != upper.shape(1))
                    throw std::invalid_argument("lower and upper bounds need one shape");
                self.bounds = {lower.data(), upper.data()};
                self.bounded = static_cast<std::int64_t>(lower.size());
            },
            "lower"_a.noconvert(), "upper"_a.noconvert(), nb::keep_alive<1, 2>(),
            nb::keep_alive<1, 3>(),
            "What every row may be moved within, instead of the attacker's "
            "own bounds.");

    module.def(
        "decide",
        [](const Problem& problem, const Matrix& X, const Vector<std::int32_t>& labels,
           const Options& options, const nb::object& progress) {
            const auto* const label = labels_of(problem.ensemble, X, labels);
            return answer(problem, X, options, progress,
                          [&](const Batch& batch) { return batch.decide(label); });
        },
        "problem"_a, "X"_a, "labels"_a, "options"_a, "progress"_a.none(),
        "The status of every row, with margins, and witnesses where the options ask for them.");

    module.def(
        "radius",
        [](const Problem& problem, const Matrix& X, const Vector<std::int32_t>& labels,
           const Options& options, const nb::object& progress) {
            const auto* const label = labels_of(problem.ensemble, X, labels);
            return answer(problem, X, options, progress,
                          [&](const Batch& batch) { return batch.radius(label); });
        },
        "problem"_a, "X"_a, "labels"_a, "options"_a, "progress"_a.none(),
        "The smallest budget, up to the attacker's, that flips every row: equal bounds are the "
        "radius, infinite ones mean that there is none.");

    module.def(
        "output_range",
        [](const Problem& problem, const Matrix& X, const Options& options,
           const nb::object& progress) {
            check_single_output(problem);
            return answer(problem, X, options, progress,
                          [](const Batch& batch) { return batch.output_range(); });
        },
        "problem"_a, "X"_a, "options"_a, "progress"_a.none(),
        "The lowest and the highest raw score in reach of every row.");

    module.def(
        "stays_within",
        [](const Problem& problem, const Matrix& X, const Vector<double>& limit,
           const Options& options, const nb::object& progress) {
            check_single_output(problem);
            return answer(problem, X, options, progress,
                          [&](const Batch& batch) { return batch.stays_within(view(limit)); });
        },
        "problem"_a, "X"_a, "limit"_a, "options"_a, "progress"_a.none(),
        "Whether no attack changes the raw score times `average` by more than the sum of `limit`: "
        "robust, fragile or unknown.");
}
