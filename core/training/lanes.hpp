// Lanes: what an attacker wants to be small, one or more sums for each row.
//
// A lane's value of a leaf is score[plus] - score[minus]; its total is a constant and the sum of
// the values of one leaf per tree, as small as the attacker can make it. Each total is a minimum of
// linear functions of the scores: a loss that is convex and falls in the totals is convex in them.
//
//   numbers       lane 0: the score; lane 1: the score with its sign changed
//   two classes   lane 0: the score, with the sign of the row's own class
//   by output     lane c: the score of class c, with its sign changed unless it is the row's own
//   by rival      lane r: the row's own class against class r; the own class's lane is empty
//
// Many classes go by output where every tree counts for one of them and the attacker's choice in
// one tree does not touch the next: then lanes c and r together are what is worst against rival r,
// and one look at each tree does for all rivals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/ensemble.hpp"

namespace carve {

enum class LaneKind : std::uint8_t { numbers, two_classes, by_output, by_rival };

struct Lane {
    int plus;  // an output, or -1
    int minus; // an output, or -1
    bool is_empty() const { return plus < 0 && minus < 0; }
};

inline Lane lane_of(LaneKind kind, int lane, std::int32_t label) {
    switch (kind) {
    case LaneKind::numbers:
        return lane == 0 ? Lane{0, -1} : Lane{-1, 0};
    case LaneKind::two_classes:
        return label == 1 ? Lane{0, -1} : Lane{-1, 0};
    case LaneKind::by_output:
        return lane == label ? Lane{lane, -1} : Lane{-1, lane};
    case LaneKind::by_rival:
        break;
    }
    return lane == label ? Lane{-1, -1} : Lane{label, lane};
}

// What a lane's total is without trees.
inline double constant_of(const Ensemble& ensemble, LaneKind kind, const Lane& lane) {
    const auto base = [&](int output) {
        return ensemble.base_score[static_cast<std::size_t>(output)];
    };
    if (lane.plus >= 0 && lane.minus >= 0)
        return base(lane.plus) - base(lane.minus);
    const double limit = kind == LaneKind::two_classes ? ensemble.threshold * ensemble.average : 0;
    if (lane.plus >= 0)
        return base(lane.plus) - limit;
    return lane.minus >= 0 ? -(base(lane.minus) - limit) : 0;
}

// The lanes of a block of rows, lane by lane.
struct Lanes {
    LaneKind kind;
    int count;
    std::span<const std::int32_t> label{}; // per row; empty for numbers
    std::size_t rows = 0;
    std::vector<double> total{};
    std::vector<double> force{}; // how much the loss changes with the total, in units

    Lane lane(int number, std::size_t row) const {
        return lane_of(kind, number, label.empty() ? 0 : label[row]);
    }
    std::size_t at(int number, std::size_t row) const {
        return static_cast<std::size_t>(number) * rows + row;
    }
};

} // namespace carve
