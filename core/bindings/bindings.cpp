// The only file that knows both worlds: numpy arrays in, core calls without the GIL, arrays out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "training/worst_cases.hpp"
#include "verdict/range_rows.hpp"
#include "verdict/rows.hpp"
#include "verdict/search_rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T, int n> using Output = nb::ndarray<nb::numpy, T, nb::ndim<n>>;

template <class T> std::span<const T> view(const Vector<T>& array) {
    return {array.data(), array.size()};
}

template <class T> std::vector<T> copy(const Vector<T>& array) {
    return {array.data(), array.data() + array.size()};
}

// An array that numpy owns.
template <class T> struct Owned {
    explicit Owned(std::size_t size) : data(new T[size]) {}
    template <int n, class... Shape> Output<T, n> release(Shape... shape) {
        T* pointer = data.release();
        nb::capsule owner(pointer, [](void* p) noexcept { delete[] static_cast<T*>(p); });
        return Output<T, n>(pointer, {static_cast<std::size_t>(shape)...}, owner);
    }
    std::unique_ptr<T[]> data;
};

carve::Rows rows_of(const carve::Ensemble& ensemble, const Matrix& X) {
    const bool single = X.dtype() == nb::dtype<float>();
    if (!single && X.dtype() != nb::dtype<double>())
        throw std::invalid_argument("X must be float64 or float32");
    if (static_cast<int>(X.shape(1)) != ensemble.n_features)
        throw std::invalid_argument("X has the wrong number of columns");
    return {X.data(), single, static_cast<std::int64_t>(X.shape(0)),
            static_cast<std::int64_t>(X.shape(1))};
}

const std::int32_t* labels_of(const carve::Ensemble& ensemble, const carve::Rows& rows,
                              const Vector<std::int32_t>& labels) {
    if (static_cast<std::int64_t>(labels.size()) != rows.count)
        throw std::invalid_argument("one label per row is needed");
    const int classes = std::max(2, ensemble.n_outputs());
    for (const auto label : view(labels))
        if (label < 0 || label >= classes)
            throw std::invalid_argument("a label is not a class index");
    return labels.data();
}

// Runs `work` without the GIL; signals (Ctrl-C) and progress are looked after meanwhile.
template <class Work> void run(const nb::object& progress, Work&& work) {
    bool finished = false;
    {
        const nb::gil_scoped_release released;
        finished = work([&](std::int64_t done) {
            const nb::gil_scoped_acquire acquired;
            if (PyErr_CheckSignals() != 0)
                return false;
            if (!progress.is_none()) {
                try {
                    progress(done);
                } catch (nb::python_error& error) {
                    error.restore();
                    return false;
                }
            }
            return true;
        });
    }
    if (!finished)
        throw nb::python_error();
}

void check_scores(const carve::WorstCases& cases, const Vector<double>& scores) {
    if (scores.size() != cases.score_count())
        throw std::invalid_argument("one number per leaf and output is needed");
}

} // namespace

