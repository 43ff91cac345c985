// The traversal of trees by a block of rows: the leaves at the current points, and those that
// moving one feature would lead to.
#include <algorithm>
#include <bit>

#include "training/witness_finder.hpp"

namespace carve {

void WitnessFinder::load(const Rows& rows, std::span<const std::int64_t> numbers) {
    rows_ = numbers.size();
    for (auto* const bits : {&left_, &can_left_, &can_right_, &missing_, &may_switch_})
        std::ranges::fill(*bits, 0);
    for (row_ = 0; row_ < rows_; ++row_) {
        with_row(rows, numbers[row_], [&](const auto* values) { instance_.load(values); });
        const Bits bit = Bits{1} << row_;
        for (const auto feature : ensemble_.used_features) {
            const auto f = static_cast<std::size_t>(feature);
            const double value = instance_.x[f];
            Range found{};
            if (value != value) {
                missing_[f] |= bit;
                const std::int32_t home = trees_.cell_of(feature, instance_.routed[f]);
                ranges_[at(feature, row_)] = {home, home, home};
                cells_[at(feature, row_)] = home;
                continue;
            }
            if (is_finite(feature)) {
                found = find_range(feature);
                may_switch_[f] |= found.low < found.high ? bit : 0;
            } else {
                if (known_[f].value != value)
                    known_[f] = {value, find_range(feature)};
                found = known_[f].range;
            }
            ranges_[at(feature, row_)] = found;
            cells_[at(feature, row_)] = found.home;
            const std::size_t first = trees_.first_cut(feature);
            const auto count = static_cast<std::int32_t>(trees_.cuts(feature).size());
            if (found.home < count)
                left_[first + static_cast<std::size_t>(found.home)] |= bit;
            if (found.low < count)
                can_left_[first + static_cast<std::size_t>(found.low)] |= bit;
            if (found.high > 0)
                can_right_[first + static_cast<std::size_t>(found.high) - 1] |= bit;
        }
    }
    // What is left of a cut is left of the next ones; what can be right of it, of those before.
    for (const auto feature : ensemble_.used_features) {
        const std::size_t first = trees_.first_cut(feature);
        const std::size_t end = first + trees_.cuts(feature).size();
        for (std::size_t cut = first + 1; cut < end; ++cut) {
            left_[cut] |= left_[cut - 1];
            can_left_[cut] |= can_left_[cut - 1];
        }
        for (std::size_t cut = end; cut > first + 1; --cut)
            can_right_[cut - 2] |= can_right_[cut - 1];
    }
}

WitnessFinder::Range WitnessFinder::find_range(std::int32_t feature) {
    const std::int32_t home = trees_.cell_of(feature, instance_.routed[feature]);
    const auto count = static_cast<std::int32_t>(trees_.cuts(feature).size());
    if (is_finite(feature))
        return instance_.may_switch(feature) ? Range{0, count, home} : Range{home, home, home};
    const auto cuts = trees_.cuts(feature);
    const auto crosses_down = [&](std::int32_t cut) {
        const double to = cuts[static_cast<std::size_t>(cut)];
        return instance_.may_cross(feature, to) && instance_.can_cross(feature, to, to);
    };
    const auto crosses_up = [&](std::int32_t cut) {
        const double threshold = cuts[static_cast<std::size_t>(cut)];
        return instance_.may_cross(feature, threshold) &&
               instance_.can_cross(feature, threshold, ensemble_.next_above(feature, threshold));
    };
    // Small budgets reach a few cells, norm 0 all of them.
    Range found{home, home, home};
    if (home > 0 && crosses_down(0))
        found.low = 0;
    while (found.low > 0 && crosses_down(found.low - 1))
        --found.low;
    if (home < count && crosses_up(count - 1))
        found.high = count;
    while (found.high < count && crosses_up(found.high))
        ++found.high;
    return found;
}

// Moves the point of row `row_`.
void WitnessFinder::place(std::int32_t feature, std::int32_t cell) {
    std::int32_t& current = cells_[at(feature, row_)];
    const std::size_t first = trees_.first_cut(feature);
    const auto [low, high] = std::minmax(current, cell);
    for (std::int32_t cut = low; cut < high; ++cut)
        left_[first + static_cast<std::size_t>(cut)] ^= Bits{1} << row_;
    current = cell;
}

// The rows that go left at a split, of `rows`.
WitnessFinder::Bits WitnessFinder::rows_left(const CutTrees::Node& node, Bits rows) const {
    const Bits missing = missing_[static_cast<std::size_t>(node.feature)];
    const Bits gone = node.missing_left ? rows & missing : 0;
    if (!node.by_set)
        return gone |
               (rows & ~missing &
                left_[trees_.first_cut(node.feature) + static_cast<std::size_t>(node.place)]);
    Bits left = gone;
    for (Bits rest = rows & ~missing; rest != 0; rest &= rest - 1) {
        const auto row = static_cast<std::size_t>(std::countr_zero(rest));
        if (ensemble_.sets.holds(static_cast<std::size_t>(node.place),
                                 cells_[at(node.feature, row)] - 1))
            left |= rest & -rest;
    }
    return left;
}

void WitnessFinder::find_leaves(bool with_targets) {
    const std::size_t trees = trees_.output.size();
    const Bits all = ~Bits{0} >> (most_rows - rows_);
    set_words_.clear();
    targets_.clear();
    for (auto& own : reached_)
        own.clear();
    for (std::size_t tree = 0; tree < trees; ++tree) {
        pending_.push_back({ensemble_.roots[tree], all, 0, 0});
        while (!pending_.empty()) {
            Visit here = pending_.back();
            pending_.pop_back();
            const CutTrees::Node* node = &trees_.nodes[static_cast<std::size_t>(here.node)];
            bool is_reached = true;
            for (; node->feature >= 0 && is_reached;
                 node = &trees_.nodes[static_cast<std::size_t>(here.node)]) {
                Bits all_here = here.rows;
                for (std::size_t i = 0; i < here.count; ++i)
                    all_here |= demands_[here.begin + i].rows;
                const Bits left = rows_left(*node, all_here);
                Visit lower{here.node + 1, here.rows & left, here.begin, here.count};
                Visit upper{node->right, here.rows & ~left, here.begin, here.count};
                bool goes_left = lower.rows != 0;
                bool goes_right = upper.rows != 0;
                if (with_targets) {
                    // The right child's demands replace the parent's; the left child's follow.
                    lower.begin = here.begin + here.count + 1;
                    if (demands_.size() < lower.begin + here.count + 1)
                        demands_.resize(2 * (lower.begin + here.count + 1));
                    std::copy_n(demands_.begin() + static_cast<std::ptrdiff_t>(here.begin),
                                here.count,
                                demands_.begin() + static_cast<std::ptrdiff_t>(lower.begin));
                    descend(*node, true, left, upper.rows, lower);
                    descend(*node, false, ~left, lower.rows, upper);
                    const auto reaches = [&](const Visit& visit) {
                        for (std::size_t i = 0; i < visit.count; ++i)
                            if (demands_[visit.begin + i].rows != 0)
                                return true;
                        return false;
                    };
                    goes_left = goes_left || reaches(lower);
                    goes_right = goes_right || reaches(upper);
                }
                if (goes_left && goes_right)
                    pending_.push_back(upper);
                here = goes_left ? lower : upper;
                is_reached = goes_left || goes_right;
            }
            if (!is_reached)
                continue;
            for (Bits rest = here.rows; rest != 0; rest &= rest - 1)
                leaves_[static_cast<std::size_t>(std::countr_zero(rest)) * trees + tree] =
                    node->right;
            for (std::size_t i = 0; i < here.count; ++i) {
                const Demand& demand = demands_[here.begin + i];
                if (demand.rows == 0)
                    continue;
                const auto target = static_cast<std::uint32_t>(targets_.size());
                targets_.push_back({demand, static_cast<std::int32_t>(tree), node->right});
                for (Bits rest = demand.rows; rest != 0; rest &= rest - 1)
                    reached_[static_cast<std::size_t>(std::countr_zero(rest))].push_back(target);
            }
        }
    }
}

// Updates the demands of a child: `on` are the rows that go this way, `off` those whose point got
// to the parent and goes the other way.
void WitnessFinder::descend(const CutTrees::Node& node, bool to_left, Bits on, Bits off,
                            Visit& child) {
    Demand* const demands = demands_.data() + child.begin;
    Demand* own = nullptr;
    for (std::size_t i = 0; i < child.count; ++i)
        if (demands[i].feature == node.feature)
            own = demands + i;
        else
            demands[i].rows &= on;
    if (own == nullptr) {
        own = demands + child.count++;
        const auto count = static_cast<std::int32_t>(trees_.cuts(node.feature).size());
        *own = {node.feature, 0, count, -1, 0};
    }
    Bits rows = own->rows | off;
    if (node.by_set) {
        own->set = set_below(node, to_left, own->set);
        rows &= may_switch_[static_cast<std::size_t>(node.feature)];
    } else {
        const std::size_t cut =
            trees_.first_cut(node.feature) + static_cast<std::size_t>(node.place);
        rows &= to_left ? can_left_[cut] : can_right_[cut];
        if (to_left)
            own->high = std::min(own->high, node.place);
        else
            own->low = std::max(own->low, node.place + 1);
    }
    own->rows = own->low <= own->high ? rows : 0;
}

// The cells of the set `above` (-1: all) that go this way at a split by a set.
std::int32_t WitnessFinder::set_below(const CutTrees::Node& node, bool to_left,
                                      std::int32_t above) {
    const std::size_t cells = trees_.cuts(node.feature).size() + 1;
    const std::size_t words = (cells + 63) / 64;
    const std::size_t begin = set_words_.size();
    set_words_.resize(begin + words);
    for (std::size_t cell = 0; cell < cells; ++cell) {
        const bool listed = ensemble_.sets.holds(static_cast<std::size_t>(node.place),
                                                 static_cast<double>(cell) - 1);
        if (listed == to_left)
            set_words_[begin + cell / 64] |= Bits{1} << (cell % 64);
    }
    for (std::size_t word = 0; above >= 0 && word < words; ++word)
        set_words_[begin + word] &= set_words_[static_cast<std::size_t>(above) + word];
    return static_cast<std::int32_t>(begin);
}

// Of row `row_`: what moving one feature would change.
void WitnessFinder::add_effects() {
    touched_.clear();
    const std::int32_t* const leaves = leaves_.data() + row_ * trees_.output.size();
    for (const std::uint32_t number : reached_[row_]) {
        const auto& [demand, tree, leaf] = targets_[number];
        const double change = value(leaf) - value(leaves[tree]);
        if (change == 0)
            continue;
        const auto f = static_cast<std::size_t>(demand.feature);
        if (is_touched_[f] == 0) {
            is_touched_[f] = 1;
            touched_.push_back(demand.feature);
        }
        double* const effect = effect_.data() + trees_.first_cell(demand.feature);
        if (demand.set < 0) {
            const Range& reach = range(demand.feature);
            effect[std::max(demand.low, reach.low)] += change;
            effect[std::min(demand.high, reach.high) + 1] -= change;
            continue;
        }
        const std::size_t cells = trees_.cuts(demand.feature).size() + 1;
        for (std::size_t word = 0; word < (cells + 63) / 64; ++word)
            for (Bits rest = set_words_[static_cast<std::size_t>(demand.set) + word]; rest != 0;
                 rest &= rest - 1) {
                const std::size_t cell =
                    64 * word + static_cast<std::size_t>(std::countr_zero(rest));
                effect[cell] += change;
                effect[cell + 1] -= change;
            }
    }
}

} // namespace carve
