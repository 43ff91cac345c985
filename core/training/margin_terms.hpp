// MarginTerms: what an attacker wants to be small, one or more sums for each row.
//
// A term's value of a leaf is score[plus] - score[minus]; its total is a constant and the sum of
// the values of one leaf per tree, as small as the attacker can make it. Each total is a minimum of
// linear functions of the scores: a loss that is convex and falls in the totals is convex in them.
//
//   numbers       term 0: the score; term 1: the score with its sign changed
//   two classes   term 0: the score, with the sign of the row's own class
//   by output     term c: the score of class c, with its sign changed unless it is the row's own
//   by rival      term r: the row's own class against class r; the own class's term is empty
//
// Many classes go by output where every tree counts for one of them and the attacker's choice in
// one tree does not touch the next: then terms c and r together are what is worst against rival r,
// and one look at each tree does for all rivals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/ensemble.hpp"

namespace carve {

enum class TermKind : std::uint8_t { numbers, two_classes, by_output, by_rival };

struct MarginTerm {
    int plus;  // an output, or -1
    int minus; // an output, or -1
    bool is_empty() const { return plus < 0 && minus < 0; }
};

inline MarginTerm term_of(TermKind kind, int term, std::int32_t label) {
    switch (kind) {
    case TermKind::numbers:
        return term == 0 ? MarginTerm{0, -1} : MarginTerm{-1, 0};
    case TermKind::two_classes:
        return label == 1 ? MarginTerm{0, -1} : MarginTerm{-1, 0};
    case TermKind::by_output:
        return term == label ? MarginTerm{term, -1} : MarginTerm{-1, term};
    case TermKind::by_rival:
        break;
    }
    return term == label ? MarginTerm{-1, -1} : MarginTerm{label, term};
}

// What a term's total is without trees.
inline double constant_of(const Ensemble& ensemble, TermKind kind, const MarginTerm& term) {
    const auto base = [&](int output) {
        return ensemble.base_score[static_cast<std::size_t>(output)];
    };
    if (term.plus >= 0 && term.minus >= 0)
        return base(term.plus) - base(term.minus);
    const double limit = kind == TermKind::two_classes ? ensemble.threshold * ensemble.average : 0;
    if (term.plus >= 0)
        return base(term.plus) - limit;
    return term.minus >= 0 ? -(base(term.minus) - limit) : 0;
}

// The terms of a block of rows, term by term.
struct MarginTerms {
    TermKind kind;
    int count;
    std::span<const std::int32_t> label{}; // per row; empty for numbers
    std::size_t rows = 0;
    std::vector<double> total{};
    std::vector<double> force{}; // how much the loss changes with the total, in units

    MarginTerm term(int number, std::size_t row) const {
        return term_of(kind, number, label.empty() ? 0 : label[row]);
    }
    std::size_t at(int number, std::size_t row) const {
        return static_cast<std::size_t>(number) * rows + row;
    }
};

} // namespace carve
