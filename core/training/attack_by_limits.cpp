#include "training/attack_by_limits.hpp"

#include <cmath>

namespace carve {

template <class Visit> void AttackByLimits::each(const MarginTerms& terms, Visit&& visit) const {
    for (int tree = 0; tree < static_cast<int>(output_.size()); ++tree) {
        if (terms.kind == TermKind::by_output)
            visit(tree, static_cast<int>(output_[static_cast<std::size_t>(tree)]));
        else
            for (int term = 0; term < terms.count; ++term)
                visit(tree, term);
    }
}

void AttackByLimits::attack(const double* scores, const Reached& reached, MarginTerms& terms) {
    if (numbers_.narrow())
        attack_as(scores, reached.narrow.data(), terms);
    else
        attack_as(scores, reached.wide.data(), terms);
}

template <class Leaf>
void AttackByLimits::attack_as(const double* scores, const Leaf* leaves, MarginTerms& terms) {
    const auto terms_per_tree =
        terms.kind == TermKind::by_output ? 1 : static_cast<std::size_t>(terms.count);
    picks_.resize(output_.size() * terms_per_tree * terms.rows);
    std::int32_t* pick = picks_.data();
    const Leaf* tree_leaves = leaves;
    const Leaf* next = leaves;
    int last_tree = 0;
    each(terms, [&](int tree, int term) {
        if (tree != last_tree)
            tree_leaves = next;
        last_tree = tree;
        const std::int32_t first = numbers_.first(tree);
        const double* const own = scores + static_cast<std::size_t>(first) * width_;
        const Leaf* at = tree_leaves;
        // The least of value(leaf) over the leaves within reach of one row, the first of several.
        const auto least = [&](std::size_t row, const auto& value) {
            const std::size_t others = *at++;
            Leaf best = at[0];
            double lowest = value(best);
            for (std::size_t other = 1; other <= others; ++other) {
                const double here = value(at[other]);
                if (here < lowest) {
                    lowest = here;
                    best = at[other];
                }
            }
            at += others + 1;
            terms.total[terms.at(term, row)] += lowest;
            *pick++ = first + static_cast<std::int32_t>(best);
        };
        for (std::size_t row = 0; row < terms.rows; ++row) {
            const MarginTerm aim = terms.term(term, row);
            if (terms.kind == TermKind::by_rival)
                least(row, [&](Leaf leaf) {
                    const double* const score = own + leaf * width_;
                    return aim.is_empty() ? 0.0 : score[aim.plus] - score[aim.minus];
                });
            else if (aim.plus >= 0)
                least(row, [&](Leaf leaf) { return own[leaf]; });
            else
                least(row, [&](Leaf leaf) { return -own[leaf]; });
        }
        next = at;
    });
}

void AttackByLimits::descend(const MarginTerms& terms, std::int64_t* slope) {
    whole_.clear();
    for (const double force : terms.force)
        whole_.push_back(std::llround(force));
    const std::int32_t* pick = picks_.data();
    each(terms, [&](int, int term) {
        for (std::size_t row = 0; row < terms.rows; ++row) {
            const std::int64_t force = whole_[terms.at(term, row)];
            std::int64_t* const own = slope + static_cast<std::size_t>(*pick++) * width_;
            const MarginTerm aim = terms.term(term, row);
            if (terms.kind != TermKind::by_rival) {
                *own += aim.plus >= 0 ? force : -force;
            } else if (!aim.is_empty()) {
                own[aim.plus] += force;
                own[aim.minus] -= force;
            }
        }
    });
}

} // namespace carve
