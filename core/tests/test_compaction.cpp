// A compact reduction has the attacks of the domain that it is made of, at what they reach.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "search/domain.hpp"
#include "search/dual.hpp"
#include "search/position.hpp"
#include "search/reduction.hpp"
#include "tests/check.hpp"
#include "tests/problems.hpp"

using namespace carve;
using tests::Random;

namespace {

const std::atomic<bool> nobody_cancels{false};
const Stopwatch forever(std::numeric_limits<double>::infinity(), nobody_cancels);

struct Question {
    const Ensemble& ensemble;
    const Objective& objective;
    const Instance& instance;
    const Reduction& whole;
};

// The total, in units, that the trees themselves say these cells reach.
std::int64_t reached(const Question& question, const Reduction& reduction,
                     const std::vector<std::int32_t>& cells) {
    const auto& [ensemble, objective, instance, whole] = question;
    std::vector<double> routed(instance.routed, instance.routed + ensemble.n_features);
    for (std::size_t f = 0; f < cells.size(); ++f)
        if (const auto& feature = reduction.features[f]; cells[f] != feature.home)
            routed[static_cast<std::size_t>(feature.id)] = reduction.value(feature, cells[f]);
    std::vector<std::int32_t> leaves = whole.home;
    for (const auto& tree : whole.trees)
        leaves[static_cast<std::size_t>(tree.id)] = ensemble.leaf_of(tree.id, routed.data());
    return whole.total_of(leaves);
}

// The least total of the affordable attacks in a domain; the reduction knows it of each.
std::int64_t least(const Question& question, const Reduction& reduction, const Domain& domain) {
    std::int64_t total = units::unbounded;
    const auto count = static_cast<std::int32_t>(reduction.features.size());
    std::vector<std::int32_t> cells;
    for (std::int32_t f = 0; f < count; ++f)
        cells.push_back(domain.low(f));
    Position position(reduction);
    for (;;) {
        double cost = 0;
        for (std::int32_t f = 0; f < count; ++f) {
            cost +=
                reduction.cost[static_cast<std::size_t>(reduction.features[f].first + cells[f])];
            position.move(f, cells[f]);
        }
        if (reduction.affordable(cells, cost)) {
            CHECK(position.total() == reached(question, reduction, cells));
            total = std::min(total, position.total());
        }
        std::int32_t f = 0;
        while (f < count && cells[f] == domain.high(f)) {
            cells[f] = domain.low(f);
            ++f;
        }
        if (f == count)
            return total;
        ++cells[f];
    }
}

// A reduction, where its search stands, and what its whole was.
struct Level {
    explicit Level(const Reduction& of) : reduction(of), domain(of), dual(of, domain) {}
    const Reduction& reduction;
    Domain domain;
    Dual dual;
};

void cut(Random& random, Domain& domain, std::int32_t features) {
    const std::int32_t f = random.below(features);
    if (domain.low(f) == domain.high(f))
        return;
    const std::int32_t last = random.between(domain.low(f), domain.high(f) - 1);
    if (random.chance(0.5))
        domain.restrict(f, domain.low(f), last);
    else
        domain.restrict(f, last + 1, domain.high(f));
}

} // namespace

TEST(compact_reductions_have_the_attacks_of_their_domains) {
    Random random(71);
    int compacted = 0;
    int moved = 0; // features that cannot stay where they are
    for (int i = 0; i < 500; ++i) {
        const tests::Shape shape{
            random.between(2, 10), random.between(1, 4), random.between(1, 3), false, 1,
            random.chance(0.5)};
        const Ensemble ensemble = tests::random_ensemble(random, shape);
        const Attacker attacker =
            tests::random_attacker(random, ensemble, random.pick({norm_inf, 0, 1, 2}));
        const Objective objective = Objective::binary(ensemble, random.chance(0.5));
        const std::vector<double> row = tests::random_rows(random, ensemble, 1);
        Instance instance(ensemble, attacker);
        instance.load(row.data());
        Reduction whole(ensemble, attacker);
        CHECK(whole.prune(instance, objective, false, forever) == Reduction::Built::whole);
        CHECK(whole.number(instance, forever) == Reduction::Built::whole);
        const Question question{ensemble, objective, instance, whole};

        Reduction parts[] = {{whole, Reduction::Compact{}}, {whole, Reduction::Compact{}}};
        auto level = std::make_unique<Level>(whole);
        level->domain.reset();
        level->dual.reset();
        for (Reduction& part : parts) {
            Domain& domain = level->domain;
            const auto features = static_cast<std::int32_t>(level->reduction.features.size());
            for (int cuts = random.between(0, 2); features > 0 && cuts > 0; --cuts)
                cut(random, domain, features);
            if (!domain.propagate(forever))
                break;
            level->dual.refresh();
            for (int sweeps = random.between(0, 4); sweeps > 0; --sweeps) {
                level->dual.reprice();
                level->dual.sweep(forever);
            }
            const std::int64_t truth = least(question, level->reduction, domain);
            Origin origin;
            part.compact(level->reduction, domain, origin);
            auto next = std::make_unique<Level>(part);
            next->domain.reset();
            next->dual.reset(level->dual, origin);
            CHECK(least(question, part, next->domain) == truth);
            CHECK(part.least <= truth);
            if (next->domain.propagate(forever)) {
                next->dual.refresh();
                for (int sweep = 0; sweep < 4; ++sweep) {
                    CHECK(next->dual.evaluate() <= truth);
                    next->dual.reprice();
                    next->dual.sweep(forever);
                }
            } else {
                CHECK(truth == units::unbounded);
                break;
            }
            ++compacted;
            for (const auto& feature : part.features)
                moved += feature.start != feature.home ? 1 : 0;
            level = std::move(next);
        }
    }
    CHECK(compacted > 500 && moved > 100);
}
