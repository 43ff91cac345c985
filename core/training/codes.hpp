// Rows as the grower sees them: where the attacker can push every feature, in codes.
//
// A feature's candidate thresholds t_0 < t_1 < … cut it into cells. The code of a value is the
// number of thresholds below it, so that   code <= i   iff   value <= t_i.
// An attacker that may move every feature on its own (norm inf) takes a row's code of a feature
// anywhere from `low` to `high`, both included: the codes of the ends of Instance::limits.
// A missing value has the code after all of these, where the feature has one for it. The codes of a
// categorical feature are categories, in no order: 0 is what no split names, and nobody moves any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/attacker.hpp"
#include "model/ensemble.hpp"
#include "model/rows.hpp"
#include "running/joining.hpp"
#include "running/parallel.hpp"

namespace carve {

// The two codes of one row and feature.
struct CodeRange {
    int low;
    int high;
};

// What the codes of a feature stand for.
enum class CodeKind : std::uint8_t { numbers, numbers_or_missing, categories };

class Codes {
  public:
    static constexpr int most_thresholds = 255; // of a feature: codes are bytes
    // Features are stored in groups: for every row a line of `group` lows and `group` highs, which
    // is what a processor fetches at once.
    static constexpr int group = 32;
    static constexpr int line_size = 2 * group;

    // The thresholds of feature f are thresholds[offsets[f] … offsets[f + 1]), ascending. Kinds are
    // per feature; empty: numbers.
    Codes(std::span<const double> thresholds, std::span<const std::int64_t> offsets,
          std::span<const CodeKind> kinds = {});

    // Codes of all rows; to be called once. False iff `watch` cancelled. With `join`, what is usual
    // is so in all processes together, and lines of all of them hold the same bytes for a code.
    bool encode(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows, int threads,
                const WatchFunction& watch, const Join& join = {});

    std::int64_t rows() const { return rows_; }
    int features() const { return static_cast<int>(count_.size()); }
    int groups() const { return (features() + group - 1) / group; }
    int thresholds_of(int feature) const { return count_[static_cast<std::size_t>(feature)]; }
    CodeKind kind(int feature) const { return kind_[static_cast<std::size_t>(feature)]; }
    // Number of codes, that of missing values included.
    int codes_of(int feature) const {
        return thresholds_of(feature) + 1 + (missing_code(feature) < 0 ? 0 : 1);
    }
    // The code of missing values; -1: they have none.
    int missing_code(int feature) const {
        return kind(feature) == CodeKind::numbers_or_missing ? thresholds_of(feature) + 1 : -1;
    }

    // Lines hold a code as a byte in which 0 stands for the feature's usual code, the most frequent
    // one, and the usual code for 0: histograms need not count what is usual.
    const std::uint8_t* line(int group_number, std::int64_t row) const {
        return bytes_.data() +
               (static_cast<std::size_t>(group_number) * static_cast<std::size_t>(rows_) +
                static_cast<std::size_t>(row)) *
                   line_size;
    }
    int usual(int feature) const { return usual_[static_cast<std::size_t>(feature)]; }
    // From a code to its byte, and back.
    int swapped(int feature, int code) const {
        const int usual_code = usual(feature);
        return code == usual_code ? 0 : code == 0 ? usual_code : code;
    }
    CodeRange at(std::int64_t row, int feature) const {
        const std::uint8_t* const bytes = line(feature / group, row) + feature % group;
        return {swapped(feature, bytes[0]), swapped(feature, bytes[group])};
    }

  private:
    void find_usual(const Ensemble& ensemble, const Attacker& attacker, const Rows& rows,
                    const Join& join);
    CodeRange range_of(int feature, const Limits& limits) const;

    std::vector<double> thresholds_;
    std::vector<std::int64_t> offsets_;
    std::vector<int> count_; // thresholds per feature
    std::vector<CodeKind> kind_;
    std::vector<std::uint8_t> usual_;
    std::vector<std::uint8_t> bytes_;
    std::int64_t rows_ = 0;
};

} // namespace carve
