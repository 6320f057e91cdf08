#include "mlbench/collectives/buffer_with_margins.h"

#include <algorithm>
#include <array>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::collectives {

namespace {

constexpr size_t kMargin = 64;
constexpr std::byte kUntouched{0xA5};
constexpr int64_t kStagedBytes = int64_t{256} << 10;  // stays in the cache

// Calls `use(from, n)` for consecutive pieces of [0, count) that fit into the stage.
template <typename Use>
void for_each_piece(int64_t count, size_t element_size, Use&& use) {
  const int64_t piece = kStagedBytes / static_cast<int64_t>(element_size);
  for (int64_t from = 0; from < count; from += piece) use(from, std::min(piece, count - from));
}

}  // namespace

BufferWithMargins::BufferWithMargins(Memory& memory, size_t most_bytes, size_t most_misaligned)
    : memory_(memory),
      most_bytes_(most_bytes),
      most_misaligned_(most_misaligned),
      owner_(memory.allocate(kMargin + most_misaligned + most_bytes + kMargin)),
      data_(owner_.get() + kMargin) {}

void BufferWithMargins::misalign(size_t bytes) {
  MLBENCH_CHECK(bytes <= most_misaligned_, "a buffer has room for its largest offset");
  data_ = owner_.get() + kMargin + bytes;
}

void BufferWithMargins::clear(size_t bytes) {
  MLBENCH_CHECK(bytes <= most_bytes_, "a buffer is as large as its largest use");
  memory_.fill(data_ - kMargin, kUntouched, kMargin + bytes + kMargin);
}

void BufferWithMargins::write(const Pattern& pattern, DType dtype, size_t at, int64_t first, int64_t count) {
  const size_t size = size_of(dtype);
  std::vector<std::byte> stage(static_cast<size_t>(std::min(kStagedBytes, count * static_cast<int64_t>(size))));
  for_each_piece(count, size, [&](int64_t from, int64_t n) {
    pattern.write(stage.data(), first + from, n);
    memory_.write(data_ + at + static_cast<size_t>(from) * size, stage.data(), static_cast<size_t>(n) * size);
  });
}

int64_t BufferWithMargins::differing(const Pattern& pattern, DType dtype, size_t at, int64_t first,
                                     int64_t count) const {
  const size_t size = size_of(dtype);
  std::vector<std::byte> stage(static_cast<size_t>(std::min(kStagedBytes, count * static_cast<int64_t>(size))));
  int64_t different = 0;
  for_each_piece(count, size, [&](int64_t from, int64_t n) {
    memory_.read(stage.data(), data_ + at + static_cast<size_t>(from) * size, static_cast<size_t>(n) * size);
    different += pattern.differing(stage.data(), first + from, n);
  });
  return different;
}

int64_t BufferWithMargins::trespasses(size_t bytes) const {
  int64_t changed = 0;
  for (const std::byte* margin : {data_ - kMargin, data_ + bytes}) {
    std::array<std::byte, kMargin> found;
    memory_.read(found.data(), margin, kMargin);
    changed += std::count_if(found.begin(), found.end(), [](std::byte one) { return one != kUntouched; });
  }
  return changed;
}

}  // namespace mlbench::collectives
