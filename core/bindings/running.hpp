// The core at work while Python waits: without the GIL, with an eye on signals and progress.
#pragma once

#include <nanobind/nanobind.h>

#include <span>

#include "running/parallel.hpp"

// Calls work(watch) without the GIL. About every 100 ms, signals are looked after (Ctrl-C) and
// tell(finished rows) is called with the GIL; an exception there cancels the work and is raised.
template <class Work, class Tell> void run(Work&& work, Tell&& tell) {
    bool finished = false;
    {
        const nanobind::gil_scoped_release released;
        finished = work([&](std::span<const carve::RowRange> rows) {
            const nanobind::gil_scoped_acquire acquired;
            if (PyErr_CheckSignals() != 0)
                return false;
            try {
                tell(rows);
            } catch (nanobind::python_error& error) {
                error.restore();
                return false;
            }
            return true;
        });
    }
    if (!finished)
        throw nanobind::python_error();
}

template <class Work> void run(Work&& work) {
    run(work, [](std::span<const carve::RowRange>) {});
}
