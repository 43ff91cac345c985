#include "model/attacker.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace carve {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();

// The largest double <= x + reach, where reach = high + low exactly.
double floor_sum(double x, double high, double low) {
    const auto [sum, error] = two_sum(x, high);
    if (!std::isfinite(sum))
        return sum > 0 ? largest : -largest;
    if (low == 0) // sum is the double nearest to x + high
        return error < 0 ? std::nextafter(sum, -infinity) : sum;
    // Not the common case: start nearby and step to where the exact comparison says so.
    const auto within = [&](double z) {
        ExactSum slack;
        for (const double term : {x, high, low, -z})
            slack.add(term);
        return slack.sign() >= 0;
    };
    double z = sum + (error + low);
    while (!within(z))
        z = std::nextafter(z, -infinity);
    while (z < largest && within(std::nextafter(z, infinity)))
        z = std::nextafter(z, infinity);
    return z;
}

// No lattice reaches further from 0: whole numbers, the next ones, and distances are doubles.
constexpr double most_steps = 0x1p50;
constexpr double any_distance = 2 * most_steps; // from one end to the other

// The largest whole number n with n * step <= budget * scale.
double steps_within(double budget, const Unit& unit) {
    const Dyadic reach = Dyadic::magnitude(budget) * Dyadic::magnitude(unit.scale) *
                         Dyadic::magnitude(unit.denominator);
    const Dyadic size = Dyadic::magnitude(unit.numerator);
    const auto fits = [&](double n) { return Dyadic::magnitude(n) * size <= reach; };
    if (fits(any_distance))
        return any_distance;
    double n = std::floor(budget * unit.scale * unit.denominator / unit.numerator);
    n = std::isfinite(n) ? std::min(n, any_distance) : any_distance;
    while (!fits(n))
        n -= 1;
    while (fits(n + 1))
        n += 1;
    return n;
}

double floor_to_float32(double value) {
    const auto rounded = static_cast<float>(value);
    if (static_cast<double>(rounded) <= value)
        return std::min<double>(rounded, std::numeric_limits<float>::max());
    return std::nextafter(rounded, -std::numeric_limits<float>::infinity());
}

// The exact cost of all moves together.
Dyadic total_cost(const ExactCosts& costs, int norm, std::span<const std::int32_t> features,
                  const double* x, const double* z) {
    Dyadic total;
    for (const auto feature : features) {
        const Dyadic cost = costs.of(feature, x[feature], z[feature]);
        total = norm == norm_inf ? std::max(total, cost) : total + cost;
    }
    return total;
}

} // namespace

bool Attacker::affords(std::span<const std::int32_t> features, const double* x,
                       const double* z) const {
    const ExactCosts costs(*this, features);
    return total_cost(costs, norm, features, x, z) <= costs.of_budget(budget);
}

double Attacker::distance(std::span<const std::int32_t> features, const double* x,
                          const double* z) const {
    const ExactCosts costs(*this, features);
    return costs.smallest_budget(total_cost(costs, norm, features, x, z));
}

Instance::Instance(const Ensemble& ensemble, const Attacker& attacker)
    : ensemble_(ensemble), attacker_(attacker), x_(static_cast<std::size_t>(ensemble.n_features)),
      routed_(x_), limits_(x_.size()), known_(x_.size(), 0) {
    for (const std::size_t size :
         {attacker.scale.size(), attacker.scale_up.size(), attacker.changeable.size(),
          attacker.lower.size(), attacker.upper.size(), attacker.step_numerator.size(),
          attacker.step_denominator.size(),
          attacker.states.empty() ? 0 : attacker.states.starts.size() - 1})
        if (size != 0 && size != x_.size())
            throw std::invalid_argument("the attacker is for another number of features");
    const double wide = 1 + 8 * unit_roundoff; // covers the rounding of products and distances
    const auto still = [&](std::int32_t feature) {
        return !attacker.may_change(feature) || attacker.budget == 0;
    };
    const auto span = [&](std::int32_t feature) {
        if (still(feature))
            return ensemble.float32_inputs ? infinity : 0.0; // limits() knows
        const double larger =
            std::max(attacker.scale_of(feature, false), attacker.scale_of(feature, true));
        return attacker.norm == 0 ? infinity : attacker.budget * larger * wide;
    };
    const auto sure = [&](std::int32_t feature) {
        const double smaller =
            std::min(attacker.scale_of(feature, false), attacker.scale_of(feature, true));
        if (still(feature) || !(smaller > 0) || !attacker.lower.empty())
            return -1.0;
        if (attacker.norm == 0)
            return largest;
        const double reach = attacker.budget * smaller; // not where subnormal numbers are near
        return reach > 1e-280 ? std::min(reach, largest) * (1 - 8 * unit_roundoff) : -1.0;
    };
    if (attacker.scale.empty() && attacker.scale_up.empty() && attacker.changeable.empty() &&
        ensemble.grid.empty()) {
        span_ = span(0);
        sure_ = sure(0);
        return;
    }
    for (std::int32_t feature = 0; feature < ensemble.n_features; ++feature) {
        const Grid grid = ensemble.grid_of(feature);
        spans_.push_back(grid == Grid::real ? span(feature) : infinity);
        sures_.push_back(grid == Grid::real ? sure(feature) : -1);
        const auto f = static_cast<std::size_t>(feature);
        if (grid == Grid::whole) {
            steps_.resize(x_.size(), {0, 0});
            const auto reach = [&](bool up) {
                const Unit unit = attacker.unit_of(feature, up);
                if (still(feature) || unit.scale == 0)
                    return 0.0;
                return attacker.norm == 0 ? any_distance : steps_within(attacker.budget, unit);
            };
            steps_[f] = {-reach(false), reach(true)};
            spans_.back() = std::max(-steps_[f].low, steps_[f].high);
        } else if (grid == Grid::finite && !still(feature) &&
                   !attacker.states_of(feature).empty()) {
            can_switch_.resize(x_.size(), 0);
            const Unit unit = attacker.unit_of(feature, true);
            can_switch_[f] = attacker.norm == 0 ? attacker.budget >= 1
                                                : steps_within(attacker.budget, unit) >= 1;
        }
    }
}

