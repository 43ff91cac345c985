#include "training/witness_finder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// splitmix64: the next number of a sequence that its state determines.
std::uint64_t next_random(std::uint64_t& state) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

bool draw(double share, std::uint64_t& random) {
    return static_cast<double>(next_random(random) >> 11) * 0x1p-53 < share;
}

} // namespace

WitnessFinder::WitnessFinder(const Ensemble& ensemble, const CutTrees& trees,
                             const Attacker& attacker)
    : ensemble_(ensemble), trees_(trees), attacker_(attacker), costs_(ensemble, attacker),
      instance_(ensemble, attacker),
      has_states_(std::ranges::find(ensemble.grid, Grid::finite) != ensemble.grid.end()),
      outputs_(static_cast<std::size_t>(ensemble.n_outputs())), left_(trees.cut_count()),
      can_left_(left_.size()), can_right_(left_.size()),
      leaves_(most_rows * static_cast<std::size_t>(ensemble.n_trees())), reached_(most_rows),
      total_(outputs_), effect_(trees.cell_places(), 0.0) {
    const auto n = static_cast<std::size_t>(ensemble.n_features);
    known_.resize(n);
    ranges_.resize(n * most_rows);
    cells_.resize(n * most_rows);
    missing_.resize(n);
    may_switch_.resize(n);
    to_.resize(n);
    listed_.assign(n, 0);
    chosen_.resize(n);
    is_touched_.assign(n, 0);
    is_full_.assign(n, 0);
    // Costs have p factors each; what a pass leaves of the capacity is rounded once per feature
    // that stays and once per segment of a hull, of which there are fewer than cells.
    const double slack =
        unit_roundoff * (2.0 * static_cast<double>(trees.cell_places()) + 8.0 * attacker.norm + 64);
    capacity_ = sure_ = attacker.norm == norm_inf ? infinity : costs_.capacity();
    if (attacker.norm > 0) {
        capacity_ *= 1 + slack;
        sure_ *= 1 - slack;
    }
}

void WitnessFinder::improve(const Rows& rows, std::span<Row> block, const double* scores,
                            const Effort& effort) {
    std::array<std::int64_t, most_rows> numbers{};
    for (std::size_t i = 0; i < block.size(); ++i)
        numbers[i] = block[i].number;
    load(rows, {numbers.data(), block.size()});
    scores_ = scores;
    for (row_ = 0; row_ < rows_; ++row_)
        for (const auto& [feature, cell] : block[row_].moves)
            place(feature, cell);
    const std::size_t trees = trees_.output.size();
    for (int pass = 0; pass <= effort.passes; ++pass) {
        const bool is_last = pass == effort.passes;
        find_leaves(!is_last);
        for (std::size_t i = 0; i < rows_; ++i) {
            Row& row = block[i];
            row_ = i;
            const double margin = find_margin(row.label) / ensemble_.average;
            if (margin < row.margin) {
                row.margin = margin;
                row.rival = static_cast<int>(minus_);
                if (pass > 0)
                    row.moves = moves();
                const auto own = leaves_.begin() + static_cast<std::ptrdiff_t>(i * trees);
                row.leaves.assign(own, own + static_cast<std::ptrdiff_t>(trees));
            }
            if (is_last)
                continue;
            select(rows, row.number, i);
            add_effects();
            choose_moves(effort.staying, moved_.empty(), row.seed);
            place_moves();
        }
    }
}

void WitnessFinder::place_moves() {
    for (const auto feature : moved_)
        place(feature, chosen_[static_cast<std::size_t>(feature)]);
}

void WitnessFinder::select(const Rows& rows, std::int64_t number, std::size_t row) {
    with_row(rows, number, [&](const auto* values) { instance_.load(values); });
    row_ = row;
    for (const auto feature : moved_)
        listed_[static_cast<std::size_t>(feature)] = 0;
    moved_.clear();
    for (const auto feature : ensemble_.used_features)
        if (const auto cell = cells_[at(feature, row)]; cell != range(feature).home)
            move(feature, cell);
}

// The value that stands for a cell: the one nearest to the row.
double WitnessFinder::value_of(std::int32_t feature, std::int32_t cell) const {
    const std::int32_t home = range(feature).home;
    if (cell == home)
        return instance_.routed[feature];
    if (is_finite(feature))
        return cell - 1;
    const auto cuts = trees_.cuts(feature);
    return cell < home ? cuts[static_cast<std::size_t>(cell)]
                       : ensemble_.next_above(feature, cuts[static_cast<std::size_t>(cell) - 1]);
}

