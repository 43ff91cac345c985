#include "training/attack_by_costs.hpp"

#include <algorithm>
#include <cmath>

namespace carve {

void AttackByCosts::attack(const double* scores, const Reached& reached, MarginTerms& terms) {
    picks_.resize(terms.total.size() * output_.size());
    parts_.assign(terms.total.size(), {});
    for (int term = 0; term < terms.count; ++term)
        for (std::size_t row = 0; row < terms.rows; ++row)
            if (!terms.term(term, row).is_empty())
                attack_row(scores, reached, terms, term, row);
}

double AttackByCosts::value(const double* scores, const MarginTerm& term, std::size_t tree,
                            std::int32_t leaf) const {
    const double* const own = scores + static_cast<std::size_t>(leaf) * width_;
    if (width_ > 1)
        return own[term.plus] - own[term.minus];
    return output_[tree] == term.plus ? *own : output_[tree] == term.minus ? -*own : 0.0;
}

void AttackByCosts::attack_row(const double* scores, const Reached& reached, MarginTerms& terms,
                               int term, std::size_t row) {
    const std::size_t trees = output_.size();
    const MarginTerm aim = terms.term(term, row);
    std::int32_t* const picks = picks_.data() + terms.at(term, row) * trees;
    std::copy_n(reached.home.begin() + static_cast<std::ptrdiff_t>(row * trees), trees, picks);
    double& total = terms.total[terms.at(term, row)];
    for (std::size_t tree = 0; tree < trees; ++tree)
        total += value(scores, aim, tree, picks[tree]);
    knapsack_.clear({});
    auto contest = static_cast<std::size_t>(row == 0 ? 0 : reached.end[row - 1]);
    const auto last = static_cast<std::size_t>(reached.end[row]);
    auto entry = static_cast<std::size_t>(contest == 0 ? 0 : reached.contests[contest - 1].end);
    for (; contest < last; ++contest) {
        const auto [number, end] = reached.contests[contest];
        const auto tree = static_cast<std::size_t>(number);
        const double at_home = value(scores, aim, tree, picks[tree]);
        double lowest = at_home;
        options_.clear();
        for (; entry < static_cast<std::size_t>(end); ++entry) {
            // Entries are sorted by cost: one that gains no more than those before is no use.
            const std::int32_t leaf = reached.leaf[entry];
            const double here = value(scores, aim, tree, leaf);
            if (!(here < lowest))
                continue;
            lowest = here;
            options_.push_back({reached.cost[entry], at_home - here, leaf});
        }
        if (!options_.empty())
            knapsack_.add_group(number, options_, [](std::int32_t, std::int32_t) { return true; });
    }
    total -= relaxed_gain(picks, parts_[terms.at(term, row)]);
}

double AttackByCosts::relaxed_gain(std::int32_t* picks, Part& part) {
    const auto relaxation = knapsack_.relaxation(capacity_);
    for (const auto& [tree, leaf] : knapsack_.picks)
        picks[tree] = leaf;
    if (relaxation.share > 0)
        part = {relaxation.last.group, picks[relaxation.last.group], relaxation.last.leaf,
                relaxation.share};
    return relaxation.gain;
}

void AttackByCosts::descend(const MarginTerms& terms, std::int64_t* slope) const {
    const std::size_t trees = output_.size();
    const auto add = [&](const MarginTerm& aim, std::size_t tree, std::int32_t leaf, double force) {
        const std::int64_t whole = std::llround(force);
        std::int64_t* const own = slope + static_cast<std::size_t>(leaf) * width_;
        if (width_ > 1) {
            own[aim.plus] += whole;
            own[aim.minus] -= whole;
        } else if (output_[tree] == aim.plus) {
            *own += whole;
        } else if (output_[tree] == aim.minus) {
            *own -= whole;
        }
    };
    for (int term = 0; term < terms.count; ++term)
        for (std::size_t row = 0; row < terms.rows; ++row) {
            const MarginTerm aim = terms.term(term, row);
            const double force = terms.force[terms.at(term, row)];
            if (aim.is_empty() || force == 0)
                continue;
            const std::int32_t* const picks = picks_.data() + terms.at(term, row) * trees;
            for (std::size_t tree = 0; tree < trees; ++tree)
                add(aim, tree, picks[tree], force);
            const Part& part = parts_[terms.at(term, row)];
            if (part.share > 0) {
                const auto tree = static_cast<std::size_t>(part.tree);
                add(aim, tree, part.from, -force * part.share);
                add(aim, tree, part.to, force * part.share);
            }
        }
}

} // namespace carve
