#pragma once

// Made text, in the form of prepared one: for speed where there are no files. Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset::text {

// make_synthetic() of synthetic.h, for formats of text: as many pairs, or tokens, as the description says, of its whole
// vocabulary; words are "w4", "w5", ... Nothing that people write: no references, so that nothing is translated.
PreparedDataset make_synthetic_text(const DatasetDescription& description, const std::filesystem::path& cache_dir,
                                    const Progress& progress);

// Sentence `number` of a split, without its end; a function of seed, split and number alone. Its length is log-normal
// with the description's synthetic_length as median and deviation 0.6 of the logarithm, from 1 to 100 tokens. Ids are
// from 4 on, in frequency as 1 / rank. The target has for each source token one image, the same wherever it stands; for
// a tenth of the ids two, and for a tenth none: so it can be learned, and lengths differ. At least one token.
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
