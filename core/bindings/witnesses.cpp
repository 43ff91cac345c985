// Witnesses of many rows, for training.
#include "training/witnesses.hpp"

#include <stdexcept>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/running.hpp"

namespace {

using carve::Witnesses;

void check(const Witnesses& self, const Vector<std::int32_t>& batch, const Vector<double>& scores) {
    if (scores.size() != self.score_count())
        throw std::invalid_argument("one number per leaf and output is needed");
    std::vector<bool> seen(static_cast<std::size_t>(self.rows()), false);
    for (const auto row : view(batch)) {
        if (row < 0 || row >= self.rows() || seen[static_cast<std::size_t>(row)])
            throw std::invalid_argument("a batch holds numbers of rows, each at most once");
        seen[static_cast<std::size_t>(row)] = true;
    }
}

} // namespace

void bind_witnesses(nb::module_& module) {
    nb::class_<Witnesses::Effort>(module, "WitnessEffort")
        .def(
            "__init__",
            [](Witnesses::Effort* self, int passes, double staying, double anew,
               std::uint64_t seed) {
                if (passes < 0 || !(staying >= 0 && staying <= 1) || !(anew >= 0 && anew <= 1))
                    throw std::invalid_argument("passes must be >= 0, shares from 0 to 1");
                new (self) Witnesses::Effort{{passes, staying}, anew, seed};
            },
            nb::kw_only(), "passes"_a = 2, "staying"_a = 0.5, "anew"_a = 0.0, "seed"_a = 0);

    nb::class_<Witnesses>(
        module, "Witnesses",
        "Points within the attacker's budget, a row each, that scores are bad at.")
        .def(
            "__init__",
            [](Witnesses* self, const carve::Ensemble& ensemble, const carve::Attacker& attacker,
               const Matrix& X, const Vector<std::int32_t>& labels) {
                const auto* label = labels_of(ensemble, X, labels);
                new (self) Witnesses(ensemble, attacker, rows_of(ensemble, X), label);
            },
            "ensemble"_a, "attacker"_a, "X"_a, "labels"_a, nb::keep_alive<1, 2>(),
            nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
        .def_prop_ro("rows", &Witnesses::rows)
        .def(
            "start_at",
            [](Witnesses& self, const carve::Ensemble& ensemble, const Matrix& points,
               int threads) {
                const carve::Rows rows = rows_of(ensemble, points);
                if (rows.count != self.rows())
                    throw std::invalid_argument("one point per row is needed");
                run([&](const auto& watch) { return self.start_at(rows, threads, watch); });
            },
            "ensemble"_a, "points"_a, "threads"_a)
        .def(
            "improve",
            [](Witnesses& self, const Vector<std::int32_t>& batch, const Vector<double>& scores,
               const Witnesses::Effort& effort, bool keep_leaves, int threads) {
                check(self, batch, scores);
                Owned<double> margin(batch.size());
                run([&](const auto& watch) {
                    return self.improve(view(batch), scores.data(), effort, keep_leaves,
                                        margin.data.get(), threads, watch);
                });
                return margin.release<1>(batch.size());
            },
            "batch"_a, "scores"_a, "effort"_a, "keep_leaves"_a, "threads"_a,
            "improves the witnesses of the batch's rows; returns the margins there")
        .def(
            "slope",
            [](Witnesses& self, const Vector<double>& force, int threads) {
                if (force.size() != self.improved())
                    throw std::invalid_argument("one force per row improved last is needed");
                Owned<double> slope(self.score_count());
                run([&](const auto& watch) {
                    return self.slope(view(force), slope.data.get(), threads, watch);
                });
                return slope.release<1>(self.score_count());
            },
            "force"_a, "threads"_a,
            "sum over the rows improved last of force times the slope of their margin")
        .def(
            "points",
            [](Witnesses& self,
               const nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>& rows,
               int threads) {
                if (static_cast<std::int64_t>(rows.shape(0)) != self.rows() ||
                    static_cast<int>(rows.shape(1)) != self.features())
                    throw std::invalid_argument("one row per witness is needed");
                run([&](const auto& watch) { return self.points(rows.data(), threads, watch); });
            },
            "rows"_a, "threads"_a, "writes the witnesses over the rows");
}
