#pragma once

// For tests of communication: buffers of any dtype, and their contents: small whole numbers whose right sums, products
// and averages over five ranks are exact in every dtype, by closed formulas.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/comm/communicator.h"

namespace mlbench::comm {

// The period of all values below, which are functions of the element's number.
inline constexpr int64_t kPeriod = 13;

// Element i of rank `rank`.
inline int datum(int rank, int64_t i) { return static_cast<int>((i * 5 + rank * 7 + 3) % kPeriod); }

// Element i of what rank `rank` puts into a reduction.
inline int operand(ReduceOp op, int rank, int64_t i) {
  if (op == ReduceOp::kProd) return datum(rank, i) % 3 + 1;  // at most 3^5 = 243: eight bits
  if (op == ReduceOp::kAvg) return datum(0, i) + 2 * rank;   // the average is a whole number
  return datum(rank, i);
}

// Element i of the result of a reduction over `size` ranks.
inline int reduced(ReduceOp op, int size, int64_t i) {
  if (op == ReduceOp::kAvg) return datum(0, i) + size - 1;
  int result = operand(op, 0, i);
  for (int rank = 1; rank < size; ++rank) {
    const int value = operand(op, rank, i);
    if (op == ReduceOp::kSum) result += value;
    if (op == ReduceOp::kProd) result *= value;
    if (op == ReduceOp::kMin) result = std::min(result, value);
    if (op == ReduceOp::kMax) result = std::max(result, value);
  }
  return result;
}

inline std::string op_name(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "prod", "min", "max", "avg"};
  return kNames[static_cast<size_t>(op)];
}

// The bits of a small whole number, by the definition of the format rather than by the code under test.
inline uint16_t small_float_bits(int value, int mantissa_bits, int bias) {
  if (value == 0) return 0;
  const int exponent = std::bit_width(static_cast<unsigned>(value)) - 1;
  const int mantissa = (value << mantissa_bits >> exponent) - (1 << mantissa_bits);
  return static_cast<uint16_t>((exponent + bias) << mantissa_bits | mantissa);
}

// Where a buffer begins: at an address that vectors prefer, or one element further.
enum class Start : uint8_t { kAligned, kOdd };

// A buffer that owns its memory, with zeros around it that nobody may change.
class Values {
 public:
  Values(DType dtype, int64_t count, Start start = Start::kAligned)
      : dtype_(dtype), count_(count), first_(start == Start::kOdd ? size_of(dtype) : 0) {
    bytes_.resize(first_ + size_bytes() + size_of(dtype));
  }
  // Sets element i to value(i).
  template <typename Function>
  Values(DType dtype, int64_t count, Function value, Start start = Start::kAligned) : Values(dtype, count, start) {
    fill(0, count, value);
  }

  // Sets element first + i to value(i), for i below `count`.
  template <typename Function>
  void fill(int64_t first, int64_t count, Function value) {
    const int64_t fresh = std::min(count, kPeriod);
    for (int64_t i = 0; i < fresh; ++i) put(first + i, value(i));
    // The rest repeats these elements, in copies that double.
    for (int64_t done = fresh, more = 0; done < count; done += more) {
      more = std::min(done, count - done);
      std::memcpy(place_of(first + done), place_of(first), static_cast<size_t>(more) * size_of(dtype_));
    }
  }

  BufferView view() { return {bytes_.data() + first_, count_, dtype_, {}}; }
  BufferView view(int64_t first, int64_t count) { return view().slice(first, count); }

  // The first difference; "" where there is none.
  std::string difference(const Values& expected) const {
    if (!std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(first_), is_zero) ||
        !std::all_of(bytes_.end() - static_cast<std::ptrdiff_t>(size_of(dtype_)), bytes_.end(), is_zero)) {
      return "an element beside the buffer was written";
    }
    if (count_ != expected.count_) return fmt::format("{} elements instead of {}", count_, expected.count_);
    const std::byte* own = bytes_.data() + first_;
    const std::byte* other = expected.bytes_.data() + expected.first_;
    if (std::memcmp(own, other, size_bytes()) == 0) return "";
    const size_t byte = static_cast<size_t>(std::mismatch(own, own + size_bytes(), other).first - own);
    const size_t element = byte / size_of(dtype_);
    return fmt::format("element {} of {} {} differs: bytes {} instead of {}", element, count_, name_of(dtype_),
                       hex(own, element), hex(other, element));
  }

 private:
  static bool is_zero(std::byte byte) { return byte == std::byte{}; }
  size_t size_bytes() const { return static_cast<size_t>(count_) * size_of(dtype_); }
  std::byte* place_of(int64_t i) { return bytes_.data() + first_ + static_cast<size_t>(i) * size_of(dtype_); }

  void put(int64_t i, int value) {
    const auto write = [&](auto typed) { std::memcpy(place_of(i), &typed, sizeof typed); };
    switch (dtype_) {
      case DType::kUInt8:
        write(static_cast<uint8_t>(value));
        break;
      case DType::kInt8:
        write(static_cast<int8_t>(value));
        break;
      case DType::kInt32:
        write(static_cast<int32_t>(value));
        break;
      case DType::kInt64:
        write(static_cast<int64_t>(value));
        break;
      case DType::kFloat16:
        write(small_float_bits(value, 10, 15));
        break;
      case DType::kBFloat16:
        write(small_float_bits(value, 7, 127));
        break;
      case DType::kFloat32:
        write(static_cast<float>(value));
        break;
      case DType::kFloat64:
        write(static_cast<double>(value));
        break;
    }
  }
  std::string hex(const std::byte* begin, size_t element) const {
    std::string text;
    for (size_t i = 0; i < size_of(dtype_); ++i) {
      text += fmt::format("{:02x}", std::to_integer<int>(begin[element * size_of(dtype_) + i]));
    }
    return text;
  }

  DType dtype_;
  int64_t count_;
  size_t first_;
  std::vector<std::byte> bytes_;
};

}  // namespace mlbench::comm