void Instance::load(const double* row, const RowBounds& bounds) {
    x = row;
    bounds_ = bounds;
    finish_load();
}

void Instance::load(const float* row, const RowBounds& bounds) {
    std::copy_n(row, x_.size(), x_.begin());
    x = x_.data();
    bounds_ = bounds;
    finish_load();
}

void Instance::load(const Instance& other) {
    ++row_;
    x = other.x;
    routed = other.routed;
    has_missing = other.has_missing;
    bounds_ = other.bounds_;
    row_states_ = other.row_states_;
}

void Instance::find_states() {
    row_states_ = attacker_.states;
    for (std::size_t f = 0; f < x_.size(); ++f) {
        const auto begin = attacker_.column_starts[f];
        for (std::int32_t i = begin; i < attacker_.column_starts[f + 1]; ++i) {
            const auto state = static_cast<std::size_t>(i - begin);
            const auto column = attacker_.state_columns[static_cast<std::size_t>(i)];
            const auto word = static_cast<std::size_t>(row_states_.starts[f]) + state / 64;
            // States that are open to no row may have no word: the next one is another feature's.
            if (!(bounds_.upper[column] > 0) && state / 64 < row_states_[f].size())
                row_states_.words[word] &= ~(std::uint64_t{1} << (state % 64));
        }
    }
}

void Instance::finish_load() {
    ++row_;
    if (bounds_.lower != nullptr && !attacker_.column_starts.empty())
        find_states();
    const std::size_t n = x_.size();
    int missing = 0;
    for (std::size_t f = 0; f < n; ++f)
        missing |= static_cast<int>(x[f] != x[f]);
    has_missing = missing != 0;
    routed = x;
    if (ensemble_.float32_inputs) {
        for (std::size_t f = 0; f < n; ++f)
            routed_[f] = static_cast<float>(x[f]);
        for (std::size_t f = 0; f < ensemble_.grid.size(); ++f)
            if (ensemble_.grid[f] != Grid::real)
                routed_[f] = x[f];
        routed = routed_.data();
    }
}

void Instance::find_limits(std::int32_t feature) {
    const auto f = static_cast<std::size_t>(feature);
    known_[f] = row_;
    const Grid grid = ensemble_.grid_of(feature);
    const bool still = x[f] != x[f] || !attacker_.may_change(feature) || attacker_.budget == 0;
    Limits& limit = limits_[f];
    limit = {routed[f], routed[f]};
    if (still || grid == Grid::finite)
        return;
    limit = grid == Grid::whole ? whole_limits(feature) : real_limits(feature);
    const double* const lower = bounds_.lower != nullptr ? bounds_.lower : attacker_.lower.data();
    const double* const upper = bounds_.lower != nullptr ? bounds_.upper : attacker_.upper.data();
    if (bounds_.lower != nullptr || !attacker_.lower.empty()) {
        limit.low = std::max(limit.low, lower[f]);
        limit.high = std::min(limit.high, upper[f]);
    }
    if (grid == Grid::real && ensemble_.float32_inputs)
        limit = {-floor_to_float32(-limit.low), floor_to_float32(limit.high)};
    // An unchanged feature is always allowed, wherever rounding to the grid has put it.
    limit.low = std::min(limit.low, routed[f]);
    limit.high = std::max(limit.high, routed[f]);
}

