#pragma once

// Elias's recursive (omega) codes of whole numbers from 1, and strings of bits (Elias 1975; Alistarh et al. 2017,
// section 3). The code of n ends in the bit 0. In front of it stands n in binary, if n is not 1; in front of that, by
// the same rule, the number of n's binary digits less 1. So 1 is 0, 2 is 10 0, 3 is 11 0, 4 is 10 100 0, 16 is 10 100
// 10000 0. Bits fill bytes from the highest on.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlbench::compress {

struct EliasCode {
  uint64_t bits = 0;
  int length = 1;
};

// Precondition: 1 <= number < 2^32. The length is at most 43.
constexpr EliasCode elias_code(uint64_t number) {
  EliasCode code;
  while (number > 1) {
    const int digits = std::bit_width(number);
    code.bits |= number << code.length;
    code.length += digits;
    number = static_cast<uint64_t>(digits) - 1;
  }
  return code;
}

class BitWriter {
 public:
  // The lowest `length` bits of `bits`, the highest of them first. Precondition: no other bit is set, length <= 56.
  void put(uint64_t bits, int length) {
    pending_ = (pending_ << length) | bits;
    for (waiting_ += length; waiting_ >= 8; waiting_ -= 8) {
      bytes_.push_back(static_cast<uint8_t>(pending_ >> (waiting_ - 8)));
    }
  }
  void put_elias(uint64_t number) {
    const EliasCode code = elias_code(number);
    put(code.bits, code.length);
  }
  // All that was put, filled up with zeros to a whole byte.
  std::vector<uint8_t> finish();

 private:
  std::vector<uint8_t> bytes_;
  uint64_t pending_ = 0;  // whose lowest waiting_ bits are in no byte yet
  int waiting_ = 0;
};

// Reads what a BitWriter wrote. Behind the end are zeros.
class BitReader {
 public:
  explicit BitReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool bit() {
    if (ready_ == 0) refill();
    const bool set = (word_ >> (kWordBits - 1)) != 0;
    take(1);
    return set;
  }
  // The number that put() wrote with so many bits. Precondition: 0 <= length <= 56.
  uint64_t number(int length) {
    if (ready_ < length) refill();
    const uint64_t number = length == 0 ? 0 : word_ >> (kWordBits - length);
    take(length);
    return number;
  }
  // Precondition: the code is that of a number below 2^32.
  uint64_t elias() {
    if (ready_ < kLongestCode) refill();
    const ShortCode& code = kShortCodes[word_ >> (kWordBits - 8)];
    if (code.length == 0) return long_elias();
    take(code.length);
    return code.number;
  }
  // Whether more bits were read than there are.
  bool is_behind_end() const { return 8 * next_ - static_cast<size_t>(ready_) > 8 * bytes_.size(); }

 private:
  static constexpr int kWordBits = 64, kLongestCode = 43;
  // By the first byte of a code: its number and length, where the code ends within that byte; else a length of 0.
  struct ShortCode {
    uint8_t number = 0, length = 0;
  };
  static constexpr std::array<ShortCode, 256> short_codes() {
    std::array<ShortCode, 256> codes{};
    for (uint64_t number = 1; number < 16; ++number) {  // the code of 16 has 11 bits
      const EliasCode code = elias_code(number);
      const int rest = 8 - code.length;
      for (uint64_t i = 0; i < (uint64_t{1} << rest); ++i) {
        codes[(code.bits << rest) | i] = {static_cast<uint8_t>(number), static_cast<uint8_t>(code.length)};
      }
    }
    return codes;
  }
  static const std::array<ShortCode, 256> kShortCodes;

  void take(int bits) {
    word_ <<= bits;
    ready_ -= bits;
  }
  // At least 56 bits are ready then.
  void refill();
  uint64_t long_elias();

  std::span<const uint8_t> bytes_;
  size_t next_ = 0;    // byte
  uint64_t word_ = 0;  // whose highest ready_ bits are the next ones; others may be set to what follows
  int ready_ = 0;
};

}  // namespace mlbench::compress
