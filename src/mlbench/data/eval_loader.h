#pragma once

#include <cstdint>
#include <memory>

#include "mlbench/base/buffer.h"
#include "mlbench/data/shard.h"
#include "mlbench/data/transform.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::data {

// This rank's part of an evaluation split, in order, in batches of up to `batch_size`; returns nullptr at the end.
// Rank r takes rows [r*N/k, (r+1)*N/k). Decoded when asked; a dense piece of the mapped cache where the transform
// leaves samples as they are. A view is valid until the next call.
class EvalLoader {
 public:
  virtual ~EvalLoader() = default;
  virtual void restart() = 0;
  virtual const BatchView* next() = 0;
};
std::unique_ptr<EvalLoader> make_eval_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                             const Shard& shard, int64_t batch_size);

}  // namespace mlbench::data
