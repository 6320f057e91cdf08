#pragma once

// Batches for benchmarks of steps: the same ones in every run. Those of text follow from formulas that
// bench/text_peer.py has, too, so that both sides compute on the same tokens.

#include <cstdint>
#include <deque>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/task.h"

namespace mlbench {

struct FixedBatch {
  BatchView view;
  std::vector<float> features;
  std::deque<std::vector<int64_t>> integers;  // of the view's tensors of ids, labels and lengths
};

// Features uniform in [0, 1), labels below 10.
FixedBatch random_images(const models::ModelDescription& model, const spec::TaskSpec& task, int64_t batch);

// `batch` columns of task.data.bptt positions: token (t, c) is (7919 t + 104729 c) mod vocabulary, its target that of
// (t + 1, c).
FixedBatch columns_of_text(const models::ModelDescription& model, const spec::TaskSpec& task, int64_t batch);

// `batch` pairs. Lengths go evenly from 20 to 50, of the sources rising, of the targets falling; token t of source s is
// 4 + (7919 t + 104729 s) mod (vocabulary - 4), of target s 4 + (104729 t + 7919 s) mod (vocabulary - 4). Lengths count
// a source's end and a target's end or begin.
FixedBatch pairs_of_sentences(const models::ModelDescription& model, const spec::TaskSpec& task, int64_t batch);

}  // namespace mlbench
