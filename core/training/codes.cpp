#include "training/codes.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>

namespace carve {

Codes::Codes(std::span<const double> thresholds, std::span<const std::int64_t> offsets,
             std::span<const CodeKind> kinds)
    : thresholds_(thresholds.begin(), thresholds.end()), offsets_(offsets.begin(), offsets.end()),
      kind_(kinds.begin(), kinds.end()) {
    if (offsets_.empty() || offsets_.front() != 0 ||
        offsets_.back() != static_cast<std::int64_t>(thresholds_.size()))
        throw std::invalid_argument("offsets must go from 0 to the number of thresholds");
    if (kind_.empty())
        kind_.assign(offsets_.size() - 1, CodeKind::numbers);
    if (kind_.size() + 1 != offsets_.size())
        throw std::invalid_argument("one kind per feature is needed");
    for (std::size_t f = 0; f + 1 < offsets_.size(); ++f) {
        const std::int64_t count = offsets_[f + 1] - offsets_[f];
        const int most = most_thresholds - (kind_[f] == CodeKind::numbers_or_missing ? 1 : 0);
        if (count < 0 || count > most)
            throw std::invalid_argument("a feature may have at most 255 thresholds, or 254 and a "
                                        "code for missing values");
        const auto first = thresholds_.begin() + offsets_[f];
        if (std::adjacent_find(first, first + count, std::greater_equal<>()) != first + count)
            throw std::invalid_argument("thresholds must be ascending");
        count_.push_back(static_cast<int>(count));
    }
    usual_.assign(count_.size(), 0);
}

CodeRange Codes::range_of(int feature, const Limits& limits) const {
    const auto f = static_cast<std::size_t>(feature);
    if (limits.low != limits.low) // a missing value; without a code of its own it is as 0
        return kind_[f] == CodeKind::numbers_or_missing
                   ? CodeRange{missing_code(feature), missing_code(feature)}
                   : range_of(feature, {0, 0});
    const auto first = thresholds_.begin() + offsets_[f];
    const auto last = thresholds_.begin() + offsets_[f + 1];
    const auto low = std::lower_bound(first, last, limits.low);
    const auto high = std::lower_bound(low, last, limits.high);
    return {static_cast<int>(low - first), static_cast<int>(high - first)};
}

// The most frequent code of every feature, by a sample of the rows.
void Codes::find_usual(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                       const Join& join) {
    constexpr std::int64_t sample = 256; // rows of a process
    std::vector<std::size_t> first{0};   // per feature: of its counts
    for (int f = 0; f < features(); ++f)
        first.push_back(first.back() + static_cast<std::size_t>(codes_of(f)));
    const auto counts = std::make_shared<std::vector<std::int64_t>>(first.back(), 0);
    Instance instance(ensemble, attacker);
    const std::int64_t step = std::max<std::int64_t>(1, rows.count / sample);
    for (std::int64_t i = 0; i < rows.count; i += step) {
        with_row(rows, i, [&](const auto* row) { instance.load(row); });
        for (int f = 0; f < features(); ++f) {
            const auto [low, high] = range_of(f, instance.limits(f));
            ++(*counts)[first[static_cast<std::size_t>(f)] + static_cast<std::size_t>(low)];
            ++(*counts)[first[static_cast<std::size_t>(f)] + static_cast<std::size_t>(high)];
        }
    }
    if (join)
        join(counts);
    for (std::size_t f = 0; f < usual_.size(); ++f) {
        const std::span<const std::int64_t> own(counts->data() + first[f], first[f + 1] - first[f]);
        usual_[f] = static_cast<std::uint8_t>(std::ranges::max_element(own) - own.begin());
    }
}

bool Codes::encode(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                   int threads, const WatchFunction& watch, const Join& join) {
    if (attacker.norm != norm_inf)
        throw std::invalid_argument("codes are of an attacker that moves every feature on its own");
    rows_ = rows.count;
    bytes_.assign(static_cast<std::size_t>(groups()) * static_cast<std::size_t>(rows_) * line_size,
                  0);
    find_usual(ensemble, attacker, rows, join);
    constexpr std::int64_t block = 256;
    const auto work = [&](int, RowRange range, const std::atomic<bool>&) {
        // A value is often the one of the row before; where it is, so are its codes.
        struct Last {
            double value = std::numeric_limits<double>::quiet_NaN();
            std::uint8_t low = 0;
            std::uint8_t high = 0;
        };
        std::vector<Last> last(count_.size());
        Instance instance(ensemble, attacker);
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            with_row(rows, i, [&](const auto* row) { instance.load(row); });
            for (int f = 0; f < features(); ++f) {
                Last& known = last[static_cast<std::size_t>(f)];
                if (instance.x[f] != known.value) {
                    const auto [low, high] = range_of(f, instance.limits(f));
                    known = {instance.x[f], static_cast<std::uint8_t>(swapped(f, low)),
                             static_cast<std::uint8_t>(swapped(f, high))};
                }
                const auto offset =
                    static_cast<std::size_t>(f / group) * static_cast<std::size_t>(rows_) +
                    static_cast<std::size_t>(i);
                std::uint8_t* const bytes = bytes_.data() + offset * line_size + f % group;
                bytes[0] = known.low;
                bytes[group] = known.high;
            }
        }
    };
    return parallel_rows(rows_, block, worker_count(threads, rows_, block), work, watch);
}

} // namespace carve
