#include "mlbench/compress/elias_codes.h"

#include <cstring>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::compress {

constexpr std::array<BitReader::ShortCode, 256> BitReader::kShortCodes = BitReader::short_codes();

std::vector<uint8_t> BitWriter::finish() {
  if (waiting_ > 0) put(0, 8 - waiting_);
  return std::exchange(bytes_, {});
}

void BitReader::refill() {
  if (next_ + sizeof word_ <= bytes_.size()) {
    std::array<uint8_t, sizeof word_> bytes{};
    std::memcpy(bytes.data(), bytes_.data() + next_, bytes.size());
    uint64_t word = 0;
    for (const uint8_t byte : bytes) word = (word << 8) | byte;
    word_ |= word >> ready_;
    const int taken = (kWordBits - 1 - ready_) / 8;
    next_ += static_cast<size_t>(taken);
    ready_ += 8 * taken;
    return;
  }
  for (; ready_ <= kWordBits - 8; ready_ += 8, ++next_) {
    const uint64_t byte = next_ < bytes_.size() ? bytes_[next_] : 0;
    word_ |= byte << (kWordBits - 8 - ready_);
  }
}

uint64_t BitReader::long_elias() {
  uint64_t number = 1;
  while ((word_ >> (kWordBits - 1)) != 0) {
    MLBENCH_CHECK(number < 32, "a code of a number of 2^32 or more");
    const int digits = static_cast<int>(number) + 1;
    number = word_ >> (kWordBits - digits);
    take(digits);
  }
  take(1);
  return number;
}

}  // namespace mlbench::compress
