// Exact numbers against whole numbers by schoolbook.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "numbers/exact.hpp"
#include "numbers/multiples.hpp"
#include "tests/big.hpp"
#include "tests/check.hpp"
#include "tests/random.hpp"

using carve::Dyadic;
using carve::ExactSum;
using carve::LongSum;
using carve::Multiples;
using carve::Natural;
using carve::Wide;
using carve::tests::Big;
using carve::tests::nearest_double;
using carve::tests::Random;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();
constexpr double smallest = std::numeric_limits<double>::denorm_min();

Big random_big(Random& random, int most_limbs) {
    Big number;
    for (int limbs = random.below(most_limbs + 1); limbs > 0; --limbs)
        number = number.times_two_to(64) + Big::of_unsigned(random.limb());
    return number;
}

Natural natural(const Big& number) { return Natural(number.half_limbs()); }

// Is the number in units of 2^-1074 this one?
bool is(const Dyadic& number, const Big& units) {
    return number.is_zero()
               ? units.sign() == 0
               : number.with_exponent(std::min(number.exponent(), -1074)).mantissa() ==
                     natural(units.times_two_to(-1074 - std::min(number.exponent(), -1074)));
}

} // namespace

TEST(naturals_add_subtract_multiply_and_compare) {
    Random random(3);
    for (int i = 0; i < 4000; ++i) {
        const Big a = random_big(random, 12); // within and beyond what is kept in place
        const Big b = random_big(random, 12);
        CHECK(natural(a) + natural(b) == natural(a + b));
        CHECK(natural(a) * natural(b) == natural(a * b));
        CHECK((natural(a) < natural(b)) == (a < b));
        CHECK((natural(a) == natural(b)) == (a == b));
        if (b <= a)
            CHECK(natural(a) - natural(b) == natural(a - b));
        const int bits = random.below(300);
        CHECK(natural(a).shifted_left(bits) == natural(a.times_two_to(bits)));
    }
}

TEST(naturals_tell_their_bits) {
    Random random(4);
    for (int i = 0; i < 4000; ++i) {
        const Big a = random_big(random, 9);
        const Natural n = natural(a);
        CHECK(n.bit_length() == a.bit_length() && n.is_zero() == (a.sign() == 0));
        for (int place = 0; place < 128; ++place)
            CHECK((static_cast<std::uint64_t>(n.low_bits() >> place) & 1) ==
                  (a.bit(place) ? 1u : 0u));
        bool sticky = false;
        const std::uint64_t top = n.top_bits(sticky);
        bool rest = false;
        for (int place = 0; place < a.bit_length() - 64; ++place)
            rest = rest || a.bit(place);
        CHECK(sticky == rest);
        for (int place = 0; place < 64 && a.sign() != 0; ++place) {
            const int from = a.bit_length() - 64 + place;
            CHECK((top >> place & 1) == (from >= 0 && a.bit(from) ? 1u : 0u));
        }
    }
}

TEST(a_natural_of_more_than_a_billion_bits_throws) {
    const Natural one(1);
    CHECK(one.shifted_left(1000).bit_length() == 1001);
    CHECK_THROWS(std::length_error, one.shifted_left(std::numeric_limits<int>::max()));
}

TEST(dyadics_are_what_doubles_are) {
    Random random(5);
    for (int i = 0; i < 3000; ++i) {
        const double a = random.any_double();
        const double b = random.chance(0.3) ? a * (1 + random.real()) : random.any_double();
        const Big units = Big::of_double(a);
        CHECK(is(Dyadic::magnitude(a), units.magnitude()));
        CHECK(Dyadic::magnitude(a).to_double() == std::fabs(a));
        if (!std::isfinite(b))
            continue;
        const Big other = Big::of_double(b);
        CHECK(is(Dyadic::distance(a, b), (units - other).magnitude()));
        const Dyadic m = Dyadic::magnitude(a);
        const Dyadic n = Dyadic::magnitude(b);
        CHECK(is(m + n, units.magnitude() + other.magnitude()));
        CHECK((m < n) == (std::fabs(a) < std::fabs(b)) &&
              (m == n) == (std::fabs(a) == std::fabs(b)));
        if (n <= m)
            CHECK(is(m - n, units.magnitude() - other.magnitude()));
        // A product is one of 2^-1074 and 2^-1074: compare it with doubles, which are smaller
        // units.
        const Dyadic product = m * n;
        const Big exact = (units * other).magnitude();
        const double third = random.any_double();
        CHECK((product < Dyadic::magnitude(third)) ==
              (exact < Big::of_double(third).magnitude().times_two_to(1074)));
        CHECK(m.power(3) == m * m * m && m.power(0) == Dyadic::integer(1));
    }
}

