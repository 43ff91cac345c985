// The prover: it finds a proof iff there is one, and writes it as it says it does. That proofs are
// right, the checker says, from Python.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/objective.hpp"
#include "model/problem.hpp"
#include "proofs/prover.hpp"
#include "search/search.hpp"
#include "tests/check.hpp"
#include "tests/problems.hpp"
#include "tests/reductions.hpp"

using namespace carve;
using tests::forever;
using tests::Random;
using tests::Shape;

namespace {

// Every threshold a cell of its own, every state its number.
ProofNames plain_names(const Ensemble& ensemble, const Attacker& attacker) {
    ProofNames names;
    for (std::int32_t f = 0; f < ensemble.n_features; ++f) {
        names.axes.push_back(f);
        std::vector<double> own;
        for (const Node& node : ensemble.nodes)
            if (!node.is_leaf() && !node.is_by_set() && node.feature == f)
                own.push_back(node.threshold);
        std::ranges::sort(own);
        own.erase(std::ranges::unique(own).begin(), own.end());
        names.threshold_starts.push_back(static_cast<std::int32_t>(names.thresholds.size()));
        for (std::size_t i = 0; i < own.size(); ++i) {
            names.thresholds.push_back(own[i]);
            names.last_cells.push_back(static_cast<std::int32_t>(i));
        }
        names.state_starts.push_back(static_cast<std::int32_t>(names.states.size()));
        for (std::size_t i = 0; i < 64 * attacker.states_of(f).size(); ++i)
            names.states.push_back(static_cast<std::int32_t>(i));
    }
    names.threshold_starts.push_back(static_cast<std::int32_t>(names.thresholds.size()));
    names.state_starts.push_back(static_cast<std::int32_t>(names.states.size()));
    return names;
}

} // namespace

TEST(numbers_take_seven_bits_a_byte) {
    Bytes bytes;
    bytes.number(5);
    bytes.number(300);
    bytes.signed_number(-1);
    bytes.signed_number(1);
    bytes.signed_number(std::numeric_limits<std::int64_t>::min());
    CHECK(bytes.text().substr(0, 5) == std::string("\x05\xac\x02\x01\x02", 5));
    CHECK(bytes.size() == 15 && static_cast<unsigned char>(bytes.text().back()) == 1);
}

TEST(a_proof_is_found_iff_no_attack_wins) {
    Random random(40);
    int proved = 0;
    int refused = 0;
    for (const int norm : {norm_inf, 0, 1, 2})
        for (int i = 0; i < 250; ++i) {
            const Shape shape{random.between(1, 5),       random.between(1, 3),
                              random.between(1, 3),       random.chance(0.4),
                              random.chance(0.3) ? 3 : 1, random.chance(0.5)};
            const Ensemble ensemble = tests::random_ensemble(random, shape);
            const Attacker attacker = tests::random_attacker(random, ensemble, norm);
            const Problem problem(ensemble, attacker);
            const ProofNames names = plain_names(ensemble, attacker);
            const std::vector<double> row = tests::random_rows(random, ensemble, 1);
            Instance instance(ensemble, attacker);
            instance.load(row.data());
            const int label = random.below(problem.objectives.classes());
            bool robust = true;
            Search search(ensemble, attacker);
            for (int rival = 0; rival < problem.objectives.classes() && robust; ++rival)
                robust = rival == label || search.run(instance, problem.objectives(label, rival),
                                                      Goal::decide, forever)
                                                   .verdict == Verdict::never;
            Prover prover(problem, names);
            Bytes proof;
            proof.byte(7);
            CHECK(prover.prove(instance, {label, true, false}, forever, proof) == robust);
            CHECK((proof.size() > 1) == robust);
            ++(robust ? proved : refused);
        }
    CHECK(proved > 200 && refused > 200);
}
