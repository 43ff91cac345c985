#include "proofs/proving.hpp"

#include <atomic>
#include <memory>

#include "proofs/prover.hpp"
#include "running/stopwatch.hpp"
#include "verdict/decisions.hpp"

namespace carve {

namespace {
struct Desk { // what a thread needs
    Desk(const Problem& problem, const ProofNames& names)
        : instance(problem.ensemble, problem.attacker), prover(problem, names) {}
    Instance instance;
    Prover prover;
    Bytes proof;
};
} // namespace

bool Proving::run(const std::int32_t* label, const std::uint8_t* status,
                  const std::uint8_t* large_spread, std::vector<std::string>& proofs) const {
    proofs.assign(static_cast<std::size_t>(rows.count), {});
    const int workers = worker_count(options.threads, rows.count, 1);
    std::vector<std::unique_ptr<Desk>> desks(static_cast<std::size_t>(workers));
    const auto work = [&](int worker, RowRange range, const std::atomic<bool>& cancelled) {
        auto& slot = desks[static_cast<std::size_t>(worker)];
        if (!slot)
            slot = std::make_unique<Desk>(problem, names);
        Desk& desk = *slot;
        for (std::int64_t i = range.begin; i < range.end && !cancelled; ++i) {
            const auto row = static_cast<std::size_t>(i);
            const auto found = static_cast<Status>(status[i]);
            if (found != Status::robust && found != Status::vulnerable)
                continue;
            const Stopwatch stopwatch(options.seconds[row], cancelled, Stopwatch::Clock::now());
            with_row(rows, i, [&](const auto* x) { desk.instance.load(x, rows.bounds_of(i)); });
            desk.proof.clear();
            const Prover::Row asked{label[i], found == Status::robust, large_spread[i] != 0};
            if (desk.prover.prove(desk.instance, asked, stopwatch, desk.proof))
                proofs[row] = desk.proof.text();
        }
    };
    return parallel_rows(rows.count, 1, workers, work, watch);
}

std::vector<std::string> changes_of(const Rows& witnesses, const Rows& rows) {
    std::vector<std::string> found;
    Bytes pairs;
    for (std::int64_t i = 0; i < rows.count; ++i) {
        pairs.clear();
        std::uint64_t count = 0;
        with_row(witnesses, i, [&](const auto* z) {
            with_row(rows, i, [&](const auto* x) {
                for (std::int64_t f = 0; f < rows.columns; ++f) {
                    const double from = x[f];
                    const double to = z[f];
                    if (to == from || from != from)
                        continue;
                    pairs.number(static_cast<std::uint64_t>(f));
                    pairs.real(to);
                    ++count;
                }
            });
        });
        Bytes all;
        all.number(count);
        all.append(pairs);
        found.push_back(all.text());
    }
    return found;
}

} // namespace carve
