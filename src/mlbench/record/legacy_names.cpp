#include "mlbench/record/legacy_names.h"

#include <fmt/format.h>

#include "mlbench/spec/split.h"

namespace mlbench::record {

namespace {

constexpr std::string_view kTrainPrefix = "train_", kTestPrefix = "val_", kTogetherPrefix = "val_global_";

}  // namespace

SeriesKey key_of_legacy_name(std::string_view name, int64_t rank) {
  const auto behind = [&](std::string_view prefix) {
    return name.starts_with(prefix) ? std::string(name.substr(prefix.size())) : std::string();
  };
  if (name.starts_with(kTogetherPrefix)) {
    // Each rank may write what all agreed on: one rank's value is enough.
    std::string metric = behind(kTogetherPrefix);
    if (rank == 0 && !metric.empty()) return {spec::kTestSplit, std::move(metric), kAllRanks};
    return {"", std::string(name), rank};
  }
  if (std::string metric = behind(kTrainPrefix); !metric.empty()) return {spec::kTrainSplit, std::move(metric), rank};
  if (std::string metric = behind(kTestPrefix); !metric.empty()) return {spec::kTestSplit, std::move(metric), rank};
  return {"", std::string(name), rank};
}

LegacyName legacy_name_of(const SeriesKey& key) {
  const bool together = key.rank == kAllRanks;
  std::string_view prefix;
  if (key.split == spec::kTrainSplit) prefix = kTrainPrefix;
  if (key.split == spec::kTestSplit) prefix = together ? kTogetherPrefix : kTestPrefix;
  return {std::string(prefix) + key.metric, together ? 0 : key.rank};
}

std::string with_rank(const LegacyName& name) { return fmt::format("{} @ {}", name.name, name.rank); }

}  // namespace mlbench::record
