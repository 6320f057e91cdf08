#include <fmt/format.h>

#include <array>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset {

void read_cifar(const DatasetDescription& description, const SplitSpec&,
                const std::vector<std::filesystem::path>& files, const SplitBuffers& out) {
  const auto volume = static_cast<size_t>(description.sample_volume());
  const size_t per_file = out.labels.size() / files.size();
  MLBENCH_CHECK(per_file * files.size() == out.labels.size(),
                "parse_description() checks that files hold equally many");
  std::vector<std::byte> record(1 + volume);
  for (size_t f = 0; f < files.size(); ++f) {
    InputFile file(files[f]);
    for (size_t i = f * per_file; i < (f + 1) * per_file; ++i) {
      file.read_exactly(record, fmt::format("record {} of {}", i - f * per_file, per_file).c_str());
      const auto label = std::to_integer<int64_t>(record.front());
      if (label >= description.classes) {
        throw UserError(fmt::format("{}: label {} of sample {}, expected 0 to {}", files[f].string(), label,
                                    i - f * per_file, description.classes - 1));
      }
      out.labels[i] = label;
      std::copy(record.begin() + 1, record.end(), out.features.begin() + static_cast<std::ptrdiff_t>(i * volume));
    }
    file.expect_end();
  }
}

void hash_cifar_file(const CachedSplit& split, size_t file, size_t files, Sha256& hash) {
  const auto volume = static_cast<size_t>(split.sample_volume());
  const size_t per_file = split.labels.size() / files;
  const std::span features(static_cast<const std::byte*>(split.features.data), split.labels.size() * volume);
  for (size_t i = file * per_file; i < (file + 1) * per_file; ++i) {
    const std::array label = {static_cast<std::byte>(split.labels[i])};
    hash.update(label);
    hash.update(features.subspan(i * volume, volume));
  }
}

}  // namespace mlbench::dataset
