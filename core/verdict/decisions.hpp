// Results over many instances: columns with an entry per row, those that the question asks for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace carve {

enum class Status : std::uint8_t { robust, fragile, vulnerable, broken, unknown };

// Who decides, or has decided.
enum class Engine : std::uint8_t { none, large_spread, search };

// Entries that stay where they are, for as long as someone shares them; none until `create`.
template <class T> class Column {
  public:
    void create(std::size_t size, T value) {
        data_.reset(new T[size]);
        std::fill_n(data_.get(), size, value);
    }
    bool exists() const { return data_ != nullptr; }
    T* data() const { return data_.get(); }
    const std::shared_ptr<T[]>& shared() const { return data_; }
    T& operator[](std::int64_t i) const { return data_[static_cast<std::size_t>(i)]; }

  private:
    std::shared_ptr<T[]> data_;
};

// What is not known yet is unknown, decided by nobody, NaN.
struct Decisions {
    static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

    Decisions(std::int64_t n, std::int64_t features)
        : rows(static_cast<std::size_t>(n)), columns(static_cast<std::size_t>(features)) {
        status.create(rows, Status::unknown);
        engine.create(rows, Engine::none);
        seconds.create(rows, 0.0);
    }

    std::size_t rows;
    std::size_t columns; // of the instances
    // decide: all of them. stays_within: robust if it does, fragile if not. radius, output_range:
    // robust where the answer is known exactly.
    Column<Status> status;
    Column<Engine> engine;  // none where the status is unknown
    Column<double> seconds; // that the row took

    // decide
    Column<bool> right; // the label holds the decision on the unchanged instance
    Column<double> margin;
    // worst_lower <= worst margin <= worst_upper; neighbours, or equal, where it is known.
    Column<double> worst_lower;
    Column<double> worst_upper;
    // decide, where witnesses are asked for: a row per row, and its distance; NaN: there is none.
    Column<double> witness;
    Column<double> distance;

    // radius
    // radius_lower <= radius <= radius_upper; equal where the radius is known, both infinite where
    // no budget up to the attacker's flips the instance, both 0 where it is wrong already.
    // Otherwise no budget up to `radius_lower` flips it.
    Column<double> radius_lower;
    Column<double> radius_upper;

    // output_range
    // lowest_lower <= the lowest raw score in reach <= lowest_upper, and so for the highest; equal,
    // or neighbours, where it is known. An attack reaches what the inner bounds are rounded from.
    Column<double> lowest_lower;
    Column<double> lowest_upper;
    Column<double> highest_lower;
    Column<double> highest_upper;
};

} // namespace carve
