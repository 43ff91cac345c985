// Two limbs are the 128-bit number that compilers have, where they have one.
#include <cstdint>

#include "numbers/wide.hpp"
#include "tests/big.hpp"
#include "tests/check.hpp"
#include "tests/random.hpp"

using carve::TwoLimbs;
using carve::tests::Big;
using carve::tests::Random;

namespace {

constexpr std::uint64_t ones = ~std::uint64_t{0};

// It computes at compile time, too.
static_assert(TwoLimbs{ones} * TwoLimbs{ones} ==
              (TwoLimbs{ones - 1} << 64) + TwoLimbs{1}); // (2^64 - 1)^2
static_assert(((TwoLimbs{1} << 127) >> 127) == TwoLimbs{1});
static_assert((TwoLimbs{1} << 64) > TwoLimbs{ones} && TwoLimbs{} - TwoLimbs{1} > TwoLimbs{ones});

TwoLimbs two_limbs(std::uint64_t high, std::uint64_t low) {
    return TwoLimbs{high} << 64 | TwoLimbs{low};
}

Big big(TwoLimbs number) {
    return Big::of_unsigned(static_cast<std::uint64_t>(number >> 64)).times_two_to(64) +
           Big::of_unsigned(static_cast<std::uint64_t>(number));
}

} // namespace

TEST(two_limbs_add_subtract_and_multiply_as_big_numbers_do) {
    Random random(1);
    const Big end = Big(1).times_two_to(128);
    for (int i = 0; i < 3000; ++i) {
        const TwoLimbs a = two_limbs(random.limb(), random.limb());
        const TwoLimbs b = two_limbs(random.limb(), random.limb());
        CHECK((a < b) == (big(a) < big(b)) && (a == b) == (big(a) == big(b)));
        const Big sum = big(a) + big(b);
        CHECK(big(a + b) == (sum < end ? sum : sum - end));
        CHECK(big(a - b) == (b <= a ? big(a) - big(b) : big(a) - big(b) + end));
        const TwoLimbs low{static_cast<std::uint64_t>(a)};
        const TwoLimbs factor{static_cast<std::uint64_t>(b)};
        CHECK(big(low * factor) == big(low) * big(factor));
    }
}

#ifdef __SIZEOF_INT128__
TEST(two_limbs_do_what_the_compilers_own_number_does) {
    __extension__ using Own = unsigned __int128;
    const auto own = [](TwoLimbs number) {
        return Own{static_cast<std::uint64_t>(number >> 64)} << 64 |
               static_cast<std::uint64_t>(number);
    };
    Random random(2);
    for (int i = 0; i < 100'000; ++i) {
        const TwoLimbs a = two_limbs(random.limb(), random.limb());
        const TwoLimbs b = two_limbs(random.limb(), random.limb());
        const int bits = random.below(128);
        CHECK(own(a + b) == own(a) + own(b));
        CHECK(own(a - b) == own(a) - own(b));
        CHECK(own(a * b) == own(a) * own(b));
        CHECK(own(a | b) == (own(a) | own(b)));
        CHECK(own(a << bits) == own(a) << bits);
        CHECK(own(a >> bits) == own(a) >> bits);
        CHECK((a < b) == (own(a) < own(b)) && (a <= b) == (own(a) <= own(b)));
        CHECK((a == b) == (own(a) == own(b)));
        CHECK(static_cast<std::uint64_t>(a) == static_cast<std::uint64_t>(own(a)));
        TwoLimbs c = a;
        c += b;
        c >>= bits;
        CHECK(own(c) == (own(a) + own(b)) >> bits);
    }
}
#endif
