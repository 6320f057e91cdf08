#pragma once

// Samples that cannot be decoded. A run may allow some of them, and others stand in.

#include <cstdint>
#include <functional>
#include <string>

#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::data {

// A sample that cannot be decoded, and the one that stands in for it: the next one of its split that can be decoded,
// after the last the first. Where a part of the split is held out, the stand-in is of the same part. Its label comes
// with it, and its augmentation is its own. So a stand-in follows from (split, number) and the data alone.
struct BadSample {
  std::string split;
  int64_t number = 0, stand_in = 0;  // in the split
  std::string reason;                // without the name of the file
};

// What becomes of samples that cannot be decoded.
struct BadSampleRule {
  // How many distinct ones may be bad: as many in a row are looked at for a stand-in. 0: each is an error.
  int64_t most = 0;
  // Learns of the bad ones of a batch when the batch is handed out, on the thread that takes it, in the same order for
  // any number of threads. A sample is told each time that it comes. May throw. Must be set where `most` is not 0.
  std::function<void(const BadSample&)> tell = {};
};

// What names the file of an encoded image for people: the name of its folder or shard, and its key there.
std::string image_name(const dataset::CachedSplit& split, int64_t number);

}  // namespace mlbench::data
