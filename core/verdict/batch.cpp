#include "verdict/batch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "large_spread/radius.hpp"
#include "large_spread/solver.hpp"
#include "running/stopwatch.hpp"
#include "search/radius.hpp"
#include "search/solver.hpp"
#include "verdict/radius.hpp"
#include "verdict/range.hpp"
#include "verdict/verdict.hpp"

namespace carve {

namespace {

// Nobody attacks: what can be said without.
class Nobody final : public Solver, public RadiusSolver {
  public:
    bool load(Instance&) override { return false; }
    Outcome attack(const Objective&, Goal, const Stopwatch&) override { return {}; }
    void perturb(double*, std::vector<std::int32_t>& changed) override { changed.clear(); }
    void load(const Instance&) override {}
    bool close_in(const Objective&, double, const Stopwatch&, RadiusBounds&) override {
        return false;
    }
};

std::unique_ptr<Solver> make_solver(const Problem& problem, const Options& options) {
    if (options.solver == Engine::large_spread)
        return std::make_unique<LargeSpreadSolver>(
            problem.ensemble, problem.attacker,
            LargeSpreadSolver::Mode{options.grid, options.per_instance});
    if (options.solver == Engine::search)
        return std::make_unique<SearchSolver>(problem.ensemble, problem.attacker);
    return std::make_unique<Nobody>();
}

std::unique_ptr<RadiusSolver> make_radius_solver(const Problem& problem, const Options& options) {
    if (options.solver == Engine::large_spread)
        return std::make_unique<LargeSpreadRadius>(problem.ensemble, problem.attacker,
                                                   options.per_instance);
    if (options.solver == Engine::search)
        return std::make_unique<RadiusSearch>(problem.ensemble, problem.attacker);
    return std::make_unique<Nobody>();
}

// What a thread needs for a question.
struct Desk {
    Desk(const Problem& problem, const Options&) : instance(problem.ensemble, problem.attacker) {}
    Instance instance;
};

struct JudgeDesk : Desk {
    JudgeDesk(const Problem& problem, const Options& options)
        : Desk(problem, options), solver(make_solver(problem, options)),
          judge(problem, *solver, options) {}
    std::unique_ptr<Solver> solver;
    Judge judge;
};

struct RadiusDesk : Desk {
    RadiusDesk(const Problem& problem, const Options& options)
        : Desk(problem, options), solver(make_radius_solver(problem, options)),
          finder(problem, *solver) {}
    std::unique_ptr<RadiusSolver> solver;
    RadiusFinder finder;
};

struct RangeDesk : Desk {
    RangeDesk(const Problem& problem, const Options& options)
        : Desk(problem, options), solver(make_solver(problem, options)), finder(problem, *solver) {}
    std::unique_ptr<Solver> solver;
    RangeFinder finder;
};

// Rows that a thread takes at a time: many where they take microseconds, few where one may take
// all of its time.
std::int64_t block_of(const Problem& problem, const Options& options) {
    if (options.solver == Engine::search)
        return 1;
    return options.solver == Engine::none || problem.attacker.norm == norm_inf ? 64 : 8;
}

} // namespace

template <class OwnDesk, class Visit> bool Batch::for_rows(const Visit& visit) const {
    const std::int64_t block = block_of(problem, options);
    const int workers = worker_count(options.threads, rows.count, block);
    std::vector<std::unique_ptr<OwnDesk>> desks(static_cast<std::size_t>(workers));
    const auto work = [&](int worker, RowRange range, const std::atomic<bool>& cancelled) {
        auto& slot = desks[static_cast<std::size_t>(worker)];
        if (!slot)
            slot = std::make_unique<OwnDesk>(problem, options);
        OwnDesk& desk = *slot;
        auto began = Stopwatch::Clock::now(); // a row begins as the one before ends
        for (std::int64_t i = range.begin; i < range.end && !cancelled; ++i) {
            const Stopwatch stopwatch(options.seconds[static_cast<std::size_t>(i)], cancelled,
                                      began);
            with_row(rows, i, [&](const auto* row) { desk.instance.load(row, rows.bounds_of(i)); });
            visit(desk, i, stopwatch);
            if (decisions.status[i] != Status::unknown)
                decisions.engine[i] = options.solver;
            const auto ended = Stopwatch::Clock::now();
            decisions.seconds[i] = std::chrono::duration<double>(ended - began).count();
            began = ended;
        }
    };
    return parallel_rows(rows.count, block, workers, work, watch);
}

bool Batch::decide(const std::int32_t* label) const {
    decisions.right.create(decisions.rows, false);
    for (auto* column : {&decisions.margin, &decisions.worst_lower, &decisions.worst_upper})
        column->create(decisions.rows, Decisions::nan);
    if (options.witness) {
        decisions.witness.create(decisions.rows * decisions.columns, Decisions::nan);
        decisions.distance.create(decisions.rows, Decisions::nan);
    }
    return for_rows<JudgeDesk>([&](JudgeDesk& desk, std::int64_t i, const Stopwatch& stopwatch) {
        const Decision found = desk.judge.decide(desk.instance, label[i], stopwatch);
        decisions.status[i] = found.status;
        decisions.right[i] = found.right;
        decisions.margin[i] = found.margin;
        decisions.worst_lower[i] = found.worst.lower;
        decisions.worst_upper[i] = found.worst.upper;
        if (options.witness && found.has_witness) {
            std::ranges::copy(desk.judge.witness(), decisions.witness.data() + i * rows.columns);
            decisions.distance[i] =
                options.any_witness ? problem.attacker.budget : desk.judge.distance();
        }
    });
}

bool Batch::radius(const std::int32_t* label) const {
    decisions.radius_lower.create(decisions.rows, Decisions::nan);
    decisions.radius_upper.create(decisions.rows, Decisions::nan);
    return for_rows<RadiusDesk>([&](RadiusDesk& desk, std::int64_t i, const Stopwatch& stopwatch) {
        const RadiusBounds found = desk.finder.find(desk.instance, label[i], stopwatch);
        decisions.radius_lower[i] = found.lower;
        decisions.radius_upper[i] = found.upper;
        if (found.lower == found.upper)
            decisions.status[i] = Status::robust;
    });
}

bool Batch::output_range() const {
    for (auto* column : {&decisions.lowest_lower, &decisions.lowest_upper, &decisions.highest_lower,
                         &decisions.highest_upper})
        column->create(decisions.rows, Decisions::nan);
    return for_rows<RangeDesk>([&](RangeDesk& desk, std::int64_t i, const Stopwatch& stopwatch) {
        const Range found = desk.finder.range(desk.instance, stopwatch);
        decisions.lowest_lower[i] = found.lowest.lower;
        decisions.lowest_upper[i] = found.lowest.upper;
        decisions.highest_lower[i] = found.highest.lower;
        decisions.highest_upper[i] = found.highest.upper;
        if (found.is_known)
            decisions.status[i] = Status::robust;
    });
}

bool Batch::stays_within(std::span<const double> limit) const {
    return for_rows<RangeDesk>([&](RangeDesk& desk, std::int64_t i, const Stopwatch& stopwatch) {
        decisions.status[i] = desk.finder.stays_within(desk.instance, limit, stopwatch);
    });
}

} // namespace carve
