#pragma once

// The kinds of layers: one table of names, options, inputs, parameters and shapes. A framework implements a kind or
// refuses it by name. The writers of descriptions (chain.h, graph.h) take shapes and parameters from here.
//
// Shapes in chains are those of one sample, without the batch. Shapes in graphs are whole, and kAny stands for an
// extent that differs from batch to batch: sequences {kAny, kAny, features}, ids {kAny, kAny}, lengths {kAny}.
//
// kind                parameters                options; meaning
// conv2d              weight (OIHW), bias       in, out, kernel, stride, padding (zeros on every side), bias: has it
//                                               one?
// linear              weight (OI), bias         in, out, bias; of a sequence: of each position
// relu, softplus, flatten                       none; softplus and avg_pool2d make models smooth, in tests
// max_pool2d, avg_pool2d                        kernel, stride, padding (at most half the kernel): as PyTorch's, so
//                                               extents are rounded down. Maxima are over pixels of the image alone;
//                                               in means the padding counts as zeros
// adaptive_avg_pool2d                           size: means over as many rows and columns of windows, of extents as
//                                               equal as they can be (PyTorch's); images of that size stay
// global_avg_pool2d                             none: mean over height and width, {channels} remain
// global_avg_max_pool2d                         none: means over height and width, then maxima: {2 * channels}
// batch_norm2d        weight, bias;             channels, eps, momentum: weight of the batch in the running statistics
//                     running_mean, _var        (variance of the batch: biased to normalise, unbiased to be averaged)
// residual            those of its chains       none: body(x) + shortcut(x); an empty shortcut is the identity
// dropout             none                      p: probability of zero; what is kept is scaled by 1 / (1 - p)
//
// These belong to graphs alone; T positions, B sequences, D features:
// embedding           weight (vocabulary, D)    vocabulary, features (D), scale, row_dropout: ids to scale * rows. A
//                                               row is dropped with probability row_dropout, wherever its id stands
//                                               (Gal & Ghahramani 2016; mask [vocabulary]), the others are scaled
// transpose           none                      none: {a, b, ...} to {b, a, ...}
// positions           none                      x of {B, T, D} + P, P[t, 2i] = sin(t / 10000^(2i / D)), P[t, 2i + 1]
//                                               the cosine of the same (Vaswani et al. 2017); t from 0
// layer_norm          weight, bias (D)          features, eps: (x - mean) / sqrt(variance + eps) * weight + bias over
//                                               the last extent (Ba et al. 2016)
// add                 none                      none: the sum of two
// concat              none                      none: two, one behind the other in the last extent
// locked_dropout      none                      p: x of {T, B, D}, one mask [B, D] for all positions
// lstm_sequence       weight_ih (4H, in),       in, hidden (H), weight_dropout, reverse, carried: {T, B, in} to
//                     weight_hh (4H, H),        {T, B, H}, gates in the order i f g o, as PyTorch has it, from states
//                     bias_ih, bias_hh (4H)     of zero. weight_dropout: of elements of weight_hh, one mask per pass
//                                               (Merity et al. 2017, mask [4H, H]); reverse: from the last position of
//                                               each sequence to the first, and the lengths [B] are the second input;
//                                               carried: begins with the state in which the batch before ended, where
//                                               BatchView::continues
// multi_head_attention  in_weight (3D, D),      features (D), heads, causal, cross, dropout (of the attention
//                     out_weight (D, D)         weights, mask [B, heads, queries, keys]): scaled dot products of each
//                                               position of {B, T, D} with all keys, or, causal, with those up to its
//                                               own (Vaswani et al. 2017); in_weight: queries, keys, values. Second
//                                               input: lengths [B] of the keys, what is behind them is not seen
//                                               (causal: none, the padding comes after all that is asked for). cross:
//                                               keys and values are of the third input {B, S, D}
// additive_attention  query_weight (U, D),      features (D), memory (M), units (U): normalised attention of Bahdanau
//                     key_weight (U, M),        et al. 2015. Inputs: queries q {T, B, D}, memory m {S, B, M}, lengths
//                     score_weight (U),         [B] of the memory. With v the score_weight, score(t, s) = score_scale *
//                     score_scale (1),          <v / |v|, tanh(query_weight q_t + key_weight m_s + score_bias)>; the
//                     score_bias (U)            output {T, B, M} is the mean of m by the softmax of scores over s
// activation_penalty  none                      alpha, beta: of h and g {T, B, D}, alpha * mean of h^2 + beta * mean
//                                               of (g[t + 1] - g[t])^2 (0 where T = 1); a scalar (Merity et al. 2017)

#include <string>
#include <string_view>
#include <vector>

#include "mlbench/models/model.h"

namespace mlbench::models {

inline constexpr int64_t kAny = -1;
using Shape = std::vector<int64_t>;

struct ParameterShape {
  std::string role;  // "weight"
  Shape shape;
  TensorUse use = TensorUse::kMatrix;
  bool trainable = true;
};

struct LayerKind {
  const char* name;
  std::vector<const char*> options;  // all must be given, except `bias`
  size_t least_inputs, most_inputs;
  std::vector<ParameterShape> (*parameters)(const LayerSpec& layer);  // in the neutral order
  Shape (*output)(const LayerSpec& layer, const std::vector<Shape>& inputs);
  bool in_chains, in_graphs;
};

const std::vector<LayerKind>& layer_kinds();
// The names of the kinds of the model's layers, with those inside of residual layers; each once.
std::vector<std::string> kinds_in(const ModelDescription& model);
// What most of a training step of the model computes: convolutions where it has any, else products of matrices.
inline constexpr std::string_view kConvolutions = "convolutions", kProducts = "products";
std::string_view main_work(const ModelDescription& model);
// The kind of that name. Precondition: there is one.
const LayerKind& find_layer_kind(const std::string& name);

}  // namespace mlbench::models
