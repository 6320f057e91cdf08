#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset {

namespace {

uint32_t read_big_endian(InputFile& file) {
  std::array<std::byte, 4> bytes;
  file.read_exactly(bytes, "header");
  uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<uint32_t>(byte);
  return value;
}

void read_header(InputFile& file, const std::vector<int64_t>& expected) {
  const uint32_t magic = read_big_endian(file);
  const auto right_magic = static_cast<uint32_t>(0x0800 + expected.size());
  if (magic != right_magic) {
    throw UserError(fmt::format("{}: idx magic {:#010x}, expected {:#010x} (unsigned bytes in {} dimensions)",
                                file.path().string(), magic, right_magic, expected.size()));
  }
  std::vector<int64_t> extents;
  for (size_t i = 0; i < expected.size(); ++i) extents.push_back(read_big_endian(file));
  if (extents != expected) {
    throw UserError(fmt::format("{}: holds {} bytes, expected {} (samples first)", file.path().string(),
                                fmt::join(extents, " x "), fmt::join(expected, " x ")));
  }
}

}  // namespace

void read_idx(const DatasetDescription& description, const SplitSpec& split,
              const std::vector<std::filesystem::path>& files, const SplitBuffers& out) {
  // Grey images have no channel dimension in the file.
  std::vector<int64_t> extents = description.sample_shape;
  if (extents.size() == 3 && extents.front() == 1) extents.erase(extents.begin());
  extents.insert(extents.begin(), split.samples);

  InputFile images(files[0]);
  read_header(images, extents);
  images.read_exactly(out.features, "images");
  images.expect_end();

  InputFile labels(files[1]);
  read_header(labels, {split.samples});
  std::vector<std::byte> bytes(static_cast<size_t>(split.samples));
  labels.read_exactly(bytes, "labels");
  labels.expect_end();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto label = std::to_integer<int64_t>(bytes[i]);
    if (label >= description.classes) {
      throw UserError(fmt::format("{}: label {} of sample {}, expected 0 to {}", files[1].string(), label, i,
                                  description.classes - 1));
    }
    out.labels[i] = label;
  }
}

}  // namespace mlbench::dataset
