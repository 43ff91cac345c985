#include "search/state_cells.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace carve {

namespace {

bool holds(StateMask mask, std::size_t place) {
    return (mask[place / 64] >> (place % 64) & 1) != 0;
}

// In how many of the masks the two differ.
int difference(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
    int count = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        count += std::popcount(a[i] ^ b[i]);
    return count;
}

// More cells than this are not put next to their likes, which takes the square of their number.
constexpr std::size_t many_cells = 512;

} // namespace

StateCells::StateCells(std::span<const std::uint64_t> allowed,
                       const std::vector<StateMask>& masks) {
    std::vector<std::size_t> places{64 * allowed.size()}; // the instance's own state comes first
    for (std::size_t word = 0; word < allowed.size(); ++word)
        for (std::uint64_t rest = allowed[word]; rest != 0; rest &= rest - 1)
            places.push_back(64 * word + static_cast<std::size_t>(std::countr_zero(rest)));
    // Which masks hold a state, as bits: equal for the states of a cell.
    std::map<std::vector<std::uint64_t>, std::size_t> cell_of;
    std::vector<const std::vector<std::uint64_t>*> members;
    for (const std::size_t place : places) {
        std::vector<std::uint64_t> member((masks.size() + 63) / 64);
        for (std::size_t i = 0; i < masks.size(); ++i)
            member[i / 64] |= static_cast<std::uint64_t>(holds(masks[i], place)) << (i % 64);
        const auto [found, is_new] = cell_of.emplace(std::move(member), place_.size());
        if (is_new) {
            members.push_back(&found->first);
            place_.push_back(place);
        }
    }
    // A chain of cells, each followed by the one most like it.
    for (std::size_t last = 0; last + 2 < place_.size() && place_.size() <= many_cells; ++last) {
        std::size_t nearest = last + 1;
        for (std::size_t i = last + 2; i < place_.size(); ++i)
            if (difference(*members[last], *members[i]) <
                difference(*members[last], *members[nearest]))
                nearest = i;
        std::swap(place_[last + 1], place_[nearest]);
        std::swap(members[last + 1], members[nearest]);
    }
    for (const std::size_t place : place_)
        states_.push_back(place == places[0] ? -1 : static_cast<double>(place));
}

std::vector<StateCells::Run> StateCells::runs(StateMask mask) const {
    std::vector<Run> found;
    for (std::int32_t cell = 0; cell < count(); ++cell) {
        if (!holds(mask, place_[static_cast<std::size_t>(cell)]))
            continue;
        if (!found.empty() && found.back().high == cell - 1)
            found.back().high = cell;
        else
            found.push_back({cell, cell});
    }
    return found;
}

} // namespace carve
