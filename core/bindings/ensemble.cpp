// The ensemble, and what can be asked of it without an attacker.
#include "model/ensemble.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/running.hpp"
#include "model/scoring.hpp"

namespace {

// A split by a set asks for one there is.
void check_grid(const carve::Form& form, std::span<const carve::StoredNode> nodes) {
    if (!form.grid.empty() && form.grid.size() != static_cast<std::size_t>(form.n_features))
        throw std::invalid_argument("the grid is for another number of features");
    const auto sets = form.sets.empty() ? 0.0 : static_cast<double>(form.sets.starts.size() - 1);
    for (std::size_t i = 0; i + 1 < form.sets.starts.size(); ++i)
        if (form.sets.starts[i] < 0 || form.sets.starts[i] > form.sets.starts[i + 1] ||
            form.sets.starts[i + 1] > static_cast<std::int64_t>(form.sets.words.size()))
            throw std::invalid_argument("the sets of states are not in order");
    if (form.grid.empty())
        return;
    for (const auto& node : nodes)
        if (node.feature >= 0 &&
            form.grid[static_cast<std::size_t>(node.feature)] == carve::Grid::finite &&
            !(0 <= node.threshold && node.threshold < sets))
            throw std::invalid_argument("a split asks for a set that there is not");
}

} // namespace

void bind_ensemble(nb::module_& module) {
    nb::class_<carve::Ensemble>(module, "Ensemble")
        .def(
            "__init__",
            [](carve::Ensemble* self, const Vector<std::uint8_t>& nodes,
               const Vector<std::int32_t>& roots,
               const nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>& scores,
               const Vector<double>& base_score, double threshold, int n_features, int average,
               bool tie_positive, bool float32_inputs, bool float32_sums,
               const Vector<std::uint8_t>& grid, const Vector<std::int64_t>& set_starts,
               const Vector<std::uint64_t>& set_words) {
                const auto count = nodes.size() / sizeof(carve::StoredNode);
                std::vector<carve::StoredNode> stored(count);
                std::copy_n(nodes.data(), count * sizeof(carve::StoredNode),
                            reinterpret_cast<std::uint8_t*>(stored.data()));
                carve::Form form{
                    threshold,      n_features,   average, tie_positive,
                    float32_inputs, float32_sums, {},      {copy(set_starts), copy(set_words)}};
                for (const auto kind : view(grid))
                    form.grid.push_back(static_cast<carve::Grid>(kind));
                check_grid(form, stored);
                new (self) carve::Ensemble(stored, view(roots),
                                           {scores.data(), scores.data() + scores.size()},
                                           copy(base_score), form);
            },
            "nodes"_a, "roots"_a, "scores"_a, "base_score"_a, "threshold"_a, "n_features"_a,
            "average"_a, "tie_positive"_a, "float32_inputs"_a, "float32_sums"_a, "grid"_a,
            "set_starts"_a, "set_words"_a,
            "grid: per feature 0 real, 1 whole, 2 finite, or empty; sets as bits of states")
        .def_ro("depth", &carve::Ensemble::depth)
        .def_ro("magnitude", &carve::Ensemble::magnitude)
        .def(
            "raw_score",
            [](const carve::Ensemble& self, const Matrix& X, int threads) {
                const carve::Rows rows = rows_of(self, X);
                const auto outputs = static_cast<std::size_t>(self.n_outputs());
                Owned<double> scores(X.shape(0) * outputs);
                run([&](const auto& watch) {
                    return carve::score_rows(self, rows, scores.data.get(), threads, watch);
                });
                return scores.release<2>(X.shape(0), outputs);
            },
            "X"_a, "threads"_a)
        .def(
            "leaf_counts",
            [](const carve::Ensemble& self, const Matrix& X, int threads) {
                const carve::Rows rows = rows_of(self, X);
                const std::size_t leaves =
                    self.scores.size() / static_cast<std::size_t>(self.n_outputs());
                Owned<std::int64_t> counts(leaves);
                std::fill_n(counts.data.get(), leaves, 0);
                run([&](const auto& watch) {
                    return carve::count_rows(self, rows, {counts.data.get(), leaves}, threads,
                                             watch);
                });
                return counts.release<1>(leaves);
            },
            "X"_a, "threads"_a, "how many rows of X fall into each leaf")
        .def(
            "first_bad_value",
            [](const carve::Ensemble& self, const Matrix& X, bool allow_infinite,
               int threads) -> std::optional<std::pair<std::int64_t, std::int64_t>> {
                const carve::Rows rows = rows_of(self, X);
                std::int64_t place = -1;
                run([&](const auto& watch) {
                    return carve::first_bad_value(self, rows, allow_infinite, place, threads,
                                                  watch);
                });
                if (place < 0)
                    return std::nullopt;
                return std::pair{place / rows.columns, place % rows.columns};
            },
            "X"_a, "allow_infinite"_a, "threads"_a);
}
