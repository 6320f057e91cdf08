#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset {

namespace {

// The coarse label of each fine label of CIFAR-100, whose names are listed on its page.
constexpr std::array<uint8_t, 100> kCoarseLabels = {
    4,  1,  14, 8,  0,  6,  7,  7, 18, 3,  3,  14, 9, 18, 7,  11, 3,  9, 7,  11, 6,  11, 5,  10, 7,
    6,  13, 15, 3,  15, 0,  11, 1, 10, 12, 14, 16, 9, 11, 5,  5,  19, 8, 8,  15, 13, 14, 17, 18, 10,
    16, 4,  17, 4,  2,  0,  17, 4, 18, 17, 10, 3,  2, 12, 12, 16, 12, 1, 9,  19, 2,  10, 0,  1,  16,
    12, 9,  13, 15, 13, 16, 19, 2, 4,  6,  19, 5,  5, 8,  19, 18, 1,  2, 15, 6,  0,  17, 8,  14, 13};

// Calls `take(record, index, file, sample)` for each record of each file: the record's bytes, its index in the split,
// the file, and its number there, for messages.
template <typename Take>
void for_records(const std::vector<std::filesystem::path>& files, size_t samples, size_t record_bytes,
                 const Take& take) {
  const size_t per_file = samples / files.size();
  MLBENCH_CHECK(per_file * files.size() == samples, "parse_description() checks that files hold equally many");
  std::vector<std::byte> record(record_bytes);
  for (size_t f = 0; f < files.size(); ++f) {
    InputFile file(files[f]);
    for (size_t i = 0; i < per_file; ++i) {
      file.read_exactly(record, fmt::format("record {} of {}", i, per_file).c_str());
      take(std::span<const std::byte>(record), f * per_file + i, files[f], i);
    }
    file.expect_end();
  }
}

int64_t checked_label(std::byte byte, int64_t classes, const std::filesystem::path& file, size_t sample) {
  const auto label = std::to_integer<int64_t>(byte);
  if (label < classes) return label;
  throw UserError(
      fmt::format("{}: label {} of sample {}, expected 0 to {}", file.string(), label, sample, classes - 1));
}

void take_image(std::span<const std::byte> image, size_t index, const SplitBuffers& out) {
  std::ranges::copy(image, out.features.begin() + static_cast<std::ptrdiff_t>(index * image.size()));
}

// Adds the records of one of `files` files to `hash`; `labels(label)` has the label bytes of a record.
template <typename Labels>
void hash_records(const CachedSplit& split, size_t file, size_t files, Sha256& hash, const Labels& labels) {
  const std::span<const int64_t> all_labels = split.labels();
  const auto& images = split.column<FixedColumn>("features");
  const auto volume = static_cast<size_t>(images.volume());
  const size_t per_file = all_labels.size() / files;
  const std::span features = std::as_bytes(images.as<uint8_t>());
  for (size_t i = file * per_file; i < (file + 1) * per_file; ++i) {
    hash.update(labels(static_cast<size_t>(all_labels[i])));
    hash.update(features.subspan(i * volume, volume));
  }
}

}  // namespace

void read_cifar(const DatasetDescription& description, const SplitSpec&,
                const std::vector<std::filesystem::path>& files, const SplitBuffers& out) {
  const auto volume = static_cast<size_t>(description.sample_volume());
  for_records(files, out.labels.size(), 1 + volume, [&](auto record, size_t index, const auto& file, size_t sample) {
    out.labels[index] = checked_label(record[0], description.classes, file, sample);
    take_image(record.subspan(1), index, out);
  });
}

void hash_cifar_file(const CachedSplit& split, size_t file, size_t files, Sha256& hash) {
  hash_records(split, file, files, hash, [](size_t label) { return std::array{static_cast<std::byte>(label)}; });
}

void read_cifar100(const DatasetDescription& description, const SplitSpec&,
                   const std::vector<std::filesystem::path>& files, const SplitBuffers& out) {
  const auto volume = static_cast<size_t>(description.sample_volume());
  const int64_t classes = std::min<int64_t>(description.classes, std::ssize(kCoarseLabels));
  for_records(files, out.labels.size(), 2 + volume, [&](auto record, size_t index, const auto& file, size_t sample) {
    const int64_t fine = checked_label(record[1], classes, file, sample);
    const int coarse = std::to_integer<int>(record[0]), expected = kCoarseLabels[static_cast<size_t>(fine)];
    if (coarse != expected) {
      throw UserError(fmt::format("{}: coarse label {} of sample {} with fine label {}, expected {}", file.string(),
                                  coarse, sample, fine, expected));
    }
    out.labels[index] = fine;
    take_image(record.subspan(2), index, out);
  });
}

void hash_cifar100_file(const CachedSplit& split, size_t file, size_t files, Sha256& hash) {
  hash_records(split, file, files, hash, [](size_t label) {
    return std::array{static_cast<std::byte>(kCoarseLabels[label]), static_cast<std::byte>(label)};
  });
}

}  // namespace mlbench::dataset
