#include "training/witness_finder.hpp"

#include <algorithm>
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
      outputs_(static_cast<std::size_t>(ensemble.n_outputs())),
      leaves_(static_cast<std::size_t>(ensemble.n_trees())), total_(outputs_),
      effect_(trees.cell_places(), 0.0) {
    const auto n = static_cast<std::size_t>(ensemble.n_features);
    at_.resize(n);
    cell_.resize(n);
    listed_.assign(n, 0);
    range_.resize(n);
    known_.assign(n, 0);
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

void WitnessFinder::load(const Rows& rows, std::int64_t row) {
    with_row(rows, row, [&](const auto* values) { instance_.load(values); });
    ++load_;
    std::copy_n(instance_.routed, at_.size(), at_.begin());
    for (const auto feature : moved_)
        listed_[static_cast<std::size_t>(feature)] = 0;
    moved_.clear();
}

void WitnessFinder::find_range(std::int32_t feature) {
    const auto f = static_cast<std::size_t>(feature);
    known_[f] = load_;
    const std::int32_t home = trees_.cell_of(feature, instance_.routed[f]);
    range_[f] = {home, home, home};
    if (is_finite(feature)) {
        if (instance_.may_switch(feature))
            range_[f] = {0, static_cast<std::int32_t>(trees_.cuts(feature).size()), home};
    } else if (instance_.x[f] == instance_.x[f]) {
        const Limits& limits = instance_.limits(feature);
        range_[f] = {trees_.cell_of(feature, limits.low), trees_.cell_of(feature, limits.high),
                     home};
    }
}

// The value that stands for a cell: the one nearest to the instance.
double WitnessFinder::value_of(std::int32_t feature, std::int32_t cell) {
    const std::int32_t home = range(feature).home;
    if (cell == home)
        return instance_.routed[feature];
    if (is_finite(feature))
        return cell - 1;
    const auto cuts = trees_.cuts(feature);
    return cell < home ? cuts[static_cast<std::size_t>(cell)]
                       : ensemble_.next_above(feature, cuts[static_cast<std::size_t>(cell) - 1]);
}

double WitnessFinder::cost(std::int32_t feature, std::int32_t cell) {
    if (cell == range(feature).home)
        return 0;
    return costs_.of(feature,
                     is_finite(feature) ? 1.0 : value_of(feature, cell) - instance_.x[feature]);
}

void WitnessFinder::move(std::int32_t feature, std::int32_t cell) {
    const auto f = static_cast<std::size_t>(feature);
    at_[f] = value_of(feature, cell);
    cell_[f] = cell;
    if (listed_[f] == 0) {
        listed_[f] = 1;
        moved_.push_back(feature);
    }
}

void WitnessFinder::stand_at(std::span<const CellMove> moves) {
    for (const auto& [feature, cell] : moves)
        move(feature, cell);
}

bool WitnessFinder::stand_at(const double* z) {
    for (const auto feature : ensemble_.used_features) {
        const double value = z[feature];
        if (value == instance_.x[feature] || value != value)
            continue;
        if (is_finite(feature) && !instance_.allows(feature, value))
            continue;
        const auto [low, high, home] = range(feature);
        const std::int32_t cell = std::clamp(trees_.cell_of(feature, value), low, high);
        if (cell == home)
            continue;
        move(feature, cell);
    }
    if (is_affordable())
        return true;
    for (const auto feature : moved_)
        move(feature, range(feature).home);
    return false;
}

double WitnessFinder::press(const double* scores, int label, const Effort& effort,
                            std::uint64_t seed) {
    scores_ = scores;
    sign_ = label == 1 ? 1 : -1;
    plus_ = static_cast<std::size_t>(label);
    std::uint64_t random = seed;
    double lowest = infinity;
    bool at_home = moved_.empty();
    for (int pass = 0;; ++pass) {
        const double margin = margin_here(label);
        if (margin < lowest) {
            lowest = margin;
            keep();
        }
        if (pass == effort.passes)
            return lowest / ensemble_.average;
        find_effects();
        choose_moves(effort.staying, at_home, random);
        at_home = false;
    }
}

// The margin where the finder stands, against the best rival there, which becomes the one to help.
double WitnessFinder::margin_here(int label) {
    std::ranges::copy(ensemble_.base_score, total_.begin());
    for (std::size_t t = 0; t < leaves_.size(); ++t) {
        std::int32_t node = ensemble_.roots[t];
        while (trees_.nodes[static_cast<std::size_t>(node)].feature >= 0) {
            const auto& split = trees_.nodes[static_cast<std::size_t>(node)];
            node = goes_left(split) ? node + 1 : split.right;
        }
        const std::int32_t leaf = trees_.nodes[static_cast<std::size_t>(node)].right;
        leaves_[t] = leaf;
        const double* const own = scores_ + static_cast<std::size_t>(leaf) * outputs_;
        if (const std::int32_t only = trees_.output[t]; only >= 0)
            total_[static_cast<std::size_t>(only)] += own[only];
        else
            for (std::size_t k = 0; k < outputs_; ++k)
                total_[k] += own[k];
    }
    if (outputs_ == 1)
        return sign_ * (total_[0] - ensemble_.threshold * ensemble_.average);
    minus_ = label == 0 ? 1 : 0;
    for (std::size_t k = 0; k < outputs_; ++k)
        if (k != plus_ && total_[k] > total_[minus_])
            minus_ = k;
    return total_[plus_] - total_[minus_];
}

void WitnessFinder::keep() {
    best_leaves_ = leaves_;
    best_rival_ = static_cast<int>(minus_);
    best_moves_ = standing();
}

// With steps and states, what is left of a budget often is nothing at all.
bool WitnessFinder::is_affordable() {
    double spent = 0;
    changed_.clear();
    for (const auto feature : moved_)
        if (const auto cell = cell_[static_cast<std::size_t>(feature)];
            cell != range(feature).home) {
            spent += cost(feature, cell);
            changed_.push_back(feature);
        }
    return spent <= sure_ ||
           (spent <= capacity_ && attacker_.affords(changed_, instance_.x, at_.data()));
}

std::vector<CellMove> WitnessFinder::standing() {
    std::vector<CellMove> moves;
    for (const auto feature : moved_)
        if (const auto cell = cell_[static_cast<std::size_t>(feature)]; cell != range(feature).home)
            moves.push_back({feature, cell});
    return moves;
}

void WitnessFinder::choose_moves(double staying, bool at_home, std::uint64_t& random) {
    double left = capacity_;
    segments_.clear();
    const auto stays = [&](std::int32_t feature) {
        if (at_home || !draw(staying, random))
            return false;
        if (listed_[static_cast<std::size_t>(feature)] != 0)
            left -= cost(feature, cell_[static_cast<std::size_t>(feature)]);
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

bool WitnessFinder::write(std::span<const CellMove> moves, double* z) {
    std::vector<std::int32_t> changed;
    for (const auto& [feature, cell] : moves) {
        z[feature] = value_of(feature, cell);
        changed.push_back(feature);
    }
    return attacker_.affords(changed, instance_.x, z);
}

} // namespace carve