double WitnessFinder::cost(std::int32_t feature, std::int32_t cell) const {
    if (cell == range(feature).home)
        return 0;
    return costs_.of(feature,
                     is_finite(feature) ? 1.0 : value_of(feature, cell) - instance_.x[feature]);
}

void WitnessFinder::move(std::int32_t feature, std::int32_t cell) {
    const auto f = static_cast<std::size_t>(feature);
    to_[f] = value_of(feature, cell);
    chosen_[f] = cell;
    if (listed_[f] == 0) {
        listed_[f] = 1;
        moved_.push_back(feature);
    }
}

std::vector<CellMove> WitnessFinder::moves_to(const Rows& rows, std::int64_t row, const double* z) {
    load(rows, {&row, 1});
    select(rows, row, 0);
    for (const auto feature : ensemble_.used_features) {
        const double value = z[feature];
        if (value == instance_.x[feature] || value != value)
            continue;
        if (is_finite(feature) && !instance_.allows(feature, value))
            continue;
        const auto [low, high, home] = range(feature);
        const std::int32_t cell = std::clamp(trees_.cell_of(feature, value), low, high);
        if (cell != home)
            move(feature, cell);
    }
    if (!is_affordable())
        return {};
    place_moves();
    return moves();
}

// The margin at the current point against the best rival there, which the next moves then help.
double WitnessFinder::find_margin(std::int32_t label) {
    sign_ = label == 1 ? 1 : -1;
    plus_ = static_cast<std::size_t>(label);
    const std::size_t trees = trees_.output.size();
    const std::int32_t* const leaves = leaves_.data() + row_ * trees;
    if (outputs_ == 1) {
        double total = ensemble_.base_score[0];
        for (std::size_t t = 0; t < trees; ++t)
            total += scores_[leaves[t]];
        return sign_ * (total - ensemble_.threshold * ensemble_.average);
    }
    std::ranges::copy(ensemble_.base_score, total_.begin());
    for (std::size_t t = 0; t < trees; ++t) {
        const double* const own = scores_ + static_cast<std::size_t>(leaves[t]) * outputs_;
        if (const std::int32_t only = trees_.output[t]; only >= 0)
            total_[static_cast<std::size_t>(only)] += own[only];
        else
            for (std::size_t k = 0; k < outputs_; ++k)
                total_[k] += own[k];
    }
    minus_ = label == 0 ? 1 : 0;
    for (std::size_t k = 0; k < outputs_; ++k)
        if (k != plus_ && total_[k] > total_[minus_])
            minus_ = k;
    return total_[plus_] - total_[minus_];
}

// With steps and states, what is left of a budget often is nothing at all.
bool WitnessFinder::is_affordable() {
    double spent = 0;
    changed_.clear();
    for (const auto feature : moved_)
        if (const auto cell = chosen_[static_cast<std::size_t>(feature)];
            cell != range(feature).home) {
            spent += cost(feature, cell);
            changed_.push_back(feature);
        }
    return spent <= sure_ ||
           (spent <= capacity_ && attacker_.affords(changed_, instance_.x, to_.data()));
}

// From row `row_` to its current point.
std::vector<CellMove> WitnessFinder::moves() const {
    std::vector<CellMove> found;
    for (const auto feature : ensemble_.used_features)
        if (const auto cell = cells_[at(feature, row_)]; cell != range(feature).home)
            found.push_back({feature, cell});
    return found;
}

void WitnessFinder::choose_moves(double staying, bool at_home, std::uint64_t& random) {
    double left = capacity_;
    segments_.clear();
    const auto stays = [&](std::int32_t feature) {
        if (at_home || !draw(staying, random))
            return false;
        if (listed_[static_cast<std::size_t>(feature)] != 0)
            left -= cost(feature, chosen_[static_cast<std::size_t>(feature)]);
        return true;
    };
    for (const auto feature : moved_)
        if (is_touched_[static_cast<std::size_t>(feature)] == 0 && !stays(feature))
            move(feature, range(feature).home);
    for (const auto feature : touched_) {
        const auto [low, high, home] = range(feature);
        double* const effect = effect_.data() + trees_.first_cell(feature);
        for (std::int32_t cell = low + 1; cell <= high; ++cell)
            effect[cell] += effect[cell - 1];
        if (!stays(feature)) {
            add_segments(feature);
            if (listed_[static_cast<std::size_t>(feature)] != 0)
                move(feature, home);
        }
        std::fill(effect + low, effect + high + 2, 0.0);
        is_touched_[static_cast<std::size_t>(feature)] = 0;
    }
    std::ranges::sort(segments_, [](const Segment& a, const Segment& b) {
        return a.rate != b.rate         ? a.rate > b.rate
               : a.feature != b.feature ? a.feature < b.feature
                                        : a.cost < b.cost;
    });
    spend(left);
    if (is_affordable())
        return;
    for (const Segment& segment : segments_)
        move(segment.feature, range(segment.feature).home);
    spend(left - (capacity_ - sure_));
}