TEST(dyadics_round_to_the_nearest_double_and_ties_to_even) {
    Random random(6);
    // Below, at and above the middle of two doubles, by as little as one part in 2^51.
    for (int i = 0; i < 1500; ++i) {
        const double a = std::fabs(random.any_double());
        const double above = carve::next_up(a);
        const Dyadic gap = Dyadic::magnitude(a < largest ? above - a : 0x1p971);
        const int off = random.between(-1, 1);
        Dyadic half = gap * Dyadic::magnitude(0.5);
        if (off != 0)
            half = half * Dyadic::magnitude(1 + off * 0x1p-51);
        const bool is_odd = std::bit_cast<std::uint64_t>(a) % 2 == 1;
        const double expected = off > 0 || (off == 0 && is_odd) ? above : a;
        CHECK((Dyadic::magnitude(a) + half).to_double() == expected);
    }
    const auto times_smallest = [](double factor) {
        return (Dyadic::magnitude(smallest) * Dyadic::magnitude(factor)).to_double();
    };
    CHECK(times_smallest(0.25) == 0 && times_smallest(0.5) == 0);
    CHECK(times_smallest(0.75) == smallest && times_smallest(1.5) == 2 * smallest);
    CHECK((Dyadic::magnitude(largest) + Dyadic::magnitude(largest)).to_double() == infinity);
    CHECK(Dyadic().to_double() == 0);
}

TEST(an_exact_sum_is_the_sum_of_big_numbers) {
    Random random(7);
    for (int i = 0; i < 1500; ++i) {
        ExactSum sum;
        Big truth;
        std::vector<double> terms;
        for (int n = random.below(12); n > 0; --n)
            // some cancel what is there, wholly or almost
            terms.push_back(terms.empty() || random.chance(0.7)
                                ? random.any_double()
                                : -terms[static_cast<std::size_t>(
                                      random.below(static_cast<int>(terms.size())))]);
        for (const double term : terms) {
            const bool take = random.chance(0.5);
            take ? sum.subtract(term) : sum.add(term);
            truth = take ? truth - Big::of_double(term) : truth + Big::of_double(term);
        }
        CHECK(sum.sign() == truth.sign());
        CHECK(is(sum.magnitude(), truth.magnitude()));
        CHECK(sum.to_double() == nearest_double(truth));
        CHECK(sum.sign() == 0 || std::signbit(sum.to_double()) == (sum.sign() < 0));
    }
}

TEST(the_difference_of_exact_sums_is_exact) {
    Random random(8);
    for (int i = 0; i < 300; ++i) {
        ExactSum a;
        ExactSum b;
        Big truth;
        for (int n = random.below(6); n > 0; --n) {
            const double term = random.any_double();
            const bool left = random.chance(0.5);
            (left ? a : b).add(term);
            truth = left ? truth + Big::of_double(term) : truth - Big::of_double(term);
        }
        a.subtract(b);
        CHECK(a.sign() == truth.sign() && is(a.magnitude(), truth.magnitude()));
    }
}

// As many summands as limbs cannot take without carrying: 2^40, by doubling.
TEST(an_exact_sum_may_have_more_summands_than_its_limbs_have_room_for) {
    for (const double start : {largest, -largest, 1.0, -smallest}) {
        ExactSum sum;
        sum.add(start);
        Big truth = Big::of_double(start);
        for (int i = 0; i < 40; ++i) {
            ExactSum negative;
            negative.subtract(sum);
            sum.subtract(negative);
            truth = truth + truth;
            CHECK(sum.sign() == truth.sign() && is(sum.magnitude(), truth.magnitude()));
        }
        sum.add(-start);
        CHECK(is(sum.magnitude(), (truth - Big::of_double(start)).magnitude()));
    }
}

TEST(next_up_and_next_down_are_neighbours) {
    Random random(9);
    for (int i = 0; i < 20'000; ++i) {
        const double a = random.any_double();
        CHECK(carve::next_up(a) == std::nextafter(a, infinity));
        CHECK(carve::next_down(a) == std::nextafter(a, -infinity));
    }
    CHECK(carve::next_up(0.0) == smallest && carve::next_down(-0.0) == -smallest);
    CHECK(carve::next_up(-smallest) == 0 && carve::next_up(largest) == infinity);
}

