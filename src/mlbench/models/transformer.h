#pragma once

// Transformer (Vaswani et al. 2017), the translator of task 4b: pre-norm, a final LayerNorm in both stacks, no bias in
// the projections of attention, one embedding for source, target and softmax. The inputs are "source" and "target_in"
// {sentences, positions}, and "source_lengths". The targets are "target_out", whose padding (0) does not count at all.
//
//   e(ids) = dropout(sqrt(d) * embedding(ids) + positions)
//   encoder   x = e(source); each layer: x = x + dropout(attention(norm(x))), x = x + dropout(feed(norm(x)))
//   decoder   y = e(target_in); each layer: y = y + dropout(causal attention(norm(y))),
//             y = y + dropout(attention(norm(y), norm(x))), y = y + dropout(feed(norm(y)))
//   feed(x) = dropout(relu(x W1^T + b1)) W2^T + b2
//   logits = norm(y) embedding^T
//
// The option size is full (6 + 6 layers, d 1024, feed 4096, 16 heads), small (3 + 3, 128, 512, 4) or tiny (2 + 2, 16,
// 32, 2). Further options: dropout (0.1), attention_dropout (0.1, of the attention's weights), relu_dropout (0.1).
// Full, with 33,712 tokens, has 210,808,832 parameters. Initial values: embedding normal with deviation d^(-1/2), its
// row of the padding 0; matrices uniform within +-sqrt(6 / (rows + columns)) (Glorot & Bengio 2010), where queries,
// keys and values count as three matrices of d x d; biases 0.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_transformer(const spec::TaskSpec& task);

}  // namespace mlbench::models
