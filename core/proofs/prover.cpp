#include "proofs/prover.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace carve {

namespace {
constexpr int first_sweeps = 60;
constexpr int later_sweeps = 8;
constexpr std::size_t most_snapshot_bytes = std::size_t{64} << 20;
constexpr std::size_t most_proof_bytes = std::size_t{16} << 20; // of one part
constexpr std::size_t most_depth = 4095;                        // of cuts, for a checker
} // namespace

Prover::Prover(const Problem& problem, const ProofNames& names)
    : problem_(problem), names_(names), costs_(problem.ensemble, problem.attacker),
      reach_(problem.ensemble, costs_), first_look_(problem.ensemble, costs_), first_price_(costs_),
      reduction_(problem.ensemble, problem.attacker),
      domain_(reduction_, Domain::Conclusions::reach), dual_(reduction_, domain_),
      cutting_(reduction_, domain_), branches_(domain_, dual_), by_price_(reduction_, domain_) {}

bool Prover::prove(Instance& instance, const Row& row, const Stopwatch& stopwatch, Bytes& proof) {
    instance_ = &instance;
    stopwatch_ = &stopwatch;
    large_spread_ = row.large_spread;
    const std::size_t before = proof.size();
    if (row.right ? prove_robust(row.label, proof) : prove_vulnerable(row.label, proof))
        return true;
    proof.cut(before);
    return false;
}

bool Prover::prove_robust(int label, Bytes& proof) {
    const int classes = problem_.objectives.classes();
    const bool single = problem_.ensemble.n_outputs() == 1;
    proof.number(static_cast<std::uint64_t>(classes - 1));
    for (int rival = 0; rival < classes; ++rival) {
        if (rival == label)
            continue;
        proof.number(single ? 0 : 1);
        if (!single) {
            proof.number(static_cast<std::uint64_t>(rival));
            proof.number(1);
        }
        if (!prove_part(problem_.objectives(label, rival), false, proof))
            return false;
    }
    return true;
}

bool Prover::prove_vulnerable(int label, Bytes& proof) {
    const int classes = problem_.objectives.classes();
    proof.number(1);
    if (problem_.ensemble.n_outputs() == 1) {
        proof.number(0);
        return prove_part(problem_.objectives(1 - label, label), false, proof);
    }
    // One rival that cannot be beaten is enough, and easily seen, if there is one.
    std::vector<const Objective*> all;
    rivals_.clear();
    label_ = label;
    const std::size_t before = proof.size();
    for (int rival = 0; rival < classes; ++rival) {
        if (rival == label)
            continue;
        all.push_back(&problem_.objectives(rival, label));
        rivals_.push_back(rival);
        proof.number(1);
        proof.number(static_cast<std::uint64_t>(rival));
        proof.number(1);
        if (prove_part(*all.back(), true, proof))
            return true;
        proof.cut(before);
    }
    Blend mean;
    Bytes cases;
    if (!prove_mean(all, cases, mean))
        return false;
    const std::vector<std::int64_t> weights = mean.weights(all);
    proof.number(static_cast<std::uint64_t>(
        std::ranges::count_if(weights, [](std::int64_t weight) { return weight > 0; })));
    for (std::size_t i = 0; i < weights.size(); ++i)
        if (weights[i] > 0) {
            proof.number(static_cast<std::uint64_t>(rivals_[i]));
            proof.number(static_cast<std::uint64_t>(weights[i]));
        }
    proof.append(cases);
    return true;
}

bool Prover::prove_part(const Objective& objective, bool briefly, Bytes& proof) {
    if (large_spread_ && prove_at_first_look(objective, briefly, proof))
        return true;
    objective_ = &objective;
    mean_bits_ = 0;
    need_ = objective.tie_wins() ? 1 : 0;
    find_home();
    if (reduction_.prune(*instance_, objective, false, *stopwatch_) != Reduction::Built::whole)
        return false;
    if (reduction_.least >= need_) {
        write_price(0, proof);
        return true;
    }
    if (reduction_.number(*instance_, *stopwatch_) != Reduction::Built::whole)
        return false;
    return prove_cases(briefly, proof);
}

// What is large-spread was decided by the sum of the least leaves in reach, if costs do not matter;
// if they do, a price may be all that it takes.
bool Prover::prove_at_first_look(const Objective& objective, bool is_guess, Bytes& proof) {
    if (problem_.attacker.norm == norm_inf) {
        if (!is_guess)
            write_price(0, proof);
        return !is_guess;
    }
    const double enough = 4 * objective.rounding_error();
    const LongSum margin = first_look_.walk(reach_, *instance_, objective, reduction_.home);
    if (const auto [gain, price] = first_look_.most_gain(); margin.rounded() - gain > enough) {
        write_price(price, proof);
        return true;
    }
    const auto [total, price] = first_price_.bound(reach_, *instance_, objective);
    if (total > enough)
        write_price(price, proof);
    return total > enough;
}

void Prover::find_home() {
    for (std::int32_t tree = 0; tree < problem_.ensemble.n_trees(); ++tree)
        reduction_.home[tree] = problem_.ensemble.leaf_of(tree, instance_->routed);
}

