// The questions over many rows, with several threads and with one: the same answers. What threads
// share is for the thread sanitizer to judge.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "model/scoring.hpp"
#include "tests/check.hpp"
#include "tests/problems.hpp"
#include "training/witnesses.hpp"
#include "training/worst_cases.hpp"
#include "verdict/batch.hpp"

using namespace carve;
using tests::Random;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int count = 300;

struct Case {
    Ensemble ensemble;
    Attacker attacker;
    std::vector<double> values;
    std::vector<std::int32_t> label;

    Case(Random& random, const tests::Shape& shape, int norm)
        : ensemble(tests::random_ensemble(random, shape)),
          attacker(tests::random_attacker(random, ensemble, norm)),
          values(tests::random_rows(random, ensemble, count)) {
        for (int row = 0; row < count; ++row)
            label.push_back(random.below(std::max(2, shape.outputs)));
    }
    Rows rows() const { return {values.data(), false, count, ensemble.n_features}; }
};

bool go_on(std::span<const RowRange>) { return true; }

// Everything that was answered, as one array of numbers.
struct Answers {
    std::vector<double> numbers;
    template <class T> void add(const std::vector<T>& column) {
        numbers.insert(numbers.end(), column.begin(), column.end());
    }
    template <class T> void add(const Column<T>& column, std::size_t size) {
        for (std::size_t i = 0; column.exists() && i < size; ++i)
            numbers.push_back(static_cast<double>(column.data()[i]));
    }
    void add(const Decisions& found) {
        add(found.status, found.rows);
        add(found.engine, found.rows);
        add(found.right, found.rows);
        for (const auto* column :
             {&found.margin, &found.worst_lower, &found.worst_upper, &found.distance,
              &found.radius_lower, &found.radius_upper, &found.lowest_lower, &found.lowest_upper,
              &found.highest_lower, &found.highest_upper})
            add(*column, found.rows);
        add(found.witness, found.rows * found.columns);
    }
    // NaN is NaN.
    friend bool operator==(const Answers& a, const Answers& b) {
        return a.numbers.size() == b.numbers.size() &&
               std::memcmp(a.numbers.data(), b.numbers.data(), 8 * a.numbers.size()) == 0;
    }
};

// Asks ask(batch), and sees that every row is announced once.
template <class Ask> void question(const Case& c, Options options, Answers& answers, Ask&& ask) {
    options.seconds.assign(count, infinity);
    const Problem problem(c.ensemble, c.attacker);
    const Rows rows = c.rows();
    Decisions found(rows.count, rows.columns);
    std::vector<int> announced(count, 0);
    const WatchFunction watch = [&](std::span<const RowRange> finished) {
        for (const RowRange& range : finished)
            for (std::int64_t row = range.begin; row < range.end; ++row)
                ++announced[static_cast<std::size_t>(row)];
        return true;
    };
    CHECK(ask(Batch{problem, rows, options, watch, found}));
    CHECK(announced == std::vector<int>(count, 1));
    answers.add(found);
}

void all_questions(const Case& c, const Options& options, Answers& answers) {
    question(c, options, answers, [&](const Batch& b) { return b.decide(c.label.data()); });
    if (options.solver == Engine::none || options.basic || options.grid >= 0)
        return;
    if (!options.per_instance)
        question(c, options, answers, [&](const Batch& b) { return b.radius(c.label.data()); });
    if (c.ensemble.n_outputs() != 1)
        return;
    const std::vector<double> limit{0.5};
    question(c, options, answers, [](const Batch& b) { return b.output_range(); });
    question(c, options, answers, [&](const Batch& b) { return b.stays_within(limit); });
}

void worst_cases(const Case& c, int threads, Answers& answers) {
    const std::vector<std::int32_t> label(c.label.begin(), c.label.end());
    WorstCases cases(c.ensemble, c.attacker, c.rows(), {label, {}}, {});
    CHECK(cases.collect(threads, go_on));
    std::vector<double> margin(count);
    std::vector<double> loss(count);
    std::vector<double> slope(cases.score_count());
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(cases.blocks()));
    std::iota(blocks.begin(), blocks.end(), 0);
    WorstCases::Outcomes outcomes;
    outcomes.margin = margin.data();
    outcomes.loss = loss.data();
    CHECK(cases.judge(c.ensemble.scores.data(), 2.0, outcomes, threads, go_on));
    CHECK(cases.slope(c.ensemble.scores.data(), 2.0, {nullptr, blocks}, slope.data(), threads,
                      go_on));
    answers.add(margin);
    answers.add(loss);
    answers.add(slope);
}

Answers everything(const Case& c, bool large_spread, int threads) {
    Answers answers;
    Options options;
    options.threads = threads;
    options.witness = true;
    all_questions(c, options, answers);
    options.solver = Engine::search;
    for (const bool exact_margin : {false, true}) {
        options.exact_margin = exact_margin;
        all_questions(c, options, answers);
    }
    options.solver = Engine::large_spread;
    options.per_instance = true;
    all_questions(c, options, answers);
    if (large_spread) {
        options.per_instance = false;
        all_questions(c, options, answers);
        options.basic = true;
        all_questions(c, options, answers);
        options.basic = false;
        options.grid = 3;
        all_questions(c, options, answers);
        worst_cases(c, threads, answers);
    }
    std::vector<double> scores(static_cast<std::size_t>(count * c.ensemble.n_outputs()));
    CHECK(score_rows(c.ensemble, c.rows(), scores.data(), threads, go_on));
    answers.add(scores);
    std::int64_t place = 0;
    CHECK(first_bad_value(c.ensemble, c.rows(), false, place, threads, go_on));
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
                const Case c(random, shape, norm);
                CHECK(everything(c, large_spread, 4) == everything(c, large_spread, 1));
            }
}
