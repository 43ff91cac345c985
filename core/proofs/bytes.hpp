// How proofs are written: docs/proofs.md, "The file".
#pragma once

#include <bit>
#include <cstdint>
#include <string>

namespace carve {

class Bytes {
  public:
    void byte(std::uint8_t value) { text_.push_back(static_cast<char>(value)); }
    // Seven bits at a time, the lowest first; the top bit of a byte says that more follow.
    void number(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7)
            byte(static_cast<std::uint8_t>(value | 0x80));
        byte(static_cast<std::uint8_t>(value));
    }
    // n >= 0 as 2n, n < 0 as -2n - 1.
    void signed_number(std::int64_t value) {
        const auto bits = static_cast<std::uint64_t>(value) << 1;
        number(value < 0 ? ~bits : bits);
    }
    void real(double value) {
        auto bits = std::bit_cast<std::uint64_t>(value);
        for (int i = 0; i < 8; ++i, bits >>= 8)
            byte(static_cast<std::uint8_t>(bits));
    }
    void append(const Bytes& other) { text_ += other.text_; }

    std::size_t size() const { return text_.size(); }
    void cut(std::size_t size) { text_.resize(size); }
    void clear() { text_.clear(); }
    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

} // namespace carve
