// Histograms of leaves: per feature, orientation and code, what the rows add up to that the
// attacker pushes there.
//
// Columns 0 … 31 of a group count rows where the attacker pushes them if the left side of a split
// scores lower, the others if it scores higher. A column has a bin per byte, see Codes::line: bin 0
// is that of the usual code. It is not counted, as it is the rest:
//
//   bin 0 = sums of the leaf - sum of the other bins of the column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "running/joining.hpp"
#include "training/codes.hpp"
#include "training/sums.hpp"

namespace carve {

using Histogram = std::vector<Sums>; // per group, column and byte

class Histograms {
  public:
    // Splits are at `usable` features alone. `sums` and `down` are per row of the codes, and must
    // stay where they are.
    Histograms(const Codes& codes, std::vector<int> usable, std::span<const Sums> sums,
               std::span<const std::uint8_t> down);

    Histogram blank();
    void give_back(Histogram&& histogram) { unused_.push_back(std::move(histogram)); }
    std::size_t bytes() const { return size_ * sizeof(Sums); }

    // Adds rows to a group of a blank histogram, but not to bins 0.
    void count(std::span<const std::int32_t> rows, int group, Histogram& histogram) const;
    // What was counted in histograms of this process becomes what was counted in all of them.
    void join(std::span<Histogram* const> counted, const Join& join) const;
    void fill_usual(const Sums& leaf, int group, Histogram& histogram) const;
    void subtract(const Histogram& sibling, int group, Histogram& parent) const;

    // The bins of a feature, by byte, if the left side is to score lower, or higher.
    const Sums* bins(const Histogram& histogram, int feature, bool left_lower) const {
        return histogram.data() + first_bin(feature, left_lower);
    }

  private:
    std::size_t first_bin(int feature, bool left_lower) const {
        const auto g = static_cast<std::size_t>(feature / Codes::group);
        const int column = feature % Codes::group + (left_lower ? 0 : Codes::group);
        return offset_[g] + static_cast<std::size_t>(column) * stride_[g];
    }
    // Calls visit(bin) for every bin that is counted and may be looked at.
    template <class Visit>
    void each_counted(std::span<Histogram* const> histograms, Visit&& visit) const;

    const Codes& codes_;
    std::vector<int> usable_;
    std::span<const Sums> sums_;
    std::span<const std::uint8_t> down_;
    std::vector<std::size_t> stride_; // per group: of a column
    std::vector<std::size_t> offset_; // per group
    std::size_t size_ = 0;
    std::vector<Histogram> unused_; // to be filled anew
};

} // namespace carve
