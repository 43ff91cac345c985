// numpy arrays as the core sees them, and the core's as numpy sees them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "model/ensemble.hpp"
#include "model/rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

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

inline carve::Rows rows_of(const Matrix& X) {
    const bool single = X.dtype() == nb::dtype<float>();
    if (!single && X.dtype() != nb::dtype<double>())
        throw std::invalid_argument("X must be float64 or float32");
    return {X.data(), single, static_cast<std::int64_t>(X.shape(0)),
            static_cast<std::int64_t>(X.shape(1))};
}

inline carve::Rows rows_of(const carve::Ensemble& ensemble, const Matrix& X) {
    if (static_cast<int>(X.shape(1)) != ensemble.n_features)
        throw std::invalid_argument("X has the wrong number of columns");
    return rows_of(X);
}

inline const std::int32_t* labels_of(const carve::Ensemble& ensemble, const Matrix& X,
                                     const Vector<std::int32_t>& labels) {
    if (labels.size() != X.shape(0))
        throw std::invalid_argument("one label per row is needed");
    const int classes = std::max(2, ensemble.n_outputs());
    for (const auto label : view(labels))
        if (label < 0 || label >= classes)
            throw std::invalid_argument("a label is not a class index");
    return labels.data();
}

// Defines a constructor with a keyword per field (its name and member), with the fields' defaults.
template <class T, class... V>
void def_fields(nb::class_<T>& options, const char* doc, std::pair<const char*, V T::*>... fields) {
    const T defaults;
    options.def(
        "__init__",
        [fields...](T* self, V... values) {
            new (self) T();
            ((self->*fields.second = values), ...);
        },
        nb::kw_only(), (nb::arg(fields.first) = defaults.*fields.second)..., doc);
}
