#include "search/state_cells.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

namespace carve {

namespace {

bool holds(StateMask mask, std::size_t place) {
    return (mask[place / 64] >> (place % 64) & 1) != 0;
}

using Members = std::vector<std::uint64_t>;

// In how many of the masks the two differ.
int difference(const Members& a, const Members& b) {
    int count = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        count += std::popcount(a[i] ^ b[i]);
    return count;
}

// A chain of cells, each followed by the one most like it.
std::vector<std::size_t> chain(const std::vector<const Members*>& members) {
    std::vector<std::size_t> order(members.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t last = 0; last + 2 < order.size(); ++last) {
        std::size_t nearest = last + 1;
        int least = difference(*members[order[last]], *members[order[nearest]]);
        for (std::size_t i = last + 2; i < order.size() && least > 0; ++i)
            if (const int other = difference(*members[order[last]], *members[order[i]]);
                other < least) {
                least = other;
                nearest = i;
            }
        std::swap(order[last + 1], order[nearest]);
    }
    return order;
}

// More cells than this are not put next to their likes, which takes the square of their number.
constexpr std::size_t many_cells = 256;

} // namespace

StateCells::StateCells(std::span<const std::uint64_t> allowed, const std::vector<Asked>& asked) {
    std::vector<std::size_t> places{64 * allowed.size()}; // the instance's own state comes first
    for (std::size_t word = 0; word < allowed.size(); ++word)
        for (std::uint64_t rest = allowed[word]; rest != 0; rest &= rest - 1)
            places.push_back(64 * word + static_cast<std::size_t>(std::countr_zero(rest)));
    std::map<Members, std::size_t> cell_of;
    std::vector<const Members*> members;
    std::vector<double> lean;
    for (const std::size_t place : places) {
        Members member((asked.size() + 63) / 64);
        for (std::size_t i = 0; i < asked.size(); ++i)
            member[i / 64] |= static_cast<std::uint64_t>(holds(asked[i].mask, place)) << (i % 64);
        const auto [found, is_new] = cell_of.emplace(std::move(member), place_.size());
        members_.emplace_back(place, static_cast<std::int32_t>(found->second));
        if (!is_new)
            continue;
        members.push_back(&found->first);
        place_.push_back(place);
        lean.push_back(0);
        for (const Asked& ask : asked)
            lean.back() += holds(ask.mask, place) ? ask.lean : 0;
    }
    // Trees tend to ask for states that raise the score, or for such as lower it.
    std::vector<std::size_t> order(place_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
        return lean[a] != lean[b] ? lean[a] < lean[b] : a < b;
    });
    if (order.size() <= many_cells) {
        const auto other = chain(members);
        const auto picked = [&](const std::vector<std::size_t>& cells) {
            std::vector<const Members*> list;
            for (const std::size_t cell : cells)
                list.push_back(members[cell]);
            return list;
        };
        if (runs_in(picked(other), asked) < runs_in(picked(order), asked))
            order = other;
    }
    std::vector<std::size_t> sorted;
    for (const std::size_t cell : order) {
        if (cell == 0)
            home_ = static_cast<std::int32_t>(sorted.size());
        sorted.push_back(place_[cell]);
        states_.push_back(cell == 0 ? -1 : static_cast<double>(place_[cell]));
    }
    place_ = sorted;
    std::vector<std::int32_t> rank(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        rank[order[i]] = static_cast<std::int32_t>(i);
    for (auto& [place, cell] : members_)
        cell = rank[static_cast<std::size_t>(cell)];
}

// How many runs of cells all leaves together ask for.
double StateCells::runs_in(const std::vector<const Members*>& order,
                           const std::vector<Asked>& asked) const {
    double total = 0;
    for (std::size_t i = 0; i < asked.size(); ++i) {
        bool before = false;
        for (const Members* const cell : order) {
            const bool here = ((*cell)[i / 64] >> (i % 64) & 1) != 0;
            total += here && !before ? asked[i].leaves : 0;
            before = here;
        }
    }
    return total;
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
