// The tree of domains: how a descent walks it, and what closes a domain.
#include <algorithm>
#include <limits>

#include "search/descent.hpp"

namespace carve {

namespace {
constexpr int root_sweeps = 60;
constexpr int node_sweeps = 8;
} // namespace

struct Descent::Smaller {
    Smaller(const Reduction& whole, Aim& aim, std::size_t memory)
        : reduction(whole, Reduction::Compact{}), descent(reduction, aim, memory) {}
    Reduction reduction;
    Origin origin;
    Descent descent;
};

Descent::Descent(const Reduction& reduction, Aim& aim, std::size_t memory)
    : reduction_(reduction), aim_(aim), memory_(memory), domain_(reduction),
      dual_(reduction, domain_), cutting_(reduction, domain_), branches_(domain_, dual_),
      position_(reduction) {}

Descent::~Descent() = default;

void Descent::prepare() {
    depth_ = 0;
    domain_.reset();
    dual_.reset();
}

std::int64_t Descent::improve(std::vector<std::int32_t>& leaves) {
    constexpr int sweeps = 6;
    if (!domain_.propagate(*aim_.stopwatch))
        return reduction_.least;
    dual_.refresh();
    for (int i = 0; i < sweeps && !aim_.stopwatch->expired(); ++i) {
        dual_.reprice();
        dual_.sweep(*aim_.stopwatch);
    }
    const std::int64_t bound = dual_.evaluate();
    leaves = reduction_.home;
    for (std::size_t t = 0; t < reduction_.trees.size(); ++t)
        leaves[reduction_.trees[t].id] =
            reduction_.leaves[dual_.leaf(static_cast<std::int32_t>(t))].node;
    return bound;
}

void Descent::prepare(std::size_t depth, const Dual& dual, const Origin& origin) {
    depth_ = depth;
    domain_.reset();
    dual_.reset(dual, origin);
}

bool Descent::run(std::int64_t inherited) {
    branches_.reset(memory_);
    position_.reset();
    tried_.clear();
    for (;;) {
        std::int64_t bound = inherited;
        Cut cut{};
        const Step step = explore(depth_ + branches_.depth(), inherited, bound, cut);
        if (step == Step::found)
            return true;
        if (step == Step::interrupted) {
            aim_.close_at(bound);
            branches_.for_each_kept([&](std::int64_t kept) { aim_.close_at(kept); });
            return false;
        }
        if (step == Step::split) {
            const bool left_first = cut.left <= cut.right;
            const Reduction::Range left{domain_.low(cut.feature), cut.last};
            const Reduction::Range right{cut.last + 1, domain_.high(cut.feature)};
            branches_.cut(cut.feature, left_first ? left : right, left_first ? right : left, bound);
            inherited = bound;
            continue;
        }
        aim_.close_at(bound);
        if (!branches_.next())
            return true;
        inherited = branches_.bound();
    }
}

Descent::Step Descent::explore(std::size_t depth, std::int64_t inherited, std::int64_t& bound,
                               Cut& cut) {
    ++aim_.nodes;
    bound = inherited;
    const Stopwatch& stopwatch = *aim_.stopwatch;
    if (aim_.late())
        return Step::interrupted;
    if (!domain_.propagate(stopwatch)) {
        if (stopwatch.expired())
            return Step::interrupted;
        bound = units::unbounded;
        return Step::closed;
    }
    if (const Step step = ascend(depth, bound); step != Step::split)
        return step;
    if (!fix_by_bound() || !domain_.propagate(stopwatch)) {
        if (stopwatch.expired())
            return Step::interrupted;
        bound = std::max(bound, aim_.cutoff);
        return Step::closed;
    }
    const bool doubtful = bound >= aim_.cutoff - reduction_.doubt * (aim_.exactly ? 3 : 1);
    if (excluded_by_rivals() || (doubtful && excluded_exactly())) {
        bound = std::max(bound, aim_.cutoff - 1);
        return Step::closed;
    }
    if (stopwatch.expired())
        return Step::interrupted;
    if (is_small())
        return go_on_smaller(depth, bound);
    return choose_cut(bound, cut) ? Step::split : leave(bound);
}

bool Descent::choose_cut(std::int64_t bound, Cut& cut) {
    const auto place = cutting_.choose();
    if (!place)
        return false;
    dual_.refresh();
    dual_.evaluate();
    const auto bound_if = [&](std::int32_t low, std::int32_t high) {
        return std::max(bound, dual_.evaluate_if(place->feature, low, high));
    };
    const auto& [f, last] = *place;
    cut = {f, last, bound_if(domain_.low(f), last), bound_if(last + 1, domain_.high(f))};
    return true;
}

Descent::Step Descent::ascend(std::size_t depth, std::int64_t& bound) {
    dual_.refresh();
    bound = std::max(bound, dual_.evaluate());
    if (aim_.closes(bound))
        return Step::closed;
    const bool root = depth == 0;
    if (root && !reduction_.has_costs()) {
        poll(trial_);
        consider(trial_, false);
        if (aim_.found())
            return Step::found;
    }
    if (!root)
        dual_.calm(0.1);
    const int sweeps = root ? root_sweeps : node_sweeps;
    const int patience = root ? 4 : 2;
    std::int64_t previous = bound;
    for (int i = 0; i < sweeps; ++i) {
        dual_.reprice();
        dual_.sweep(*aim_.stopwatch);
        bound = std::max(bound, dual_.evaluate());
        if (aim_.closes(bound))
            return Step::closed;
        if (root || (aim_.nodes % 4 == 0 && i % 4 == 3)) {
            try_votes(root, i);
            if (aim_.found())
                return Step::found;
            if (aim_.closes(bound))
                return Step::closed;
        }
        if (aim_.stopwatch->expired())
            return Step::interrupted;
        if (i >= 2 * patience && i % patience == 0) {
            if (bound - previous < (aim_.cutoff - bound) / 16)
                break;
            previous = bound;
        }
    }
    return Step::split;
}

// One cell per feature is left.
Descent::Step Descent::leave(std::int64_t& bound) {
    choose(trial_, [&](std::int32_t f) { return domain_.low(f); });
    bound = units::unbounded;
    if (reduction_.affordable(trial_, reduction_.cost_of(trial_))) {
        place(trial_);
        bound = position_.total();
        aim_.keep(reduction_, trial_, bound);
    }
    return aim_.found() ? Step::found : Step::closed;
}

// Closes what cannot be part of an attack of interest; false iff nothing is left.
bool Descent::fix_by_bound() {
    const std::int64_t bound = dual_.evaluate();
    if (aim_.closes(bound))
        return false;
    bool fixed = false;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t)
        for (std::int32_t i = domain_.alive_count(t); i-- > 0;)
            if (aim_.closes(bound + dual_.loss_of_leaf(t, domain_.alive(t, i)))) {
                domain_.kill(t, i);
                fixed = true;
            }
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(reduction_.features.size()); ++f) {
        std::int32_t low = domain_.low(f);
        std::int32_t high = domain_.high(f);
        while (low < high && aim_.closes(dual_.bound_of_cell(f, low)))
            ++low;
        while (low < high && aim_.closes(dual_.bound_of_cell(f, high)))
            --high;
        fixed = fixed || low > domain_.low(f) || high < domain_.high(f);
        domain_.restrict(f, low, high);
    }
    if (fixed)
        aim_.close_at(aim_.cutoff);
    return true;
}

