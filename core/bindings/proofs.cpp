// Proofs of verdicts.
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/running.hpp"
#include "proofs/proving.hpp"

namespace {
nb::list as_bytes(const std::vector<std::string>& texts) {
    nb::list found;
    for (const std::string& text : texts)
        found.append(nb::bytes(text.data(), text.size()));
    return found;
}
} // namespace

void bind_proofs(nb::module_& module) {
    nb::class_<carve::ProofNames>(module, "ProofNames",
                                  "What proofs call the core's axes, cells and states.")
        .def(
            "__init__",
            [](carve::ProofNames* self, const Vector<std::int32_t>& axes,
               const Vector<std::int32_t>& threshold_starts, const Vector<double>& thresholds,
               const Vector<std::int32_t>& last_cells, const Vector<std::int32_t>& state_starts,
               const Vector<std::int32_t>& states) {
                new (self)
                    carve::ProofNames{copy(axes),       copy(threshold_starts), copy(thresholds),
                                      copy(last_cells), copy(state_starts),     copy(states)};
            },
            "axes"_a, "threshold_starts"_a, "thresholds"_a, "last_cells"_a, "state_starts"_a,
            "states"_a);

    module.def(
        "prove",
        [](const carve::Problem& problem, const Matrix& X, const Vector<std::int32_t>& labels,
           const Vector<std::uint8_t>& status, const Vector<std::uint8_t>& large_spread,
           const carve::ProofNames& names, const carve::Options& options) {
            const auto* const label = labels_of(problem.ensemble, X, labels);
            carve::Rows rows = rows_of(problem.ensemble, X);
            rows.bounds = options.bounds;
            const auto count = static_cast<std::size_t>(rows.count);
            if (status.size() != count || large_spread.size() != count ||
                options.seconds.size() != count)
                throw std::invalid_argument("one entry per row is needed");
            if (rows.bounds.lower != nullptr && options.bounded != rows.count * rows.columns)
                throw std::invalid_argument("bounds of rows need the shape of X");
            std::vector<std::string> proofs;
            run([&](const carve::WatchFunction& watch) {
                const carve::Proving proving{problem, rows, options, names, watch};
                return proving.run(label, status.data(), large_spread.data(), proofs);
            });
            return as_bytes(proofs);
        },
        "problem"_a, "X"_a, "labels"_a, "status"_a, "large_spread"_a, "names"_a, "options"_a,
        nb::sig(
            "def prove(problem: Problem, X: object, labels: object, status: object, large_spread: "
            "object, names: "
            "ProofNames, options: Options) -> list[bytes]"),
        "Of rows that are robust or vulnerable: the parts of their proofs; empty where none is "
        "found in time, and for all other rows.");

    module.def(
        "changes",
        [](const carve::Ensemble& ensemble, const Matrix& Z, const Matrix& X) {
            if (Z.shape(0) != X.shape(0))
                throw std::invalid_argument("one witness per row is needed");
            return as_bytes(carve::changes_of(rows_of(ensemble, Z), rows_of(ensemble, X)));
        },
        "ensemble"_a, "Z"_a, "X"_a,
        nb::sig("def changes(ensemble: Ensemble, Z: object, X: object) -> list[bytes]"),
        "What witnesses Z change of rows X, as proofs have it.");
}
