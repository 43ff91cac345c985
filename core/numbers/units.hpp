// Every bit budget of the whole numbers: how large each may get, and why it cannot get larger.
//
// Comes in: sizes that are known at run time (features, rows). Goes out: how fine a unit may be so
// that nothing leaves its 64 (or 128) bits, and the limits that the code keeps. The reasoning is
// written as inequalities; the compiler checks those between constants.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace carve::units {

constexpr std::int64_t two_to(int bits) { return std::int64_t{1} << bits; }

// ── places in arrays ────────────────────────────────────────────────────────────────────────────
//
// Trees, features, nodes, leaves and whatever is made of them are numbered by std::int32_t. What is
// at most one per node of an ensemble fits as its nodes do; for the rest there are limits, and
// `index` where a size is known at run time only: it throws where the place cannot be numbered.

inline constexpr std::int64_t most_places = two_to(31);

inline std::int32_t index(std::size_t place) {
    if (place >= static_cast<std::size_t>(most_places))
        throw std::length_error("more than 2^31 entries in one block; use fewer rows or trees");
    return static_cast<std::int32_t>(place);
}

// ── exact sums (ExactSum) ───────────────────────────────────────────────────────────────────────
//
// A finite double is a whole multiple of 2^-1074 below 2^1024. It is added to limbs of 32 bits that
// have 64, no more than 2^32 - 1 to each; after most_summands of them the limbs are carried up.

inline constexpr int lowest_exponent = -1074;
inline constexpr int limb_bits = 32;
inline constexpr int limb_count = 69;
inline constexpr std::int64_t most_summands = two_to(29);

// The difference of two sums is within 64 bits: 2 most_summands (2^32 - 1) + a carry < 2^63.
static_assert(2 * most_summands <=
              (std::numeric_limits<std::int64_t>::max() - two_to(32)) / (two_to(limb_bits) - 1));
// Above the largest double there are bits enough for 2^64 summands and a sign.
static_assert(limb_bits * limb_count >= 1024 - lowest_exponent + 64 + 1);
// A mantissa of 53 bits, up to 31 bits up, touches three limbs, all of which exist.
static_assert(53 + limb_bits - 1 <= 3 * limb_bits);
static_assert((1024 - 53 - lowest_exponent) / limb_bits + 2 < limb_count);

// ── exact numbers m * 2^e (Natural, Dyadic) ─────────────────────────────────────────────────────
//
// m has at most 2^30 bits (128 MB) and |e| < 2^30, so that lengths, places and shifts are ints. The
// product of n doubles has |e| <= 1127 n: the cost of norm 100 in units of 9,500 different scales
// fits. What does not fit throws; memory ends long before.

