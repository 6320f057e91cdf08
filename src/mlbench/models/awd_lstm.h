#pragma once

// AWD-LSTM (Merity, Keskar & Socher 2017), the language model of task 3a: an embedding, LSTMs of which the last has the
// embedding's size, and a softmax that shares the embedding's weight and has a bias. The inputs are "tokens" and the
// targets "targets", both {positions, columns}; the states are carried from batch to batch.
//
//   x = locked_dropout(embedding(tokens), input_dropout)       rows of the embedding dropped by embedding_dropout
//   for each layer but the last: x = locked_dropout(lstm(x), hidden_dropout)       weight_hh dropped by weight_dropout
//   h = lstm(x), d = locked_dropout(h, output_dropout)
//   logits = d embedding^T + bias
//   penalty activation_regularisation * mean(d^2) + temporal_regularisation * mean((h[t + 1] - h[t])^2)
//
// The option size is full (embedding 400, LSTMs 400-1150-1150-400), small (two LSTMs of 200, embedding 200) or tiny
// (13-20-13). Further options: output_dropout (0.4), hidden_dropout (0.2), input_dropout (0.65), embedding_dropout
// (0.1), weight_dropout (0.5), activation_regularisation (2), temporal_regularisation (1). Full, with 33,278 tokens,
// has 33,556,078 parameters. Initial values (authors' code): embedding uniform within +-0.1, LSTMs within +-1 /
// sqrt(hidden), bias 0.

#include "mlbench/models/model.h"

namespace mlbench::models {

ModelDescription describe_awd_lstm(const spec::TaskSpec& task);

}  // namespace mlbench::models
