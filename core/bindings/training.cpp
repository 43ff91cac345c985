// What training descends on.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/running.hpp"
#include "training/leaf_descent.hpp"
#include "training/worst_cases.hpp"

namespace {

using carve::WorstCases;
using Plan = WorstCases::Plan;
using Wanted = WorstCases::Wanted;

void check_scores(const WorstCases& cases, const Vector<double>& scores) {
    if (scores.size() != cases.score_count())
        throw std::invalid_argument("one number per leaf and output is needed");
}

void check_plan(const Plan& plan, const carve::Ensemble& ensemble, const carve::Rows& rows) {
    if (plan.block < 1 || plan.block > WorstCases::most_block)
        throw std::invalid_argument("a block has 1 to 64 rows");
    if (!plan.output.empty() && plan.output.size() != static_cast<std::size_t>(ensemble.n_trees()))
        throw std::invalid_argument("one output per tree is needed");
    for (const auto output : plan.output)
        if (output < 0 || output >= ensemble.n_outputs())
            throw std::invalid_argument("a tree's output is not there");
    if (!plan.order.empty() && plan.order.size() != static_cast<std::size_t>(rows.count))
        throw std::invalid_argument("one place per row is needed");
    for (const auto row : plan.order)
        if (row < 0 || row >= rows.count)
            throw std::invalid_argument("a row of the order is not there");
}

void create(WorstCases* self, const carve::Ensemble& ensemble, const carve::Attacker& attacker,
            const carve::Rows& rows, Wanted wanted, int threads, const Plan& plan) {
    check_plan(plan, ensemble, rows);
    auto cases =
        std::make_unique<WorstCases>(ensemble, attacker, rows, std::move(wanted), Plan(plan));
    run([&](const auto& watch) { return cases->collect(threads, watch); });
    new (self) WorstCases(std::move(*cases));
}

// Rows that a slope is asked of.
WorstCases::Batch batch_of(const WorstCases& cases, const Vector<double>& weight,
                           const Vector<std::int64_t>& blocks) {
    if (weight.size() != 0 && static_cast<std::int64_t>(weight.size()) != cases.rows())
        throw std::invalid_argument("one weight per row is needed");
    for (const auto block : view(blocks))
        if (block < 0 || block >= cases.blocks())
            throw std::invalid_argument("a block is not there");
    return {weight.size() == 0 ? nullptr : weight.data(), view(blocks)};
}

// What is known per row, by name.
nb::dict outcomes_of(const WorstCases& cases, const Vector<double>& scores, double steepness,
                     int threads) {
    check_scores(cases, scores);
    const auto count = static_cast<std::size_t>(cases.rows());
    Owned<double> margin(count);
    Owned<double> lowest(count);
    Owned<double> highest(count);
    Owned<double> loss(count);
    run([&](const auto& watch) {
        return cases.judge(
            scores.data(), steepness,
            {margin.data.get(), lowest.data.get(), highest.data.get(), loss.data.get()}, threads,
            watch);
    });
    nb::dict found;
    if (cases.has_classes()) {
        found["margin"] = margin.release<1>(count);
    } else {
        found["lowest"] = lowest.release<1>(count);
        found["highest"] = highest.release<1>(count);
    }
    found["loss"] = loss.release<1>(count);
    return found;
}

using carve::DescentOptions;
using Targets = std::pair<Matrix, Vector<double>>;
using Points = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

carve::TargetRows targets_of(const carve::Ensemble& ensemble, const Targets& rows,
                             std::span<const double> weight = {}) {
    if (rows.second.size() != rows.first.shape(0))
        throw std::invalid_argument("one target per row is needed");
    if (!weight.empty() && weight.size() != rows.second.size())
        throw std::invalid_argument("one weight per row is needed");
    return {rows_of(ensemble, rows.first), view(rows.second), weight};
}

nb::tuple descend(const carve::Ensemble& ensemble, const carve::Attacker& attacker,
                  const Targets& train, const std::optional<Vector<double>>& weight,
                  const std::optional<Targets>& valid, const carve::Attacker& nobody,
                  const Vector<double>& scores, const std::optional<Vector<double>>& anchor,
                  const std::optional<Points>& points, bool is_regression,
                  const DescentOptions& options, const nb::object& progress) {
    if (scores.size() != ensemble.scores.size() ||
        (anchor && anchor->size() != ensemble.scores.size()))
        throw std::invalid_argument("one number per leaf and output is needed");
    if (options.batch < 1)
        throw std::invalid_argument("a batch has at least one row");
    if (points &&
        (points->shape(0) != train.first.shape(0) || points->shape(1) != train.first.shape(1)))
        throw std::invalid_argument("one point per row is needed");
    const auto rows =
        targets_of(ensemble, train, weight ? view(*weight) : std::span<const double>{});
    std::optional<carve::TargetRows> held_out;
    if (valid)
        held_out = targets_of(ensemble, *valid);
    carve::Descent found;
    bool raised = false;
    {
        const nb::gil_scoped_release released;
        using Clock = std::chrono::steady_clock;
        auto last = Clock::now();
        int shown = 0;
        const auto go_on = [&](int step) {
            const bool is_due = Clock::now() - last > std::chrono::milliseconds(100);
            if (raised || !(is_due || (step != shown && !progress.is_none())))
                return !raised;
            const nb::gil_scoped_acquire acquired;
            last = Clock::now();
            raised = PyErr_CheckSignals() != 0;
            if (!raised && step != shown && !progress.is_none()) {
                shown = step;
                try {
                    progress(step);
                } catch (nb::python_error& error) {
                    error.restore();
                    raised = true;
                }
            }
            return !raised;
        };
        found = carve::descend(ensemble, attacker, rows, held_out ? &*held_out : nullptr, nobody,
                               view(scores), anchor ? view(*anchor) : std::span<const double>{},
                               points ? points->data() : nullptr, is_regression, options, go_on);
    }
    if (raised) {
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) == 0)
            throw nb::python_error();
        PyErr_Clear();
    }
    nb::list checks;
    for (const auto& [step, robustness, accuracy, loss] : found.checks)
        checks.append(nb::make_tuple(step, robustness, accuracy, loss));
    Owned<double> fitted(found.scores.size());
    std::ranges::copy(found.scores, fitted.data.get());
    return nb::make_tuple(fitted.release<1>(found.scores.size()), checks, found.best,
                          found.interrupted);
}

} // namespace

