#include "mlbench/collectives/pattern.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "mlbench/base/errors.h"
#include "mlbench/comm/half.h"

namespace mlbench::collectives {

namespace {

using spec::Reduction;

constexpr int64_t kPeriodsPerChunk = 16;
constexpr int64_t kValues = 127;  // so many values fit into every type
constexpr int64_t kMostTwos = 6;  // in one product

template <typename T>
void store_as(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

void store(DType dtype, int64_t value, std::byte* to) {
  switch (dtype) {
    case DType::kUInt8:
      return store_as(static_cast<uint8_t>(value), to);
    case DType::kInt8:
      return store_as(static_cast<int8_t>(value), to);
    case DType::kInt32:
      return store_as(static_cast<int32_t>(value), to);
    case DType::kInt64:
      return store_as(value, to);
    case DType::kFloat16:
      return store_as(comm::float_to_float16(static_cast<float>(value)), to);
    case DType::kBFloat16:
      return store_as(comm::float_to_bfloat16(static_cast<float>(value)), to);
    case DType::kFloat32:
      return store_as(static_cast<float>(value), to);
    case DType::kFloat64:
      return store_as(static_cast<double>(value), to);
  }
}

template <typename T>
T load_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Loads an element of a float type.
double load(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kFloat16:
      return comm::float16_to_float(load_as<uint16_t>(from));
    case DType::kBFloat16:
      return comm::bfloat16_to_float(load_as<uint16_t>(from));
    case DType::kFloat32:
      return load_as<float>(from);
    default:
      return load_as<double>(from);
  }
}

bool is_integer(DType dtype) {
  return dtype == DType::kUInt8 || dtype == DType::kInt8 || dtype == DType::kInt32 || dtype == DType::kInt64;
}

// The largest n for which the type holds all whole numbers from 0 to n.
int64_t exact_up_to(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return std::numeric_limits<uint8_t>::max();
    case DType::kInt8:
      return std::numeric_limits<int8_t>::max();
    case DType::kInt32:
      return std::numeric_limits<int32_t>::max();
    case DType::kFloat16:
      return int64_t{1} << 11;
    case DType::kBFloat16:
      return int64_t{1} << 8;
    case DType::kFloat32:
      return int64_t{1} << 24;
    default:
      return int64_t{1} << 53;
  }
}

// A value from 0 to kPeriod - 1.
int64_t mixed(int64_t place, int64_t source, int64_t destination, uint64_t seed) {
  const auto turn = static_cast<int64_t>(seed % kPeriod);
  return (3 * place * place + 7 * place + 29 * source + 53 * destination + 83 * turn) % kPeriod;
}

int64_t in_sum(const Reduced& what, int64_t rank, int64_t place) {
  const int64_t exact = exact_up_to(what.dtype);
  const int64_t values = is_integer(what.dtype) ? kValues : std::min(kValues, exact / what.ranks + 1);
  if (values > 1) return mixed(place, rank, 0, what.seed) % values;
  const int64_t distance = (what.ranks + exact - 1) / exact + 1;
  return (mixed(place, 0, 0, what.seed) + rank) % distance == 0 ? 1 : 0;
}

int64_t in_product(const Reduced& what, int64_t rank, int64_t place) {
  static constexpr int64_t kFactors[] = {1, -1, 2, -2};
  const int64_t distance = (what.ranks + kMostTwos - 1) / kMostTwos;
  const bool may_be_two = (place + rank) % distance == 0;
  return kFactors[mixed(place, rank, 0, what.seed) % (may_be_two ? 4 : 2)];
}

int64_t in_average(const Reduced& what, int64_t rank, int64_t place) {
  const int64_t room = exact_up_to(what.dtype) - (what.ranks - 1);
  const int64_t values = room < 0 ? 1 : std::min(kValues, room / what.ranks + 1);
  const auto plain = [&](int64_t of) { return mixed(place, of, 0, what.seed) % values; };
  if (rank != 0) return plain(rank);
  int64_t sum = 0;
  for (int64_t of = 0; of < what.ranks; ++of) sum += plain(of);
  return plain(0) + (what.ranks - sum % what.ranks) % what.ranks;
}

int64_t given(const Reduced& what, int64_t rank, int64_t place) {
  switch (what.reduction) {
    case Reduction::kSum:
      return in_sum(what, rank, place);
    case Reduction::kProd:
      return in_product(what, rank, place);
    case Reduction::kAvg:
      return in_average(what, rank, place);
    default:
      return mixed(place, rank, 0, what.seed) % kValues;
  }
}

int64_t combined(Reduction reduction, int64_t a, int64_t b) {
  switch (reduction) {
    case Reduction::kProd:
      return a * b;
    case Reduction::kMin:
      return std::min(a, b);
    case Reduction::kMax:
      return std::max(a, b);
    default:
      return a + b;
  }
}

}  // namespace

