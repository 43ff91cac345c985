// The attacker, and the problem that it and an ensemble pose.
#include "model/problem.hpp"

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"

void bind_problem(nb::module_& module) {
    nb::class_<carve::Attacker>(module, "Attacker")
        .def(
            "__init__",
            [](carve::Attacker* self, int norm, double budget, const Vector<double>& scale,
               const Vector<std::uint8_t>& changeable, const Vector<double>& lower,
               const Vector<double>& upper, const Vector<double>& scale_up,
               const Vector<double>& step_numerator, const Vector<double>& step_denominator,
               const Vector<std::int64_t>& state_starts, const Vector<std::uint64_t>& state_words,
               const Vector<std::int32_t>& column_starts,
               const Vector<std::int32_t>& state_columns) {
                new (self) carve::Attacker{norm,
                                           budget,
                                           copy(scale),
                                           copy(changeable),
                                           copy(lower),
                                           copy(upper),
                                           copy(scale_up),
                                           copy(step_numerator),
                                           copy(step_denominator),
                                           {copy(state_starts), copy(state_words)},
                                           copy(column_starts),
                                           copy(state_columns)};
            },
            "norm"_a, "budget"_a, "scale"_a, "changeable"_a, "lower"_a, "upper"_a, "scale_up"_a,
            "step_numerator"_a, "step_denominator"_a, "state_starts"_a, "state_words"_a,
            "column_starts"_a, "state_columns"_a,
            "norm -1 is infinity; empty arrays mean 1, changeable, unbounded, as downwards, steps "
            "of 1, no states to change to")
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

    nb::class_<carve::Problem>(module, "Problem", "An ensemble and an attacker, joined once.")
        .def(nb::init<const carve::Ensemble&, const carve::Attacker&>(), "ensemble"_a, "attacker"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>());
}