// Where units are too coarse: is the exact sum of the least values alive no win, or not better than
// the best attack known?
bool Descent::excluded_exactly() const {
    if (aim_.goal != Goal::decide && !aim_.exactly)
        return false;
    std::vector<std::int32_t> leaves = reduction_.home;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t) {
        std::int32_t best = domain_.alive(t, 0);
        for (std::int32_t i = 1; i < domain_.alive_count(t); ++i)
            if (reduction_.leaves[domain_.alive(t, i)].rank < reduction_.leaves[best].rank)
                best = domain_.alive(t, i);
        leaves[reduction_.trees[t].id] = reduction_.leaves[best].node;
    }
    ExactSum total = aim_.objective->total(leaves);
    if (!aim_.exactly)
        return !aim_.objective->wins(total.sign());
    total.subtract(aim_.best_total);
    return total.sign() >= 0;
}

// Is there an objective that no choice of leaves alive brings down?
bool Descent::excluded_by_rivals() const {
    const auto excludes = [&](const Objective* rival) {
        double total = rival->constant();
        for (const std::int32_t node : reduction_.settled)
            total += rival->value(node);
        for (std::int32_t t = 0; t < static_cast<std::int32_t>(reduction_.trees.size()); ++t) {
            double least = std::numeric_limits<double>::infinity();
            for (std::int32_t i = 0; i < domain_.alive_count(t); ++i)
                least = std::min(least, rival->value(reduction_.leaves[domain_.alive(t, i)].node));
            total += least;
        }
        return total > rival->rounding_error();
    };
    return std::ranges::any_of(aim_.rivals, excludes);
}

// Are so few leaves left that they deserve a reduction of their own?
bool Descent::is_small() const {
    constexpr std::int64_t worthwhile = 8;
    const auto all = static_cast<std::int64_t>(reduction_.leaves.size());
    const std::int64_t alive = domain_.all_alive();
    return aim_.compacts_always ? alive < all : all >= worthwhile && 2 * alive <= all;
}

Descent::Step Descent::go_on_smaller(std::size_t depth, std::int64_t& bound) {
    if (!smaller_)
        smaller_ = std::make_unique<Smaller>(reduction_, aim_, memory_ / 2);
    smaller_->reduction.compact(reduction_, domain_, smaller_->origin);
    smaller_->descent.prepare(depth, dual_, smaller_->origin);
    const bool finished = smaller_->descent.run(bound);
    bound = units::unbounded; // what was closed is noted already
    return !finished ? Step::interrupted : aim_.found() ? Step::found : Step::closed;
}

} // namespace carve
