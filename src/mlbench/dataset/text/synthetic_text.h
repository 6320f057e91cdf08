#pragma once

// Made text in the form of prepared text, to measure speed where there are no files. Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset::text {

// What make_synthetic() of synthetic.h does for formats of text: as many pairs, or tokens, as the description says,
// from its whole vocabulary, with the words "w4", "w5", ... It has no references, so nothing can be translated and
// scored.
PreparedDataset make_synthetic_text(const DatasetDescription& description, const std::filesystem::path& cache_dir,
                                    const Progress& progress);

// A made pair of sentences, without kEnd: a function of seed, split and number alone.
// The source's length is log-normal from 1 to 100 tokens, with the description's synthetic_length as median and a
// deviation of 0.6 of the logarithm. Its ids are from 4 on, with a frequency of 1 / rank. Each source id has one image
// in the target, the same wherever it stands; a tenth of the ids have two, and a tenth none. So the mapping can be
// learned, and lengths differ. The target has at least one token.
struct MadePair {
  std::vector<int32_t> source, target;
};
class PairMaker {
 public:
  PairMaker(const DatasetDescription& description, size_t split);
  MadePair make(int64_t number) const;

 private:
  int32_t image(int32_t id, int32_t step) const;

  uint64_t key_;
  int64_t ids_, stride_;
  double median_;
};

}  // namespace mlbench::dataset::text
