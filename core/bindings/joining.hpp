// Numbers of several processes, joined by Python.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/arrays.hpp"
#include "running/joining.hpp"

// A callable as the core joins with it: called with the GIL, with an array that is the core's own
// memory, and lives as long as anybody looks at it (a traceback, for one). To be copied and
// destroyed with the GIL.
inline carve::Join join_of(nb::callable callable) {
    return [callable = std::move(callable)](const carve::PartialSums& sums) {
        const nb::gil_scoped_acquire acquired;
        auto kept = std::make_unique<carve::PartialSums>(sums);
        const nb::capsule owner(kept.get(), [](void* pointer) noexcept {
            delete static_cast<carve::PartialSums*>(pointer);
        });
        kept.release();
        callable(Output<std::int64_t, 1>(sums->data(), {sums->size()}, owner));
    };
}
