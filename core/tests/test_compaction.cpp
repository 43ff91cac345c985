// A compact reduction has the attacks of the domain that it is made of, at what they reach.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "search/domain.hpp"
#include "search/dual.hpp"
#include "search/position.hpp"
#include "tests/reductions.hpp"

using namespace carve;
using tests::forever;
using tests::Question;
using tests::Random;

namespace {

// The least total of the affordable attacks in a domain; the reduction knows it of each.
std::int64_t least(const Question& question, const Reduction& reduction, const Domain& domain) {
    std::int64_t total = units::unbounded;
    Position position(reduction);
    tests::for_every_point(
        reduction, [&](std::int32_t f) { return domain.low(f); },
        [&](std::int32_t f) { return domain.high(f); },
        [&](const std::vector<std::int32_t>& cells) {
            for (std::size_t f = 0; f < cells.size(); ++f)
                position.move(static_cast<std::int32_t>(f), cells[f]);
            CHECK(position.total() == question.reached(reduction, cells));
            total = std::min(total, position.total());
        });
    return total;
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
        const Question question(random,
                                {random.between(2, 10), random.between(1, 4), random.between(1, 3),
                                 false, 1, random.chance(0.5)},
                                random.pick({norm_inf, 0, 1, 2}));
        const Reduction& whole = question.reduction;

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
