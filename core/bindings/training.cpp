// What training descends on.
#include <memory>
#include <stdexcept>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/running.hpp"
#include "training/worst_cases.hpp"

namespace {

void check_scores(const carve::WorstCases& cases, const Vector<double>& scores) {
    if (scores.size() != cases.score_count())
        throw std::invalid_argument("one number per leaf and output is needed");
}

} // namespace

void bind_training(nb::module_& module) {
    nb::class_<carve::WorstCases>(module, "WorstCases",
                                  "Worst margins of rows as functions of the leaf scores.")
        .def(
            "__init__",
            [](carve::WorstCases* self, const carve::Ensemble& ensemble,
               const carve::Attacker& attacker, const Matrix& X, const Vector<std::int32_t>& labels,
               int threads) {
                const carve::Rows rows = rows_of(ensemble, X);
                const auto* label = labels_of(ensemble, X, labels);
                auto cases =
                    std::make_unique<carve::WorstCases>(ensemble, attacker, label, rows.count);
                run([&](const auto& watch) { return cases->collect(rows, threads, watch); });
                new (self) carve::WorstCases(std::move(*cases));
            },
            "ensemble"_a, "attacker"_a, "X"_a, "labels"_a, "threads"_a, nb::keep_alive<1, 2>(),
            nb::keep_alive<1, 3>())
        .def_prop_ro("memory", &carve::WorstCases::memory)
        .def(
            "margins",
            [](const carve::WorstCases& self, const Vector<double>& scores, int threads) {
                check_scores(self, scores);
                Owned<double> margin(static_cast<std::size_t>(self.rows()));
                run([&](const auto& watch) {
                    return self.evaluate(scores.data(), {nullptr, 1}, margin.data.get(), nullptr,
                                         threads, watch);
                });
                return margin.release<1>(self.rows());
            },
            "scores"_a, "threads"_a,
            "the worst margin of every row, negative where a tie goes to the rival")
        .def(
            "slope",
            [](const carve::WorstCases& self, const Vector<double>& scores,
               const Vector<double>& weight, double steepness, int threads) {
                check_scores(self, scores);
                if (weight.size() != 0 && static_cast<std::int64_t>(weight.size()) != self.rows())
                    throw std::invalid_argument("one weight per row is needed");
                Owned<double> margin(static_cast<std::size_t>(self.rows()));
                Owned<double> slope(self.score_count());
                const double* weights = weight.size() == 0 ? nullptr : weight.data();
                run([&](const auto& watch) {
                    return self.evaluate(scores.data(), {weights, steepness}, margin.data.get(),
                                         slope.data.get(), threads, watch);
                });
                return nb::make_tuple(margin.release<1>(self.rows()),
                                      slope.release<1>(self.score_count()));
            },
            "scores"_a, "weight"_a, "steepness"_a, "threads"_a,
            "(margins, derivative of the logistic loss by every score)");
}
