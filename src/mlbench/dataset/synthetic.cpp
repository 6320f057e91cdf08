#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/dataset/dataset.h"

namespace mlbench::dataset {

namespace {

enum SyntheticStream : uint64_t { kPrototypes = 1, kNoise = 2 };

// Values in [64, 192), equal over cells of 4 x 4 pixels, so that convolution and pooling find the pattern too.
std::vector<uint8_t> make_prototype(const std::vector<int64_t>& shape, uint64_t key, int64_t label) {
  const bool image = shape.size() >= 2;
  const int64_t width = shape.back();
  const int64_t height = image ? shape[shape.size() - 2] : 1;
  int64_t planes = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) planes *= shape[i];
  const int64_t cell = image ? 4 : 1;

  std::vector<uint8_t> prototype;
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const auto position = static_cast<uint64_t>((plane * height + y / cell) * width + x / cell);
        const auto block = philox(key, position, static_cast<uint64_t>(label));
        prototype.push_back(static_cast<uint8_t>(64 + block[0] % 128));
      }
    }
  }
  return prototype;
}

// out = prototype + noise, the noise uniform in [-64, 64): sums stay within a byte.
void add_noise(const std::vector<uint8_t>& prototype, uint64_t key, uint64_t sample, std::span<std::byte> out) {
  for (size_t first = 0; first < out.size(); first += 16) {
    const auto block = philox(key, first / 16, sample);
    for (size_t i = 0; i < std::min<size_t>(16, out.size() - first); ++i) {
      const uint32_t noise = block[i / 4] >> (8 * (i % 4)) & 127;
      out[first + i] = static_cast<std::byte>(prototype[first + i] - 64 + noise);
    }
  }
}

}  // namespace

PreparedDataset make_synthetic(const DatasetDescription& description, uint64_t seed,
                               const std::filesystem::path& cache_dir) {
  const Format* format = find_format(description.format);
  if (format == nullptr || format->dtype != DType::kUInt8) {
    throw UserError(fmt::format("no synthetic data for format '{}' of {}: made data are uint8 images",
                                description.format, description.name));
  }
  std::vector<std::vector<uint8_t>> prototypes;
  const uint64_t prototype_key = derive_key(seed, {kSyntheticStream, kPrototypes});
  for (int64_t label = 0; label < description.classes; ++label) {
    prototypes.push_back(make_prototype(description.sample_shape, prototype_key, label));
  }
  const auto fill = [&](size_t split, const SplitBuffers& out) {
    const uint64_t noise_key = derive_key(seed, {kSyntheticStream, kNoise, split});
    const auto record = static_cast<size_t>(description.sample_volume());
    for (size_t i = 0; i < out.labels.size(); ++i) {
      const size_t label = i % prototypes.size();
      out.labels[i] = static_cast<int64_t>(label);
      add_noise(prototypes[label], noise_key, i, out.features.subspan(i * record, record));
    }
  };
  return open_or_make_cache({description, true, cache_key(description, {{"seed", seed}})}, cache_dir, fill, "", {});
}

}  // namespace mlbench::dataset