Limits Instance::real_limits(std::int32_t feature) const {
    const double value = x[static_cast<std::size_t>(feature)];
    const double down = attacker_.scale_of(feature, false);
    const double up = attacker_.scale_of(feature, true);
    if (attacker_.norm == 0)
        return {down > 0 ? -largest : value, up > 0 ? largest : value};
    const auto reach = [&](double from, double scale) {
        const double high = attacker_.budget * scale;
        return floor_sum(from, high, std::fma(attacker_.budget, scale, -high));
    };
    return {-reach(-value, down), reach(value, up)};
}

Limits Instance::whole_limits(std::int32_t feature) const {
    const auto f = static_cast<std::size_t>(feature);
    const double most = std::floor(
        most_steps / (attacker_.step_numerator.empty() ? 1 : attacker_.step_numerator[f]));
    return {std::max(x[f] + steps_[f].low, -most), std::min(x[f] + steps_[f].high, most)};
}

bool Instance::allows(std::int32_t feature, double value) {
    if (ensemble_.grid_of(feature) != Grid::finite) {
        const Limits& limit = limits(feature);
        return limit.low <= value && value <= limit.high;
    }
    const auto f = static_cast<std::size_t>(feature);
    const StateSets& states = row_states_.empty() ? attacker_.states : row_states_;
    return value == x[f] || (may_switch(feature) && states.holds(f, value));
}

ExactCosts::ExactCosts(const Attacker& attacker, std::span<const std::int32_t> features)
    : attacker_(attacker), product_(Dyadic::integer(1)) {
    if (attacker.norm == 0)
        return;
    for (const auto feature : features)
        for (const bool up : {false, true})
            if (const Unit unit = attacker.unit_of(feature, up); unit.scale > 0)
                units_.push_back(unit);
    std::ranges::sort(units_);
    units_.erase(std::ranges::unique(units_).begin(), units_.end());
    const int power = attacker.norm == norm_inf ? 1 : attacker.norm;
    const auto divisor = [&](const Unit& unit) {
        return (Dyadic::magnitude(unit.scale) * Dyadic::magnitude(unit.denominator)).power(power);
    };
    // cofactors_[i] = product of the divisors before i, times the product of those after it.
    for (const Unit& unit : units_) {
        cofactors_.push_back(product_ * Dyadic::magnitude(unit.numerator).power(power));
        product_ = product_ * divisor(unit);
    }
    Dyadic after = Dyadic::integer(1);
    for (std::size_t i = units_.size(); i-- > 0;) {
        cofactors_[i] = cofactors_[i] * after;
        after = after * divisor(units_[i]);
    }
}

Dyadic ExactCosts::of(int feature, double x, double z) const {
    if (x == z || attacker_.norm == 0)
        return Dyadic::integer(x == z ? 0 : 1);
    const auto index = static_cast<std::size_t>(
        std::ranges::lower_bound(units_, attacker_.unit_of(feature, z > x)) - units_.begin());
    const int power = attacker_.norm == norm_inf ? 1 : attacker_.norm;
    const Dyadic distance =
        attacker_.states_of(feature).empty() ? Dyadic::distance(x, z) : Dyadic::integer(1);
    return distance.power(power) * cofactors_[index];
}

Dyadic ExactCosts::of_budget(double budget) const {
    const int power = attacker_.norm == norm_inf || attacker_.norm == 0 ? 1 : attacker_.norm;
    return Dyadic::magnitude(budget).power(power) * product_;
}

double ExactCosts::smallest_budget(const Dyadic& cost) const {
    if (cost.is_zero())
        return 0;
    // The rounded p-th root of cost / product, then a few steps to the exact answer.
    const int power = attacker_.norm == norm_inf || attacker_.norm == 0 ? 1 : attacker_.norm;
    int cost_exponent = 0;
    int product_exponent = 0;
    const double ratio = cost.fraction(cost_exponent) / product_.fraction(product_exponent);
    const int exponent = cost_exponent - product_exponent;
    const int rest = exponent % power;
    const double root = std::pow(std::ldexp(ratio, rest), 1.0 / power);
    double budget = std::clamp(std::ldexp(root, (exponent - rest) / power), 0.0, largest);
    while (budget < largest && of_budget(budget) < cost)
        budget = std::nextafter(budget, infinity);
    while (cost <= of_budget(std::nextafter(budget, 0)))
        budget = std::nextafter(budget, 0);
    return budget;
}

} // namespace carve
