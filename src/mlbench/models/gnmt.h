#pragma once

// GNMT v2, the translator of task 4a (Wu et al. 2016, in the form of NVIDIA's and MLPerf's reference): LSTMs with
// normalised Bahdanau attention. The inputs are "source" and "target_in" {sentences, positions}, and "source_lengths".
// The targets are "target_out", whose padding (0) does not count at all.
//
//   encoder   x = dropout(embedding(source)); x = [lstm(x), reversed lstm(x)]
//             x = lstm(dropout(x)); from the third layer on: x = x + lstm(dropout(x)); memory = x
//   decoder   q = lstm(dropout(embedding(target_in))); c = attention(q, memory)
//             y = lstm(dropout([q, c])); from the third layer on: y = y + lstm(dropout([y, c]))
//   logits = y W^T + b
//
// Encoder and decoder share the embedding; the softmax has a weight of its own, as the number of parameters shows. The
// option size is full (4 + 4 layers of 1024), small (2 + 2 of 256) or tiny (3 + 3 of 16). Further options: dropout
// (0.2), initial_bound (0.1). Full, with 32,320 tokens, has 160,671,297 parameters. Initial values (MLBench's code):
// uniform within +-initial_bound, bias_hh 0; of the attention, score_scale 1 / sqrt(units), score_bias 0.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_gnmt(const spec::TaskSpec& task);

}  // namespace mlbench::models