Pattern::Pattern(DType dtype, const std::function<int64_t(int64_t place)>& value)
    : dtype_(dtype), size_(size_of(dtype)), bytes_(static_cast<size_t>((kPeriodsPerChunk + 1) * kPeriod) * size_) {
  const size_t period = static_cast<size_t>(kPeriod) * size_;
  for (int64_t place = 0; place < kPeriod; ++place) {
    store(dtype, value(place), bytes_.data() + static_cast<size_t>(place) * size_);
  }
  for (size_t at = period; at < bytes_.size(); at += period) std::memcpy(bytes_.data() + at, bytes_.data(), period);
}

void Pattern::write(std::byte* to, int64_t first, int64_t count) const {
  const std::byte* from = bytes_.data() + static_cast<size_t>(first % kPeriod) * size_;
  for (int64_t done = 0; done < count; done += kPeriodsPerChunk * kPeriod) {
    const auto n = static_cast<size_t>(std::min(count - done, kPeriodsPerChunk * kPeriod));
    std::memcpy(to + static_cast<size_t>(done) * size_, from, n * size_);
  }
}

int64_t Pattern::differing(const std::byte* from, int64_t first, int64_t count) const {
  const std::byte* right = bytes_.data() + static_cast<size_t>(first % kPeriod) * size_;
  int64_t different = 0;
  for (int64_t done = 0; done < count; done += kPeriodsPerChunk * kPeriod) {
    const auto n = static_cast<size_t>(std::min(count - done, kPeriodsPerChunk * kPeriod));
    const std::byte* chunk = from + static_cast<size_t>(done) * size_;
    if (std::memcmp(chunk, right, n * size_) == 0) continue;
    for (size_t i = 0; i < n; ++i) {
      if (std::memcmp(chunk + i * size_, right + i * size_, size_) == 0) continue;
      if (relative_error_ == 0 || !near(chunk + i * size_, right + i * size_)) ++different;
    }
  }
  return different;
}

bool Pattern::near(const std::byte* element, const std::byte* right) const {
  const double expected = load(dtype_, right);
  return std::abs(load(dtype_, element) - expected) <= relative_error_ * std::abs(expected);
}

Pattern moved_pattern(DType dtype, int source, int destination, uint64_t seed) {
  return Pattern(dtype, [&](int64_t place) { return mixed(place, source, destination, seed) % kValues; });
}

Pattern given_pattern(const Reduced& what, int rank) {
  return Pattern(what.dtype, [&](int64_t place) { return given(what, rank, place); });
}

Pattern outcome_pattern(const Reduced& what) {
  Pattern outcome(what.dtype, [&](int64_t place) {
    int64_t value = given(what, 0, place);
    for (int64_t rank = 1; rank < what.ranks; ++rank) {
      value = combined(what.reduction, value, given(what, rank, place));
    }
    if (what.reduction != Reduction::kAvg) return value;
    MLBENCH_CHECK(value % what.ranks == 0, "the sum of an average is a multiple of the number of ranks");
    return value / what.ranks;
  });
  const bool rounds = !std::has_single_bit(static_cast<unsigned>(what.ranks)) && !is_integer(what.dtype);
  if (what.scaled_first && what.reduction == Reduction::kAvg && rounds) {
    const double roundoff = 1 / static_cast<double>(exact_up_to(what.dtype));
    outcome.allow((what.ranks + 2) * roundoff);
  }
  return outcome;
}

}  // namespace mlbench::collectives
