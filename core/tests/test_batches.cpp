// The functions over many rows, with several threads and with one: the same answers. What threads
// share is for the thread sanitizer to judge.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "tests/check.hpp"
#include "tests/problems.hpp"
#include "training/worst_cases.hpp"
#include "verdict/range_rows.hpp"
#include "verdict/rows.hpp"
#include "verdict/search_rows.hpp"

using namespace carve;
using tests::Random;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int count = 300;

struct Batch {
    Ensemble ensemble;
    Attacker attacker;
    std::vector<double> values;
    std::vector<std::int32_t> label;

    Batch(Random& random, const tests::Shape& shape, int norm)
        : ensemble(tests::random_ensemble(random, shape)),
          attacker(tests::random_attacker(random, ensemble, norm)),
          values(tests::random_rows(random, ensemble, count)) {
        for (int row = 0; row < count; ++row)
            label.push_back(random.below(std::max(2, shape.outputs)));
    }
    Rows rows() const { return {values.data(), false, count, ensemble.n_features}; }
};

bool go_on(std::int64_t) { return true; }

// Everything that was answered, as one array of numbers.
struct Answers {
    std::vector<double> numbers;
    template <class T> void add(const std::vector<T>& column) {
        numbers.insert(numbers.end(), column.begin(), column.end());
    }
    // NaN is NaN.
    friend bool operator==(const Answers& a, const Answers& b) {
        return a.numbers.size() == b.numbers.size() &&
               std::memcmp(a.numbers.data(), b.numbers.data(), 8 * a.numbers.size()) == 0;
    }
};

// Columns of one answer per row.
struct Columns {
    std::vector<std::uint8_t> status = std::vector<std::uint8_t>(count);
    std::vector<std::uint8_t> engine = std::vector<std::uint8_t>(count);
    std::unique_ptr<bool[]> right = std::make_unique<bool[]>(count);
    std::vector<double> margin = std::vector<double>(count);
    std::vector<double> lower = std::vector<double>(count);
    std::vector<double> upper = std::vector<double>(count);
    std::vector<double> seconds = std::vector<double>(count);
    std::vector<double> distance = std::vector<double>(count);
    std::vector<double> witness;

    void give(Answers& answers) const {
        answers.add(status);
        answers.add(engine);
        answers.add(std::vector<int>(right.get(), right.get() + count));
        for (const auto& column : {margin, lower, upper, distance, witness})
            answers.add(column);
    }
};

void verify(const Batch& batch, const VerifyOptions& options, int threads, Answers& answers) {
    Columns columns;
    columns.witness.resize(batch.values.size());
    const WitnessOutput witness{columns.witness.data(), columns.distance.data()};
    CHECK(verify_rows(batch.ensemble, batch.attacker, batch.rows(), batch.label.data(), options,
                      {columns.status.data(), columns.right.get(), columns.margin.data(),
                       columns.lower.data(), columns.upper.data()},
                      &witness, threads, go_on));
    columns.give(answers);
}

void search(const Batch& batch, const SearchOptions& options, int threads, Answers& answers) {
    Columns columns;
    columns.witness.resize(batch.values.size());
    const WitnessOutput witness{columns.witness.data(), columns.distance.data()};
    CHECK(search_verify_rows(
        batch.ensemble, batch.attacker, batch.rows(), batch.label.data(), options,
        {columns.status.data(), columns.right.get(), columns.margin.data(), columns.lower.data(),
         columns.upper.data(), columns.engine.data(), columns.seconds.data()},
        &witness, threads, go_on));
    columns.give(answers);
}

void ranges(const Batch& batch, const RangeOptions& options, int threads, Answers& answers) {
    Columns low;
    Columns high;
    CHECK(range_rows(batch.ensemble, batch.attacker, batch.rows(), options,
                     {low.lower.data(), low.upper.data(), high.lower.data(), high.upper.data()},
                     threads, go_on));
    const std::vector<double> limit{0.5};
    CHECK(change_rows(batch.ensemble, batch.attacker, batch.rows(), limit, options,
                      low.status.data(), threads, go_on));
    low.give(answers);
    high.give(answers);
}

void worst_cases(const Batch& batch, int threads, Answers& answers) {
    WorstCases cases(batch.ensemble, batch.attacker, batch.label.data(), count);
    CHECK(cases.collect(batch.rows(), threads, go_on));
    std::vector<double> margin(count);
    std::vector<double> slope(cases.score_count());
    CHECK(cases.evaluate(batch.ensemble.scores.data(), {nullptr, 2.0}, margin.data(), slope.data(),
                         threads, go_on));
    answers.add(margin);
    answers.add(slope);
}

Answers everything(const Batch& batch, bool large_spread, int threads) {
    Answers answers;
    if (large_spread) {
        verify(batch, {Method::efficient, -1, false, infinity}, threads, answers);
        verify(batch, {Method::basic, -1, false, infinity}, threads, answers);
        verify(batch, {Method::efficient, 3, false, infinity}, threads, answers);
        Columns radius;
        CHECK(radius_rows(batch.ensemble, batch.attacker, batch.rows(), batch.label.data(),
                          infinity, {radius.lower.data(), radius.upper.data()}, threads, go_on));
        radius.give(answers);
        worst_cases(batch, threads, answers);
    }
    verify(batch, {Method::efficient, -1, true, infinity}, threads, answers);
    search(batch, {infinity, false, true}, threads, answers);
    search(batch, {infinity, true, false}, threads, answers);
    Columns radius;
    CHECK(search_radius_rows(batch.ensemble, batch.attacker, batch.rows(), batch.label.data(),
                             infinity, {radius.lower.data(), radius.upper.data()}, threads, go_on));
    radius.give(answers);
    if (batch.ensemble.n_outputs() == 1)
        ranges(batch, {infinity, large_spread, true, true}, threads, answers);
    std::vector<double> scores(static_cast<std::size_t>(count * batch.ensemble.n_outputs()));
    CHECK(score_rows(batch.ensemble, batch.rows(), scores.data(), threads, go_on));
    answers.add(scores);
    std::int64_t place = 0;
    CHECK(first_bad_value(batch.ensemble, batch.rows(), false, place, threads, go_on));
    answers.add(std::vector<std::int64_t>{place});
    return answers;
}

} // namespace

TEST(threads_give_the_answers_that_one_gives) {
    Random random(60);
    for (const int norm : {norm_inf, 0, 1, 2})
        for (const bool large_spread : {false, true})
            for (const int outputs : {1, 3}) {
                const tests::Shape shape{4, 2, large_spread ? 2 : 4, large_spread, outputs};
                const Batch batch(random, shape, norm);
                CHECK(everything(batch, large_spread, 4) == everything(batch, large_spread, 1));
            }
}
