// The questions over many rows, with several threads and with one: the same answers. What threads
// share is for the thread sanitizer to judge. And what training asks of rows in parts, which adds
// up.
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

// The rows of a case whose number is `part` modulo 3; a fourth part has none.
struct Part {
    std::vector<std::int64_t> number;
    std::vector<double> values;
    std::vector<std::int32_t> label;
    std::vector<std::int64_t> ends; // of blocks that are 64 rows of the whole

    Part(const Case& c, int part) {
        const auto columns = static_cast<std::size_t>(c.ensemble.n_features);
        for (int row = 0; row < count; ++row) {
            if (row % 3 == part) {
                const auto* const first = c.values.data() + static_cast<std::size_t>(row) * columns;
                number.push_back(row);
                values.insert(values.end(), first, first + columns);
                label.push_back(c.label[static_cast<std::size_t>(row)]);
            }
            if (row % 64 == 63 || row + 1 == count)
                ends.push_back(static_cast<std::int64_t>(number.size()));
        }
    }
    Rows rows(const Case& c) const {
        return {values.data(), false, static_cast<std::int64_t>(number.size()),
                c.ensemble.n_features};
    }
};

void check_slopes_of_parts(const Case& c) {
    const double* const scores = c.ensemble.scores.data();
    WorstCases whole(c.ensemble, c.attacker, c.rows(), {c.label, {}}, {});
    CHECK(whole.collect(2, go_on));
    std::vector<double> slope(whole.score_count());
    const std::vector<std::int64_t> blocks{4, 0, 2};
    CHECK(whole.slope(scores, 2.0, {nullptr, blocks}, slope.data(), 2, go_on));
    std::vector<std::int64_t> sums(slope.size(), 0);
    for (int number = 0; number < 4; ++number) {
        const Part part(c, number);
        WorstCases::Plan plan;
        plan.ends = part.ends;
        plan.whole_rows = count;
        WorstCases cases(c.ensemble, c.attacker, part.rows(c), {part.label, {}}, plan);
        CHECK(cases.blocks() == whole.blocks() && cases.has_classes());
        CHECK(cases.collect(2, go_on));
        CHECK(cases.slope_unit(scores, 2.0) == whole.slope_unit(scores, 2.0));
        std::vector<std::int64_t> own(slope.size());
        CHECK(cases.whole_slope(scores, 2.0, {nullptr, blocks}, own.data(), 2, go_on));
        std::ranges::transform(sums, own, sums.begin(), std::plus<>());
    }
    for (std::size_t i = 0; i < slope.size(); ++i)
        CHECK(static_cast<double>(sums[i]) * whole.slope_unit(scores, 2.0) == slope[i]);
}

void check_witnesses_of_parts(const Case& c) {
    const double* const scores = c.ensemble.scores.data();
    Witnesses::Effort effort;
    effort.anew = 0.3;
    const auto pressed = [&](Witnesses& witnesses, std::vector<double>& margin) {
        std::vector<std::int32_t> batch(static_cast<std::size_t>(witnesses.rows()));
        std::iota(batch.begin(), batch.end(), 0);
        margin.resize(batch.size());
        for (effort.seed = 0; effort.seed < 3; ++effort.seed)
            CHECK(witnesses.press(batch, scores, effort, true, margin.data(), 2, go_on));
    };
    const auto force = [](std::int64_t row) { return 0.01 * static_cast<double>(row) - 1; };
    Witnesses whole(c.ensemble, c.attacker, c.rows(), c.label.data());
    std::vector<double> margin;
    pressed(whole, margin);
    std::vector<double> forces;
    for (int row = 0; row < count; ++row)
        forces.push_back(force(row));
    std::vector<double> slope(whole.score_count());
    CHECK(whole.slope(forces, slope.data(), 2, go_on));
    const Witnesses::WholeBatch batch{count, force(count - 1)};
    std::vector<std::int64_t> sums(slope.size(), 0);
    for (int number = 0; number < 4; ++number) {
        const Part part(c, number);
        Witnesses witnesses(c.ensemble, c.attacker, part.rows(c), part.label.data(), part.number);
        std::vector<double> margins;
        pressed(witnesses, margins);
        forces.clear();
        for (std::size_t i = 0; i < part.number.size(); ++i) {
            CHECK(margins[i] == margin[static_cast<std::size_t>(part.number[i])]);
            forces.push_back(force(part.number[i]));
        }
        std::vector<std::int64_t> own(slope.size());
        CHECK(witnesses.whole_slope(forces, batch, own.data(), 2, go_on));
        std::ranges::transform(sums, own, sums.begin(), std::plus<>());
    }
    for (std::size_t i = 0; i < slope.size(); ++i)
        CHECK(static_cast<double>(sums[i]) * whole.slope_unit(batch) == slope[i]);
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

TEST(slopes_and_witnesses_of_parts_are_those_of_the_whole) {
    Random random(61);
    for (const int norm : {norm_inf, 0, 1, 2})
        for (const int outputs : {1, 3}) {
            check_slopes_of_parts(Case(random, {4, 2, 2, true, outputs}, norm));
            check_witnesses_of_parts(Case(random, {4, 2, 4, false, outputs}, norm));
        }
}
