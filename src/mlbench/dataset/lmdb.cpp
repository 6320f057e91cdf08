#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/lmdb_entries.h"
#include "mlbench/dataset/tensorpack_row.h"

namespace mlbench::dataset {

namespace {

// Decodes the row `number` of `file` and returns its class.
int64_t read_row(const std::string& file, const LmdbEntries::Entry& entry, size_t number, int64_t classes,
                 std::span<float> features) {
  const std::string key = fmt::format("{:08}", number);
  if (entry.key != key) {
    throw UserError(fmt::format("{}: the key '{}' is in the place of '{}'", file, printable(entry.key, 40), key));
  }
  try {
    const double label = read_tensorpack_row(entry.value, features);
    if (const auto known = class_of_label(label, classes)) return *known;
    throw UserError(fmt::format("the label is {}, expected {}", label, label_choices(classes)));
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: row {}: {}", file, key, error.what()));
  }
}

}  // namespace

void read_lmdb(const DatasetDescription& description, const SplitSpec& split,
               const std::vector<std::filesystem::path>& files, const SplitBuffers& out) {
  const auto volume = static_cast<size_t>(description.sample_volume());
  const std::span<float> features(reinterpret_cast<float*>(out.features.data()), out.features.size() / sizeof(float));
  const std::string file = files[0].string();
  LmdbEntries entries(files[0]);
  for (size_t sample = 0; sample < out.labels.size(); ++sample) {
    const auto entry = entries.next();
    if (!entry) throw UserError(fmt::format("{}: ends after {} samples, expected {}", file, sample, split.samples));
    out.labels[sample] = read_row(file, *entry, sample, description.classes, features.subspan(sample * volume, volume));
  }
  if (entries.next()) throw UserError(fmt::format("{}: goes on after its {} samples", file, split.samples));
}

}  // namespace mlbench::dataset
