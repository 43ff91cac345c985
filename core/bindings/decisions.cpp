// Named columns, as numpy arrays that look into the core's memory; each keeps its column alive.
#include "verdict/decisions.hpp"

#include <initializer_list>
#include <memory>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"

namespace {

using carve::Column;
using carve::Decisions;

// Codes are bytes to numpy.
template <class T> struct Stored {
    using type = T;
};
template <> struct Stored<carve::Status> {
    using type = std::uint8_t;
};
template <> struct Stored<carve::Engine> {
    using type = std::uint8_t;
};

template <class T> nb::object array(const Column<T>& column, std::initializer_list<size_t> shape) {
    if (!column.exists())
        return nb::none();
    using Type = typename Stored<T>::type;
    auto* const data = reinterpret_cast<Type*>(column.data());
    using Share = std::shared_ptr<T[]>;
    const nb::capsule owner(new Share(column.shared()),
                            [](void* share) noexcept { delete static_cast<Share*>(share); });
    return nb::cast(nb::ndarray<nb::numpy, Type>(data, shape, owner));
}

// A property that is typed as the array it is, for those who ask a question that fills it.
template <auto column>
void add(nb::class_<Decisions>& decisions, const std::string& name, const std::string& type) {
    const std::string signature = "def " + name + "(self, /) -> NDArray[numpy." + type;
    decisions.def_prop_ro(
        name.c_str(), [](const Decisions& self) { return array(self.*column, {self.rows}); },
        nb::sig(signature.c_str()));
}

} // namespace

void bind_decisions(nb::module_& module) {
    nb::class_<Decisions> decisions(
        module, "Decisions",
        "An entry per row; columns that the question does not ask for are None.");
    decisions.def("__len__", [](const Decisions& self) { return self.rows; });
    add<&Decisions::status>(decisions, "status", "uint8]");
    add<&Decisions::engine>(decisions, "engine", "uint8]");
    add<&Decisions::seconds>(decisions, "seconds", "float64]");
    add<&Decisions::right>(decisions, "right", "bool_]");
    add<&Decisions::margin>(decisions, "margin", "float64]");
    add<&Decisions::worst_lower>(decisions, "worst_lower", "float64]");
    add<&Decisions::worst_upper>(decisions, "worst_upper", "float64]");
    decisions.def_prop_ro(
        "witness",
        [](const Decisions& self) { return array(self.witness, {self.rows, self.columns}); },
        nb::sig("def witness(self, /) -> NDArray[numpy.float64] | None"));
    add<&Decisions::distance>(decisions, "distance", "float64] | None");
    add<&Decisions::radius_lower>(decisions, "radius_lower", "float64]");
    add<&Decisions::radius_upper>(decisions, "radius_upper", "float64]");
    add<&Decisions::lowest_lower>(decisions, "lowest_lower", "float64]");
    add<&Decisions::lowest_upper>(decisions, "lowest_upper", "float64]");
    add<&Decisions::highest_lower>(decisions, "highest_lower", "float64]");
    add<&Decisions::highest_upper>(decisions, "highest_upper", "float64]");
}