void WitnessFinder::spend(double left) {
    for (const Segment& segment : segments_)
        is_full_[static_cast<std::size_t>(segment.feature)] = 0;
    for (const auto& [rate, extra, feature, cell] : segments_) {
        if (is_full_[static_cast<std::size_t>(feature)] != 0)
            continue;
        if (extra > left) {
            is_full_[static_cast<std::size_t>(feature)] = 1;
            continue;
        }
        left -= extra;
        move(feature, cell);
    }
}

// All states but the instance's own cost the same.
void WitnessFinder::add_best_state(std::int32_t feature) {
    const std::int32_t home = range(feature).home;
    const double* const effect = effect_.data() + trees_.first_cell(feature);
    const auto allowed = instance_.states_of(feature);
    std::int32_t best = home;
    for (std::size_t word = 0; word < allowed.size(); ++word)
        for (std::uint64_t rest = allowed[word]; rest != 0; rest &= rest - 1) {
            const auto cell = static_cast<std::int32_t>(64 * word) + std::countr_zero(rest) + 1;
            best = effect[cell] < effect[best] ? cell : best;
        }
    const double extra = cost(feature, best);
    if (best != home && extra <= capacity_)
        segments_.push_back(
            {(effect[home] - effect[best]) / std::max(extra, 1e-300), extra, feature, best});
}

// The lower convex hull of the feature's (cost, effect), from the instance's own cell outward.
void WitnessFinder::add_segments(std::int32_t feature) {
    if (is_finite(feature)) {
        add_best_state(feature);
        return;
    }
    const auto [low, high, home] = range(feature);
    const double* const effect = effect_.data() + trees_.first_cell(feature);
    if (attacker_.norm == 0) { // all cells but the row's own cost the same
        const auto best =
            static_cast<std::int32_t>(std::min_element(effect + low, effect + high + 1) - effect);
        if (effect[best] < effect[home] && capacity_ >= 1)
            segments_.push_back({effect[home] - effect[best], 1, feature, best});
        return;
    }
    hull_.clear();
    hull_.push_back({0, effect[home], home});
    std::int32_t below = home - 1;
    std::int32_t above = home + 1;
    const auto cost_below = [&] { return below >= low ? cost(feature, below) : infinity; };
    const auto cost_above = [&] { return above <= high ? cost(feature, above) : infinity; };
    const auto rate = [](const Corner& from, const Corner& to) {
        return (from.effect - to.effect) / std::max(to.cost - from.cost, 1e-300);
    };
    for (double down = cost_below(), up = cost_above(); below >= low || above <= high;) {
        Corner next{std::min(down, up), 0, down <= up ? below : above};
        if (next.cost > capacity_)
            break;
        if (down <= up) {
            --below;
            down = cost_below();
        } else {
            ++above;
            up = cost_above();
        }
        next.effect = effect[next.cell];
        if (next.effect >= hull_.back().effect)
            continue;
        while (hull_.size() > 1 &&
               rate(hull_.back(), next) >= rate(*(hull_.end() - 2), hull_.back()))
            hull_.pop_back();
        hull_.push_back(next);
    }
    for (std::size_t i = 1; i < hull_.size(); ++i)
        segments_.push_back({rate(hull_[i - 1], hull_[i]), hull_[i].cost - hull_[i - 1].cost,
                             feature, hull_[i].cell});
}

bool WitnessFinder::write(const Rows& rows, std::int64_t row, std::span<const CellMove> moves,
                          double* z) {
    load(rows, {&row, 1});
    select(rows, row, 0);
    changed_.clear();
    for (const auto& [feature, cell] : moves) {
        z[feature] = value_of(feature, cell);
        changed_.push_back(feature);
    }
    return attacker_.affords(changed_, instance_.x, z);
}

} // namespace carve
