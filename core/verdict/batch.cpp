#include "verdict/batch.hpp"

#include "verdict/range_rows.hpp"
#include "verdict/rows.hpp"
#include "verdict/search_rows.hpp"

namespace carve {

bool Batch::decide(const std::int32_t* label) const {
    const std::size_t n = decisions.rows;
    decisions.right.create(n, false);
    for (auto* column : {&decisions.margin, &decisions.worst_lower, &decisions.worst_upper})
        column->create(n, Decisions::nan);
    if (options.witness) {
        decisions.witness.create(n * decisions.columns, Decisions::nan);
        decisions.distance.create(n, Decisions::nan);
    }
    return options.solver == Engine::search ? search_verify_rows(*this, label)
                                            : verify_rows(*this, label);
}

bool Batch::radius(const std::int32_t* label) const {
    const std::size_t n = decisions.rows;
    decisions.radius_lower.create(n, Decisions::nan);
    decisions.radius_upper.create(n, Decisions::nan);
    return options.solver == Engine::search ? search_radius_rows(*this, label)
                                            : radius_rows(*this, label);
}

bool Batch::output_range() const {
    const std::size_t n = decisions.rows;
    for (auto* column : {&decisions.lowest_lower, &decisions.lowest_upper, &decisions.highest_lower,
                         &decisions.highest_upper})
        column->create(n, Decisions::nan);
    return range_rows(*this);
}

bool Batch::stays_within(std::span<const double> limit) const { return change_rows(*this, limit); }

} // namespace carve
