// Many instances, as the caller stores them: row-major, in double or single precision.
#pragma once

#include <cstdint>

namespace carve {

// What one row may be moved within, a number per column; null: no bounds of its own.
struct RowBounds {
    const double* lower = nullptr;
    const double* upper = nullptr;
};

struct Rows {
    const void* data;
    bool single_precision;
    std::int64_t count;
    std::int64_t columns;
    RowBounds bounds{}; // of the first row; those of the others follow

    RowBounds bounds_of(std::int64_t row) const {
        if (bounds.lower == nullptr)
            return {};
        return {bounds.lower + row * columns, bounds.upper + row * columns};
    }
};

// Calls function(pointer to the row's first number), of the type that the rows are stored in.
template <class Function> void with_row(const Rows& rows, std::int64_t row, Function&& function) {
    const auto offset = row * rows.columns;
    if (rows.single_precision)
        function(static_cast<const float*>(rows.data) + offset);
    else
        function(static_cast<const double*>(rows.data) + offset);
}

} // namespace carve