TEST(two_sum_loses_nothing) {
    Random random(10);
    for (int i = 0; i < 3000; ++i) {
        const double a = random.any_double();
        const double b =
            random.chance(0.3) ? -a * (1 + random.real() * 0x1p-40) : random.any_double();
        const auto [sum, error] = carve::two_sum(a, b);
        if (std::isfinite(sum))
            CHECK(Big::of_double(a) + Big::of_double(b) ==
                  Big::of_double(sum) + Big::of_double(error));
    }
}

TEST(a_long_sum_is_as_close_as_it_says) {
    Random random(11);
    for (int i = 0; i < 500; ++i) {
        LongSum sum;
        Big truth;
        double size = 0;
        const int n = random.between(1, 60);
        const int range = random.pick({0, 10, 60, 200});
        for (int k = 0; k < n; ++k) {
            const double sign = random.chance(0.5) ? 1 : -1;
            double term = sign * std::ldexp(1 + random.real(), random.between(-range, range));
            if (random.chance(0.2)) // whole numbers add up without rounding
                term = sign * random.below(100);
            sum.add(term);
            truth = truth + Big::of_double(term);
            size += std::fabs(term);
        }
        const Big found = Big::of_double(sum.high()) + Big::of_double(sum.low());
        const double share = (n * carve::unit_roundoff) * (n * carve::unit_roundoff);
        CHECK((found - truth).magnitude() <= Big::of_double(share * size * (1 + 0x1p-40)));
        if (sum.is_exact())
            CHECK(found == truth && sum.low() == 0);
    }
}

TEST(an_enclosure_is_tight) {
    Random random(12);
    for (int i = 0; i < 2000; ++i) {
        ExactSum number;
        number.add(random.any_double());
        if (random.chance(0.7))
            number.add(random.any_double());
        const double guess = number.to_double();
        if (!std::isfinite(guess) || std::fabs(guess) > 0.9 * largest)
            continue;
        const auto compare = [&](double q) {
            ExactSum difference = number;
            difference.subtract(q);
            return difference.sign();
        };
        const double start = guess * (1 + random.between(-3, 3) * 0x1p-52); // near is enough
        const auto [lower, upper] = carve::enclose(start, compare);
        CHECK(compare(lower) >= 0 && compare(upper) <= 0);
        CHECK(compare(lower) == 0 ? lower == upper : upper == carve::next_up(lower));
    }
}

TEST(multiples_of_one_power_of_two_add_up_as_the_doubles_do) {
    Random random(9);
    int fit = 0;
    for (int i = 0; i < 4000; ++i) {
        const int size = random.between(1, 12);
        const int spread = random.pick({0, 40, 70, 200});
        const double scale = random.pick({1.0, 0x1p900, 0x1p-900, smallest});
        std::vector<double> values;
        for (int v = 0; v < size; ++v)
            values.push_back((random.real() - 0.5) * scale *
                             std::ldexp(1.0, -random.below(spread + 1)));
        const auto any = [&] { return values[static_cast<std::size_t>(random.below(size))]; };
        const Multiples multiples(values, values.size());
        if (!multiples.fits())
            continue;
        ++fit;
        ExactSum first;
        ExactSum second;
        Wide whole_first = 0;
        Wide whole_second = 0;
        for (int summands = random.between(1, size); summands > 0; --summands) {
            const double a = any();
            const double b = any();
            first.add(a);
            second.add(b);
            whole_first += multiples.of(a);
            whole_second += multiples.of(b);
        }
        ExactSum difference = first;
        difference.subtract(second);
        const Wide whole = whole_first - whole_second;
        const bool is_negative = (static_cast<std::uint64_t>(whole >> 127) & 1) != 0;
        CHECK(difference.sign() == (whole == Wide{0} ? 0 : is_negative ? -1 : 1));
    }
    CHECK(fit > 1500 && fit < 4000);
}

TEST(multiples_do_not_fit_where_the_least_bit_is_too_far_from_the_first) {
    CHECK(Multiples(std::vector{1.0, 0x1p-100}, 100).fits());
    CHECK(!Multiples(std::vector{1.0, 0x1p-125}, 100).fits());
    CHECK(!Multiples(std::vector{largest, smallest}, 1).fits());
    CHECK(Multiples(std::vector{0.0, -0.0}, 1).fits());
    CHECK(Multiples(std::vector{0.0}, 1).of(-0.0) == Wide{0});
}