inline constexpr std::int64_t most_bits = two_to(30);
inline constexpr std::int64_t most_exponent = two_to(30) - 1;
static_assert(std::int64_t{53 - lowest_exponent} * 100 * 9'500 < most_exponent);
static_assert(most_bits + most_exponent <= std::numeric_limits<int>::max());
static_assert(2 * most_exponent <= std::numeric_limits<int>::max());

inline int exponent(std::int64_t wanted) {
    if (wanted > most_exponent || wanted < -most_exponent)
        throw std::overflow_error("an exact number has too many factors; use fewer scales");
    return static_cast<int>(wanted);
}

// ── the knapsack's whole numbers (Wide) ─────────────────────────────────────────────────────────
//
// If all costs in play add up to less than 2^127, so does every choice of them, and the sum of two
// such numbers is within 128 bits; the same for gains. What does not fit goes through Dyadic.

inline constexpr int wide_bits = 127;

// Fine costs need not add up to so little. With units of 2^-110 of the budget's leading power of
// two, to the p-th power, p <= 2, the budget's own cost is below 2^112. An option, and a move of
// one, costs no more than the budget, rounding aside: below 2^113. What is in every choice that is
// worth a look is part of one within the budget. So a program adds an option to what is within the
// budget, and no more. Gains are differences of scores, whose sums Multiples fits into wide_bits.

inline constexpr int fine_cost_bits = 110;
static_assert(fine_cost_bits + 4 < wide_bits);

// States are numbered, and limited by memory.
inline constexpr std::size_t most_state_bytes = std::size_t{1} << 28;
template <class State> inline constexpr std::size_t most_states = most_state_bytes / sizeof(State);
static_assert(most_state_bytes < static_cast<std::size_t>(most_places));

// ── the search's bounds ─────────────────────────────────────────────────────────────────────────
//
// With F features in use, F < 2^w, values are counted in units such that the sizes of all trees'
// values, and of base and threshold, add up to V < 2^(56 - w), rounding aside. Then:
//
//   values        sum over trees of max |value|            <  2^56          =: values
//   spread        of a tree: largest less smallest value   <= 2 max |value|
//   multipliers   |theta| <= 4 spread of its tree, at most F of them to a tree:
//                 sum over trees and features of |theta|   <= F 4 (2 V)  <  2^59
//                 (where the search turns to another mean of rivals, they are those of the last
//                 one: V counts the scores of all outputs, and bounds every mean's values)
//   need          what a tree loses by a cell              <= 2 spread
//   constant      of the objective, checked at run time    <  3 * 2^57; values of trees that have
//                 one leaf left may be part of it, and are then none of the values above
//   price         lambda capacity                          <= 2^59, and lambda <= 2^54; what
//                 is committed costs no more than the capacity and two slacks, < 17/16 of it
//
// Rounding down takes up to two units from each value, three from a mean's, of which there are
// fewer than 2^31, as there are slots; and V is a rounded sum, off by at most 2^-20 of itself. What
// a cell costs a feature and its trees is shared out: all shares of it add up to no more. Every
// bound is one objective's constant, less the price of the capacity, plus per tree a value and
// multipliers, plus per feature the price of a cell less multipliers:
//
//   |bound| <= constant + values + 2 multipliers + 17/16 price < never.

inline constexpr int value_bits = 56;
inline constexpr int most_multiplier = 4; // spreads
inline constexpr int most_need = 2;       // spreads
inline constexpr std::int64_t most_values =
    two_to(value_bits) + two_to(value_bits - 20) + 3 * most_places;
inline constexpr std::int64_t most_multipliers =
    2 * most_multiplier * (two_to(value_bits) + two_to(value_bits - 20) + 2 * most_places);
inline constexpr std::int64_t most_constant = 3 * two_to(57);
inline constexpr std::int64_t most_price = two_to(59);
inline constexpr std::int64_t most_lambda = two_to(54);
inline constexpr std::int64_t most_bound =
    most_constant + most_values + 2 * most_multipliers + most_price / 16 * 17;

inline constexpr std::int64_t unbounded = two_to(60); // more than the total of any attack
inline constexpr std::int64_t never = two_to(61);     // more than any bound

static_assert(most_constant + most_values < unbounded);
static_assert(unbounded < never && most_bound < never);
// A leaf's energy: its value and, per feature, the difference of two multipliers.
static_assert(most_values + 2 * most_multipliers < never);
// What a cell costs a feature and all its trees: a price, and needs.
static_assert(most_price + most_need * 2 * most_values < never);
// The difference of two such numbers, a doubt of a few units per tree aside, is within 64 bits.
static_assert(never + most_bound < std::numeric_limits<std::int64_t>::max() - 16 * most_places);
// Doubles that are cast to whole numbers are within them.
static_assert(static_cast<double>(most_price) < 0x1p62 && static_cast<double>(never) < 0x1p62);

// Bits for the sum of the sizes of all trees' values.
constexpr int bits_of_values(std::size_t features) { return value_bits - std::bit_width(features); }
// As every feature has a place, there are always some left.
static_assert(bits_of_values(static_cast<std::size_t>(most_places) - 1) >= 25);

// More than this many demands of leaves (some 100 MB per million, with all that is made of them)
// are not worth searching; entries, users, ranges and slots are no more, and segments no more than
// three times as many.
inline constexpr std::size_t most_demands = 12'000'000;
static_assert(3 * most_demands < static_cast<std::size_t>(most_places));
// Nor more than this many words of states that leaves ask for (8 MB per million): a feature of a
// million states takes 15,626 of them for every demand.
inline constexpr std::size_t most_mask_words = std::size_t{1} << 25;

// ── slopes of the refit's loss ──────────────────────────────────────────────────────────────────
//
// A row pulls at a score with a force of at most 1, counted in units of at least 2^-40. It may be
// made up of several, one per rival class, each rounded: the forces of n rows add up to at most
// n (1 / unit + rivals) < 2^63, for up to 2^16 rivals.

constexpr double slope_unit(std::int64_t rows) {
    double unit = 0x1p-40;
    for (int bits = std::bit_width(static_cast<std::uint64_t>(rows)); bits > 23; --bits)
        unit *= 2;
    return unit;
}
static_assert((two_to(23) - 1) <=
              std::numeric_limits<std::int64_t>::max() / (two_to(40) + two_to(16)));
static_assert(slope_unit(two_to(23) - 1) == 0x1p-40 && slope_unit(two_to(23)) == 0x1p-39);

} // namespace carve::units
