#include "search/position.hpp"

namespace carve {

namespace {
bool holds(const Reduction::Range& range, std::int32_t cell) {
    return range.low <= cell && cell <= range.high;
}
} // namespace

void Position::start() {
    cell_.clear();
    for (const auto& feature : reduction_.features)
        cell_.push_back(feature.start);
    allowed_.resize(reduction_.ranges.size());
    missed_.assign(reduction_.leaves.size(), 0);
    for (const auto& slot : reduction_.slots) {
        const auto& feature = reduction_.features[slot.feature];
        for (std::int32_t r = slot.range_begin; r < slot.range_end; ++r)
            allowed_[r] = reduction_.cells_of(slot, reduction_.ranges[r]);
        for (std::int32_t u = slot.user_begin; u < slot.user_end; ++u) {
            const auto& user = reduction_.users[u];
            missed_[user.leaf] += !holds(allowed_[user.range], feature.start);
        }
    }
    total_ = reduction_.constant;
    for (const auto& tree : reduction_.trees) {
        std::int32_t leaf = tree.leaf_begin;
        while (leaf < tree.leaf_end && missed_[leaf] > 0)
            ++leaf;
        total_ += reduction_.leaves[leaf < tree.leaf_end ? leaf : tree.leaf_begin].value;
    }
}

void Position::move(std::int32_t f, std::int32_t cell) {
    set();
    const std::int32_t before = cell_[f];
    if (before == cell)
        return;
    cell_[f] = cell;
    const auto& feature = reduction_.features[f];
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const auto& slot = reduction_.slots[reduction_.slots_of_feature[i]];
        for (std::int32_t u = slot.user_begin; u < slot.user_end; ++u) {
            const auto& user = reduction_.users[u];
            const bool was = holds(allowed_[user.range], before);
            const bool is = holds(allowed_[user.range], cell);
            if (was && !is && missed_[user.leaf]++ == 0)
                total_ -= change(slot, user.leaf);
            if (is && !was && --missed_[user.leaf] == 0)
                total_ += change(slot, user.leaf);
        }
    }
}

const std::vector<std::int64_t>& Position::profile(std::int32_t f) {
    set();
    const auto& feature = reduction_.features[f];
    const std::int32_t here = cell_[f];
    profile_.assign(feature.count + 1, 0); // differences of neighbours
    for (std::int32_t i = feature.slot_begin; i < feature.slot_end; ++i) {
        const auto& slot = reduction_.slots[reduction_.slots_of_feature[i]];
        for (std::int32_t u = slot.user_begin; u < slot.user_end; ++u) {
            const auto& user = reduction_.users[u];
            const Reduction::Range& range = allowed_[user.range];
            if (missed_[user.leaf] != (holds(range, here) ? 0 : 1))
                continue; // some other feature keeps the tree away from it
            profile_[range.low] += change(slot, user.leaf);
            profile_[range.high + 1] -= change(slot, user.leaf);
        }
    }
    for (std::int32_t cell = 1; cell < feature.count; ++cell)
        profile_[cell] += profile_[cell - 1];
    const std::int64_t now = profile_[here];
    for (std::int64_t& difference : profile_)
        difference -= now;
    profile_.pop_back();
    return profile_;
}

} // namespace carve