void bind_training(nb::module_& module) {
    nb::class_<Plan>(module, "WorstCasePlan", "How worst cases are stored.")
        .def(
            "__init__",
            [](Plan* self, const Vector<std::int32_t>& output, const Vector<std::int64_t>& order,
               std::int64_t block, std::size_t most_memory) {
                new (self) Plan{copy(output), copy(order), block, most_memory};
            },
            "output"_a, "order"_a, "block"_a, "most_memory"_a,
            "output: per tree, the one it counts for, and scores are one per leaf; empty: a score "
            "per leaf and output. order: rows as blocks take them; empty: as they come. block: "
            "rows. most_memory: bytes to keep.")
        .def(nb::init<>());

    nb::class_<WorstCases>(module, "WorstCases",
                           "Worst cases of rows as functions of the leaf scores.")
        .def(
            "__init__",
            [](WorstCases* self, const carve::Ensemble& ensemble, const carve::Attacker& attacker,
               const Matrix& X, const Vector<std::int32_t>& labels, int threads, const Plan& plan) {
                labels_of(ensemble, X, labels);
                create(self, ensemble, attacker, rows_of(ensemble, X), {copy(labels), {}, false},
                       threads, plan);
            },
            "ensemble"_a, "attacker"_a, "X"_a, "labels"_a, "threads"_a, "plan"_a = Plan(),
            nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
        .def(
            "__init__",
            [](WorstCases* self, const carve::Ensemble& ensemble, const carve::Attacker& attacker,
               const Matrix& X, const Vector<double>& numbers, int threads, const Plan& plan) {
                if (numbers.size() != X.shape(0))
                    throw std::invalid_argument("one number per row is needed");
                if (ensemble.n_outputs() != 1)
                    throw std::invalid_argument("numbers need an ensemble with one output");
                create(self, ensemble, attacker, rows_of(ensemble, X), {{}, copy(numbers), true},
                       threads, plan);
            },
            "ensemble"_a, "attacker"_a, "X"_a, "numbers"_a, "threads"_a, "plan"_a = Plan(),
            nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
        .def_prop_ro("memory", &WorstCases::memory)
        .def_prop_ro("blocks", &WorstCases::blocks)
        .def("outcomes", &outcomes_of, "scores"_a, "steepness"_a, "threads"_a,
             "per row: margin (the worst one, negative where a tie goes to the rival), or lowest "
             "and highest; and loss")
        .def(
            "slope",
            [](const WorstCases& self, const Vector<double>& scores, const Vector<double>& weight,
               double steepness, const Vector<std::int64_t>& blocks, int threads) {
                check_scores(self, scores);
                const WorstCases::Batch batch = batch_of(self, weight, blocks);
                Owned<double> slope(self.score_count());
                run([&](const auto& watch) {
                    return self.slope(scores.data(), steepness, batch, slope.data.get(), threads,
                                      watch);
                });
                return slope.release<1>(self.score_count());
            },
            "scores"_a, "weight"_a, "steepness"_a, "blocks"_a, "threads"_a,
            "derivative of the sum of the blocks' losses by every score");

    nb::class_<DescentOptions> options(module, "DescentOptions");
    def_fields(
        options, "How leaf scores are fitted to worst cases.",
        std::pair{"steps", &DescentOptions::steps}, std::pair{"epochs", &DescentOptions::epochs},
        std::pair{"rate", &DescentOptions::rate}, std::pair{"batch", &DescentOptions::batch},
        std::pair{"shuffle", &DescentOptions::shuffle},
        std::pair{"averaging", &DescentOptions::averaging}, std::pair{"l2", &DescentOptions::l2},
        std::pair{"patience", &DescentOptions::patience},
        std::pair{"floor", &DescentOptions::floor}, std::pair{"seed", &DescentOptions::seed},
        std::pair{"threads", &DescentOptions::threads},
        std::pair{"uses_witnesses", &DescentOptions::uses_witnesses},
        std::pair{"batch_passes", &DescentOptions::batch_passes},
        std::pair{"point_passes", &DescentOptions::point_passes},
        std::pair{"unit", &DescentOptions::unit},
        std::pair{"steepness", &DescentOptions::steepness},
        std::pair{"most_memory", &DescentOptions::most_memory});
    module.def("descend", &descend, "ensemble"_a, "attacker"_a, "train"_a, "weight"_a.none(),
               "valid"_a.none(), "nobody"_a, "scores"_a, "anchor"_a.none(), "points"_a.none(),
               "is_regression"_a, "options"_a, "progress"_a.none(),
               "Fits leaf scores to worst cases. Returns the scores, the checks (step, robustness, "
               "accuracy, loss), the number of the best one or -1, and whether Ctrl-C stopped it.");
}