bool Prover::prove_mean(const std::vector<const Objective*>& all, Bytes& proof, Blend& mean) {
    constexpr int rounds = 12;
    objective_ = nullptr;
    mean_bits_ = Blend::whole_bits;
    find_home();
    if (reduction_.prune(*instance_, *all.front(), true, *stopwatch_) != Reduction::Built::whole)
        return false;
    const auto turn = [&](const Blend& to) {
        need_ = to.tie_wins() ? 1 : 0;
        return reduction_.turn_to(to, *stopwatch_) == Reduction::Built::whole;
    };
    Blend blend(all, reduction_, *stopwatch_);
    if (!turn(blend) || reduction_.number(*instance_, *stopwatch_) != Reduction::Built::whole)
        return false;
    std::int64_t best = -units::unbounded;
    std::vector<std::int32_t> leaves;
    for (int round = 0; round < rounds && !stopwatch_->expired(); ++round) {
        domain_.reset();
        dual_.reset();
        if (!domain_.propagate(*stopwatch_))
            break;
        dual_.refresh();
        for (int i = 0; i < later_sweeps; ++i) {
            dual_.reprice();
            dual_.sweep(*stopwatch_);
        }
        const std::int64_t bound = dual_.evaluate();
        if (bound > best) {
            best = bound;
            mean = blend;
        }
        if (bound >= need_)
            break;
        leaves = reduction_.home;
        for (std::size_t t = 0; t < reduction_.trees.size(); ++t)
            leaves[reduction_.trees[t].id] =
                reduction_.leaves[dual_.leaf(static_cast<std::int32_t>(t))].node;
        blend.lean(leaves, 0.5);
        if (!turn(blend))
            return false;
    }
    return turn(mean) && prove_cases(false, proof);
}

// ── cases ───────────────────────────────────────────────────────────────────────────────────────

bool Prover::prove_cases(bool briefly, Bytes& proof) {
    domain_.reset();
    dual_.reset();
    branches_.reset(by_price() ? 0 : most_snapshot_bytes);
    const std::size_t most_bytes = proof.size() + most_proof_bytes;
    for (;;) {
        if (!close(branches_.depth() == 0, proof)) {
            auto cut = by_price() ? by_price_.cut() : std::nullopt;
            if (!cut)
                cut = cutting_.choose();
            if (stopwatch_->expired() || briefly || !cut || proof.size() > most_bytes ||
                branches_.depth() == most_depth)
                return false;
            const Reduction::Range lower{domain_.low(cut->feature), cut->last};
            const Reduction::Range upper{cut->last + 1, domain_.high(cut->feature)};
            const bool upper_first = write_cut(*cut, proof);
            branches_.cut(cut->feature, upper_first ? upper : lower, upper_first ? lower : upper);
        } else if (!branches_.next()) {
            return true;
        }
    }
}

bool Prover::close(bool first, Bytes& proof) {
    if (!domain_.propagate(*stopwatch_)) {
        write_price(0, proof);
        return !stopwatch_->expired();
    }
    if (objective_ == nullptr) {
        if (close_by_rival(proof))
            return true;
    } else if (is_closed_by_least(*objective_)) {
        write_price(0, proof);
        return true;
    }
    return by_price() ? close_by_price(proof) : close_by_dual(first, proof);
}

bool Prover::close_by_price(Bytes& proof) {
    const auto [total, price] = by_price_.bound(*objective_);
    if (!(total > 4 * objective_->rounding_error()))
        return false;
    write_price(price, proof);
    return true;
}

bool Prover::close_by_dual(bool first, Bytes& proof) {
    dual_.refresh();
    if (!first)
        dual_.calm(0.1);
    const int patience = first ? 4 : 2;
    std::int64_t best = dual_.evaluate();
    std::int64_t previous = best;
    for (int i = 0; i < (first ? first_sweeps : later_sweeps); ++i) {
        dual_.reprice();
        dual_.sweep(*stopwatch_);
        const std::int64_t bound = dual_.evaluate();
        if (bound >= need_) {
            write_bound(bound - need_, proof);
            return true;
        }
        best = std::max(best, bound);
        if (stopwatch_->expired())
            return false;
        if (i >= 2 * patience && i % patience == 0) {
            if (best - previous < (need_ - best) / 16)
                break;
            previous = best;
        }
    }
    return false;
}

// Is the sum of the least values alive no win, exactly?
bool Prover::is_closed_by_least(const Objective& objective) {
    LongSum total = objective.start();
    leaves_ = reduction_.home;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t) {
        std::int32_t best = reduction_.leaves[domain_.alive(t, 0)].node;
        for (std::int32_t i = 1; i < domain_.alive_count(t); ++i)
            if (const std::int32_t node = reduction_.leaves[domain_.alive(t, i)].node;
                objective.less(node, best))
                best = node;
        leaves_[reduction_.trees[t].id] = best;
    }
    for (const std::int32_t leaf : leaves_)
        objective.add(total, leaf);
    return !objective.wins(objective.sign(total, leaves_));
}

// A label that wins everywhere wins against each rival: one that cannot be beaten here is enough.
bool Prover::close_by_rival(Bytes& proof) {
    for (std::size_t i = 0; i < rivals_.size(); ++i)
        if (is_closed_by_least(problem_.objectives(rivals_[i], label_))) {
            write_rival(rivals_[i], proof);
            write_price(0, proof);
            return true;
        }
    return false;
}

} // namespace carve
