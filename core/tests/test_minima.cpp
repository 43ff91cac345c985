// The least of a run is the least of its numbers.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "search/minima.hpp"
#include "tests/check.hpp"
#include "tests/random.hpp"

using namespace carve;
using tests::Random;

TEST(the_least_of_every_run_is_among_its_numbers) {
    Random random(72);
    Minima minima;
    for (const std::int32_t count : {1, 2, 15, 16, 17, 32, 33, 100, 5, 259}) {
        std::vector<std::int64_t> numbers;
        for (std::int32_t i = 0; i < count; ++i)
            numbers.push_back(random.between(-1000, 1000));
        minima.build(numbers.data(), count);
        for (std::int32_t first = 0; first < count; ++first)
            for (std::int32_t last = first; last < count; ++last)
                CHECK(minima.least(first, last) ==
                      *std::min_element(numbers.begin() + first, numbers.begin() + last + 1));
    }
}