NB_MODULE(_core, module) {
    // Objects that outlive the module at exit, as a user's globals may, are no mistake of ours.
    nb::set_leak_warnings(false);
    module.doc() = "Kernels of carvegbm: flat arrays in, flat arrays out.";

    nb::class_<carve::Ensemble>(module, "Ensemble")
        .def(
            "__init__",
            [](carve::Ensemble* self, const Vector<std::uint8_t>& nodes,
               const Vector<std::int32_t>& roots,
               const nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>& scores,
               const Vector<double>& base_score, double threshold, int n_features, int average,
               bool tie_positive, bool float32_inputs, bool float32_sums) {
                const auto count = nodes.size() / sizeof(carve::StoredNode);
                std::vector<carve::StoredNode> stored(count);
                std::copy_n(nodes.data(), count * sizeof(carve::StoredNode),
                            reinterpret_cast<std::uint8_t*>(stored.data()));
                new (self) carve::Ensemble(stored, view(roots),
                                           {scores.data(), scores.data() + scores.size()},
                                           copy(base_score), threshold, n_features, average,
                                           tie_positive, float32_inputs, float32_sums);
            },
            "nodes"_a, "roots"_a, "scores"_a, "base_score"_a, "threshold"_a, "n_features"_a,
            "average"_a, "tie_positive"_a, "float32_inputs"_a, "float32_sums"_a)
        .def_ro("depth", &carve::Ensemble::depth)
        .def_ro("magnitude", &carve::Ensemble::magnitude)
        .def(
            "raw_score",
            [](const carve::Ensemble& self, const Matrix& X, int threads) {
                const carve::Rows rows = rows_of(self, X);
                const auto outputs = static_cast<std::size_t>(self.n_outputs());
                Owned<double> scores(X.shape(0) * outputs);
                run(nb::none(), [&](const auto& tick) {
                    return carve::score_rows(self, rows, scores.data.get(), threads, tick);
                });
                return scores.release<2>(X.shape(0), outputs);
            },
            "X"_a, "threads"_a)
        .def(
            "first_bad_value",
            [](const carve::Ensemble& self, const Matrix& X, bool allow_infinite,
               int threads) -> std::optional<std::pair<std::int64_t, std::int64_t>> {
                const carve::Rows rows = rows_of(self, X);
                std::int64_t place = -1;
                run(nb::none(), [&](const auto& tick) {
                    return carve::first_bad_value(self, rows, allow_infinite, place, threads, tick);
                });
                if (place < 0)
                    return std::nullopt;
                return std::pair{place / rows.columns, place % rows.columns};
            },
            "X"_a, "allow_infinite"_a, "threads"_a);

    nb::class_<carve::Attacker>(module, "Attacker")
        .def(
            "__init__",
            [](carve::Attacker* self, int norm, double budget, const Vector<double>& scale,
               const Vector<std::uint8_t>& changeable, const Vector<double>& lower,
               const Vector<double>& upper) {
                new (self) carve::Attacker{norm,        budget,     copy(scale), copy(changeable),
                                           copy(lower), copy(upper)};
            },
            "norm"_a, "budget"_a, "scale"_a, "changeable"_a, "lower"_a, "upper"_a,
            "norm -1 is infinity; empty arrays mean 1, changeable, unbounded")
        .def(
            "distance",
            [](const carve::Attacker& self, const Vector<double>& x, const Vector<double>& z) {
                std::vector<std::int32_t> changed;
                for (std::size_t f = 0; f < x.size(); ++f)
                    if (x(f) != z(f) && x(f) == x(f))
                        changed.push_back(static_cast<std::int32_t>(f));
                return self.distance(changed, x.data(), z.data());
            },
            "x"_a, "z"_a, "the smallest budget that affords moving x to z");

    module.def(
        "verify",
        [](const carve::Ensemble& ensemble, const carve::Attacker& attacker, const Matrix& X,
           const Vector<std::int32_t>& labels, bool basic, int grid, bool per_instance,
           double seconds, int threads, const nb::object& progress) {
            const carve::Rows rows = rows_of(ensemble, X);
            const auto* label = labels_of(ensemble, rows, labels);
            const auto n = X.shape(0);
            Owned<std::uint8_t> status(n);
            Owned<bool> right(n);
            Owned<double> margin(n);
            Owned<double> lower(n);
            Owned<double> upper(n);
            const carve::VerifyOptions options{basic ? carve::Method::basic
                                                     : carve::Method::efficient,
                                               grid, per_instance, seconds};
            run(progress, [&](const auto& tick) {
                return carve::verify_rows(ensemble, attacker, rows, label, options,
                                          {status.data.get(), right.data.get(), margin.data.get(),
                                           lower.data.get(), upper.data.get()},
                                          nullptr, threads, tick);
            });
            return nb::make_tuple(status.release<1>(n), right.release<1>(n), margin.release<1>(n),
                                  lower.release<1>(n), upper.release<1>(n));
        },
        "ensemble"_a, "attacker"_a, "X"_a, "labels"_a, "basic"_a, "grid"_a, "per_instance"_a,
        "seconds"_a, "threads"_a, "progress"_a.none(),
        "(status, right, margin, worst margin at least, at most) per row");

    module.def(
        "attack",
        [](const carve::Ensemble& ensemble, const carve::Attacker& attacker, const Matrix& X,
           const Vector<std::int32_t>& labels, bool per_instance, double seconds, int threads,
           const nb::object& progress) {
            const carve::Rows rows = rows_of(ensemble, X);
            const auto* label = labels_of(ensemble, rows, labels);
            const auto n = X.shape(0);
            Owned<std::uint8_t> status(n);
            Owned<bool> right(n);
            Owned<double> margin(n);
            Owned<double> lower(n);
            Owned<double> upper(n);
            Owned<double> example(n * X.shape(1));
            Owned<double> distance(n);
            const carve::WitnessOutput witness{example.data.get(), distance.data.get()};
            const carve::VerifyOptions options{carve::Method::efficient, -1, per_instance, seconds};
            run(progress, [&](const auto& tick) {
                return carve::verify_rows(ensemble, attacker, rows, label, options,
                                          {status.data.get(), right.data.get(), margin.data.get(),
                                           lower.data.get(), upper.data.get()},
                                          &witness, threads, tick);
            });
            return nb::make_tuple(status.release<1>(n), right.release<1>(n), margin.release<1>(n),
                                  lower.release<1>(n), upper.release<1>(n),
                                  example.release<2>(n, X.shape(1)), distance.release<1>(n));
        },
        "ensemble"_a, "attacker"_a, "X"_a, "labels"_a, "per_instance"_a, "seconds"_a, "threads"_a,
        "progress"_a.none(),
        "(status, right, margin, worst margin at least, at most, example, distance) per row");

    module.def(
        "radius",
        [](const carve::Ensemble& ensemble, const carve::Attacker& attacker, const Matrix& X,
           const Vector<std::int32_t>& labels, double seconds, int threads,
           const nb::object& progress) {
            const carve::Rows rows = rows_of(ensemble, X);
            const auto* label = labels_of(ensemble, rows, labels);
            const auto n = X.shape(0);
            Owned<double> lower(n);
            Owned<double> upper(n);
            run(progress, [&](const auto& tick) {
                return carve::radius_rows(ensemble, attacker, rows, label, seconds,
                                          {lower.data.get(), upper.data.get()}, threads, tick);
            });
            return nb::make_tuple(lower.release<1>(n), upper.release<1>(n));
        },
        "ensemble"_a, "attacker"_a, "X"_a, "labels"_a, "seconds"_a, "threads"_a,
        "progress"_a.none(),
        "(lower, upper) per row: equal bounds are the radius, infinite ones mean that no budget up "
        "to the attacker's flips");

    module.def(
        "search_verify",
        [](const carve::Ensemble& ensemble, const carve::Attacker& attacker, const Matrix& X,
           const Vector<std::int32_t>& labels, double seconds, bool exact_worst, bool large_spread,
           bool witness, int threads, const nb::object& progress) {
            const carve::Rows rows = rows_of(ensemble, X);
            const auto* label = labels_of(ensemble, rows, labels);
            const auto n = X.shape(0);
            const auto kept = witness ? n : 0;
            Owned<std::uint8_t> status(n);
            Owned<bool> right(n);
            Owned<double> margin(n);
            Owned<double> lower(n);
            Owned<double> upper(n);
            Owned<std::uint8_t> engine(n);
            Owned<double> taken(n);
            Owned<double> example(kept * X.shape(1));
            Owned<double> distance(kept);
            const carve::WitnessOutput examples{example.data.get(), distance.data.get()};
            run(progress, [&](const auto& tick) {
                return carve::search_verify_rows(
                    ensemble, attacker, rows, label, {seconds, exact_worst, large_spread},
                    {status.data.get(), right.data.get(), margin.data.get(), lower.data.get(),
                     upper.data.get(), engine.data.get(), taken.data.get()},
                    witness ? &examples : nullptr, threads, tick);
            });
            return nb::make_tuple(status.release<1>(n), right.release<1>(n), margin.release<1>(n),
                                  lower.release<1>(n), upper.release<1>(n), engine.release<1>(n),
                                  taken.release<1>(n), example.release<2>(kept, X.shape(1)),
                                  distance.release<1>(kept));
        },
        "ensemble"_a, "attacker"_a, "X"_a, "labels"_a, "seconds"_a, "exact_worst"_a,
        "large_spread"_a, "witness"_a, "threads"_a, "progress"_a.none(),
        "(status, right, margin, worst margin at least, at most, engine: 1 large-spread or 2 "
        "search, seconds, example, distance) per row; the last two are empty unless `witness`");

    module.def(
        "search_radius",
        [](const carve::Ensemble& ensemble, const carve::Attacker& attacker, const Matrix& X,
           const Vector<std::int32_t>& labels, double seconds, int threads,
           const nb::object& progress) {
            const carve::Rows rows = rows_of(ensemble, X);
            const auto* label = labels_of(ensemble, rows, labels);
            const auto n = X.shape(0);
            Owned<double> lower(n);
            Owned<double> upper(n);
            run(progress, [&](const auto& tick) {
                return carve::search_radius_rows(ensemble, attacker, rows, label, seconds,
                                                 {lower.data.get(), upper.data.get()}, threads,
                                                 tick);
            });
            return nb::make_tuple(lower.release<1>(n), upper.release<1>(n));
        },
        "ensemble"_a, "attacker"_a, "X"_a, "labels"_a, "seconds"_a, "threads"_a,
        "progress"_a.none(), "(lower, upper) per row, as in radius");

    nb::class_<carve::RangeOptions>(module, "RangeOptions", "Who may decide, and for how long.")
        .def(
            "__init__",
            [](carve::RangeOptions* self, double seconds, bool large_spread, bool per_instance,
               bool search) {
                new (self) carve::RangeOptions{seconds, large_spread, per_instance, search};
            },
            "seconds"_a, "large_spread"_a, "per_instance"_a, "search"_a);

    module.def(
        "output_range",
        [](const carve::Ensemble& ensemble, const carve::Attacker& attacker, const Matrix& X,
           const carve::RangeOptions& options, int threads, const nb::object& progress) {
            const carve::Rows rows = rows_of(ensemble, X);
            const auto n = X.shape(0);
            Owned<double> lowest_lower(n);
            Owned<double> lowest_upper(n);
            Owned<double> highest_lower(n);
            Owned<double> highest_upper(n);
            run(progress, [&](const auto& tick) {
                return carve::range_rows(ensemble, attacker, rows, options,
                                         {lowest_lower.data.get(), lowest_upper.data.get(),
                                          highest_lower.data.get(), highest_upper.data.get()},
                                         threads, tick);
            });
            return nb::make_tuple(lowest_lower.release<1>(n), lowest_upper.release<1>(n),
                                  highest_lower.release<1>(n), highest_upper.release<1>(n));
        },
        "ensemble"_a, "attacker"_a, "X"_a, "options"_a, "threads"_a, "progress"_a.none(),
        "(lowest raw score in reach at least, at most, highest at least, at most) per row");

    module.def(
        "stays_within",
        [](const carve::Ensemble& ensemble, const carve::Attacker& attacker, const Matrix& X,
           const Vector<double>& limit, const carve::RangeOptions& options, int threads,
           const nb::object& progress) {
            const carve::Rows rows = rows_of(ensemble, X);
            Owned<std::uint8_t> answer(X.shape(0));
            run(progress, [&](const auto& tick) {
                return carve::change_rows(ensemble, attacker, rows, view(limit), options,
                                          answer.data.get(), threads, tick);
            });
            return answer.release<1>(X.shape(0));
        },
        "ensemble"_a, "attacker"_a, "X"_a, "limit"_a, "options"_a, "threads"_a, "progress"_a.none(),
        "per row: no attack changes the raw score times `average` by more than the sum of `limit`; "
        "0 holds, 1 fails, 2 unknown");

    nb::class_<carve::WorstCases>(module, "WorstCases",
                                  "Worst margins of rows as functions of the leaf scores.")
        .def(
            "__init__",
            [](carve::WorstCases* self, const carve::Ensemble& ensemble,
               const carve::Attacker& attacker, const Matrix& X, const Vector<std::int32_t>& labels,
               int threads) {
                const carve::Rows rows = rows_of(ensemble, X);
                const auto* label = labels_of(ensemble, rows, labels);
                auto cases =
                    std::make_unique<carve::WorstCases>(ensemble, attacker, label, rows.count);
                run(nb::none(),
                    [&](const auto& tick) { return cases->collect(rows, threads, tick); });
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
                run(nb::none(), [&](const auto& tick) {
                    return self.evaluate(scores.data(), {nullptr, 1}, margin.data.get(), nullptr,
                                         threads, tick);
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
                run(nb::none(), [&](const auto& tick) {
                    return self.evaluate(scores.data(), {weights, steepness}, margin.data.get(),
                                         slope.data.get(), threads, tick);
                });
                return nb::make_tuple(margin.release<1>(self.rows()),
                                      slope.release<1>(self.score_count()));
            },
            "scores"_a, "weight"_a, "steepness"_a, "threads"_a,
            "(margins, derivative of the logistic loss by every score)");
}
