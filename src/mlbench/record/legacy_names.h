#pragma once

// MLBench's flat names of metrics, which its API, its archive and its Tracker use, and which are the tags of
// TensorBoard:
//   train_METRIC                 (train, METRIC, RANK)
//   val_METRIC                   (test, METRIC, RANK)
//   val_global_METRIC of rank 0  (test, METRIC, all ranks)
//   any other NAME               ("", NAME, RANK); this includes val_global_METRIC of another rank

#include <cstdint>
#include <string>
#include <string_view>

#include "mlbench/record/series_key.h"

namespace mlbench::record {

struct LegacyName {
  std::string name;
  int64_t rank = 0;
  bool operator==(const LegacyName&) const = default;
};

SeriesKey key_of_legacy_name(std::string_view name, int64_t rank);
// The name from which the key was made. A value over all ranks is rank 0's.
LegacyName legacy_name_of(const SeriesKey& key);
// "NAME @ RANK", as the API and the archive have it.
std::string with_rank(const LegacyName& name);

}  // namespace mlbench::record
