#pragma once

// A second implementation of the three text models, from the equations in their headers (models/awd_lstm.h, gnmt.h,
// transformer.h), as simple as possible and in float64: sentence by sentence, without padding, position by position.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/token_batch_test.h"

namespace mlbench::framework {

class TextReference {
 public:
  // Computes loss and gradients of one training pass of `batch` with the framework's current parameters. `step` and
  // `micro_batch` select the dropout masks.
  TextReference(const FrameworkOptions& options, Framework& framework, const TokenBatch& batch, int64_t step = 0,
                int64_t micro_batch = 0)
      : options_(options), batch_(batch), step_(step), micro_batch_(micro_batch) {
    for (const FlatRange& range : framework.layout().ranges) {
      const at::Tensor values =
          flat_tensor(framework.parameters()).narrow(0, range.offset, range.count).view(range.shape);
      p_[range.name] = values.to(at::kDouble).clone().requires_grad_(true);
    }
    const std::string& name = options.model.name;
    const at::Tensor mean = (name == "awd-lstm" ? awd_lstm() : name == "gnmt" ? gnmt() : transformer());
    mean.backward();
    loss = mean.item<double>();
  }

  double loss = 0;  // the mean, with penalties
  double nll = 0;   // the sum of negative log likelihoods
  std::vector<at::Tensor>
      log_probs;  // one per sentence [positions, classes]; for awd-lstm one [positions, columns, classes]

  const at::Tensor& gradient(const std::string& parameter) const { return p_.at(parameter).grad(); }

 private:
  using Tensor = at::Tensor;

  const Tensor& p(const std::string& name) const { return p_.at(name); }

  const TokenBatch::Tensor& named(const std::string& name) const {
    return *std::ranges::find(batch_.tensors, name, &TokenBatch::Tensor::name);
  }
  // The first `count` ids of a sentence.
  Tensor ids(const std::string& name, int64_t sentence, int64_t count) const {
    const TokenBatch::Tensor& tensor = named(name);
    return at::tensor(tensor.values).view(tensor.shape)[sentence].narrow(0, 0, count);
  }

  // The mask of layer `layer` in this pass, by the definition in models/model.h. `option` names its probability.
  Tensor mask(const std::string& layer, const char* option, const std::vector<int64_t>& shape) const {
    const auto found = std::ranges::find(options_.model.layers, layer, &models::LayerSpec::name);
    const Tensor result = at::ones(shape, at::kDouble);
    if (found == options_.model.layers.end() || !options_.dropout) return result;
    const double chance = found->options.at(option).get<double>();
    if (chance == 0) return result;
    const auto index = static_cast<size_t>(found - options_.model.layers.begin());
    const uint64_t key = models::dropout_key(options_.seed, options_.rank, step_, index, micro_batch_);
    auto* values = result.data_ptr<double>();
    for (int64_t i = 0; i < result.numel(); ++i) {
      const uint32_t word = philox(key, static_cast<uint64_t>(i / 4), 0)[static_cast<size_t>(i % 4)];
      values[i] = word >= chance * 0x1.0p32 ? 1 / (1 - chance) : 0;
    }
    return result;
  }

  // The states of an LSTM over x [positions, sequences, in].
  Tensor lstm(const std::string& name, const Tensor& x, const Tensor& weight_hh) const {
    Tensor state = at::zeros({x.size(1), weight_hh.size(1)}, x.options()), cell = state;
    std::vector<Tensor> states;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const Tensor of_input = x[t].mm(p(name + ".weight_ih").t()) + p(name + ".bias_ih");
      const std::vector<Tensor> gates = (of_input + state.mm(weight_hh.t()) + p(name + ".bias_hh")).chunk(4, 1);
      cell = gates[1].sigmoid() * cell + gates[0].sigmoid() * gates[2].tanh();
      state = gates[3].sigmoid() * cell.tanh();
      states.push_back(state);
    }
    return at::stack(states);
  }
  // The states of an LSTM over one sentence, x [positions, in].
  Tensor lstm(const std::string& name, const Tensor& x) const {
    return lstm(name, x.unsqueeze(1), p(name + ".weight_hh")).squeeze(1);
  }

  // The sum of the losses of all positions. Adds to `nll` and `log_probs`.
  Tensor loss_sum(const Tensor& logits, const Tensor& targets) {
    const Tensor log_p = logits.log_softmax(-1);
    log_probs.push_back(log_p.detach());
    const Tensor of_targets = log_p.gather(-1, targets.unsqueeze(-1)).sum();
    nll -= of_targets.item<double>();
    const double e = options_.model.loss.label_smoothing;
    return -(1 - e) * of_targets - e * log_p.mean(-1).sum();
  }

  Tensor awd_lstm() {
    const TokenBatch::Tensor &tokens = named("tokens"), &targets = named("targets");
    const int64_t columns = tokens.shape[1];
    const Tensor& weight = p("embedding.weight");
    const Tensor rows = weight * mask("embedding", "row_dropout", {weight.size(0), 1});
    Tensor x = rows.index_select(0, at::tensor(tokens.values)).view({tokens.shape[0], columns, -1});
    x = x * mask("input_dropout", "p", {1, columns, x.size(2)});
    Tensor raw;
    for (int layer = 1; p_.contains("lstm" + std::to_string(layer) + ".weight_hh"); ++layer) {
      const std::string name = "lstm" + std::to_string(layer);
      if (layer > 1) x = raw * mask("hidden_dropout" + std::to_string(layer - 1), "p", {1, columns, raw.size(2)});
      const Tensor hh = p(name + ".weight_hh");
      raw = lstm(name, x, hh * mask(name, "weight_dropout", hh.sizes().vec()));
    }
    const Tensor dropped = raw * mask("output_dropout", "p", {1, columns, raw.size(2)});
    const Tensor logits = dropped.matmul(weight.t()) + p("softmax.bias");
    const Tensor sum = loss_sum(logits, at::tensor(targets.values).view(targets.shape));
    const Tensor steps = raw.narrow(0, 1, raw.size(0) - 1) - raw.narrow(0, 0, raw.size(0) - 1);
    return sum / static_cast<double>(batch_.weight) + 2 * dropped.square().mean() + steps.square().mean();
  }

  // Applies a dropout layer of gnmt to one sentence, x [positions, features]. The mask is [positions, sentences,
  // features].
  Tensor gnmt_dropout(const std::string& name, const Tensor& x, int64_t sentence, int64_t positions) const {
    return x * mask(name, "p", {positions, batch_.samples, x.size(1)}).select(1, sentence).narrow(0, 0, x.size(0));
  }

  Tensor gnmt() {
    Tensor sum = at::zeros({}, at::kDouble);
    const int64_t sources = named("source").shape[1], targets = named("target_in").shape[1];
    for (int64_t b = 0; b < batch_.samples; ++b) {
      const int64_t s = named("source_lengths").values[static_cast<size_t>(b)];
      const int64_t t = named("target_lengths").values[static_cast<size_t>(b)];
      const auto number = [](int layer) { return std::to_string(layer); };
      const Tensor& embedding = p("embedding.weight");
      Tensor x = gnmt_dropout("encoder.dropout1", embedding.index_select(0, ids("source", b, s)), b, sources);
      x = at::cat({lstm("encoder.lstm1", x), lstm("encoder.lstm1_reverse", x.flip(0)).flip(0)}, 1);
      for (int layer = 2; p_.contains("encoder.lstm" + number(layer) + ".weight_hh"); ++layer) {
        const Tensor y =
            lstm("encoder.lstm" + number(layer), gnmt_dropout("encoder.dropout" + number(layer), x, b, sources));
        x = layer > 2 ? x + y : y;
      }
      const Tensor memory = x;
      Tensor y = gnmt_dropout("decoder.dropout1", embedding.index_select(0, ids("target_in", b, t)), b, targets);
      y = lstm("decoder.lstm1", y);
      const Tensor context = bahdanau(y, memory);
      for (int layer = 2; p_.contains("decoder.lstm" + number(layer) + ".weight_hh"); ++layer) {
        const Tensor in = gnmt_dropout("decoder.dropout" + number(layer), at::cat({y, context}, 1), b, targets);
        const Tensor z = lstm("decoder.lstm" + number(layer), in);
        y = layer > 2 ? y + z : z;
      }
      sum = sum + loss_sum(y.mm(p("softmax.weight").t()) + p("softmax.bias"), ids("target_out", b, t));
    }
    return sum / static_cast<double>(batch_.weight);
  }

  Tensor bahdanau(const Tensor& queries, const Tensor& memory) const {
    const Tensor& weight = p("attention.score_weight");
    const Tensor v = p("attention.score_scale") * weight / weight.norm();
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < queries.size(0); ++t) {
      const Tensor sums = p("attention.query_weight").mv(queries[t]) + memory.mm(p("attention.key_weight").t()) +
                          p("attention.score_bias");
      rows.push_back(sums.tanh().mv(v).softmax(0).unsqueeze(0).mm(memory)[0]);
    }
    return at::stack(rows);
  }

  // ---- The transformer. Masks of values are [sentences, positions, features].

  struct Place {
    int64_t sentence = 0, queries = 0, keys = 0;  // `queries` and `keys` count positions with padding
  };
  Tensor dropped(const std::string& name, const Tensor& x, const Place& place) const {
    return x * mask(name, "p", {batch_.samples, place.queries, x.size(1)})[place.sentence].narrow(0, 0, x.size(0));
  }
  Tensor normed(const std::string& name, const Tensor& x) const {
    const Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * p(name + ".weight") + p(name + ".bias");
  }
  Tensor attention(const std::string& name, const Tensor& x, const Tensor& memory, bool causal,
                   const Place& place) const {
    const auto found = std::ranges::find(options_.model.layers, name, &models::LayerSpec::name);
    const auto heads = found->options.at("heads").get<int64_t>();
    const int64_t d = x.size(1), width = d / heads;
    const Tensor& in = p(name + ".in_weight");
    const Tensor masks = mask(name, "dropout", {batch_.samples, heads, place.queries, place.keys})[place.sentence];
    std::vector<Tensor> parts;
    for (int64_t head = 0; head < heads; ++head) {
      const auto rows = [&](int64_t which) { return in.narrow(0, which * d + head * width, width).t(); };
      const Tensor q = x.mm(rows(0)), k = memory.mm(rows(1)), v = memory.mm(rows(2));
      Tensor scores = q.mm(k.t()) / std::sqrt(static_cast<double>(width));
      if (causal) {
        scores =
            scores.masked_fill(at::ones(scores.sizes(), at::kBool).triu(1), -std::numeric_limits<double>::infinity());
      }
      const Tensor kept = masks[head].narrow(0, 0, x.size(0)).narrow(1, 0, memory.size(0));
      parts.push_back((scores.softmax(1) * kept).mm(v));
    }
    return at::cat(parts, 1).mm(p(name + ".out_weight").t());
  }
  Tensor feed(const std::string& name, const Tensor& x, const Place& place) const {
    const Tensor inner = (x.mm(p(name + ".fc1.weight").t()) + p(name + ".fc1.bias")).relu();
    return dropped(name + ".relu_dropout", inner, place).mm(p(name + ".fc2.weight").t()) + p(name + ".fc2.bias");
  }
  Tensor embedded(const std::string& layer, const Tensor& tokens, const Place& place) const {
    const Tensor& weight = p("embedding.weight");
    const int64_t d = weight.size(1);
    Tensor positions = at::zeros({tokens.size(0), d}, at::kDouble);
    for (int64_t t = 0; t < tokens.size(0); ++t) {
      for (int64_t i = 0; i < d / 2; ++i) {
        const double angle =
            static_cast<double>(t) / std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(d));
        positions[t][2 * i] = std::sin(angle);
        positions[t][2 * i + 1] = std::cos(angle);
      }
    }
    const Tensor x = weight.index_select(0, tokens) * std::sqrt(static_cast<double>(d)) + positions;
    return dropped(layer + ".dropout", x, place);
  }

  Tensor transformer() {
    Tensor sum = at::zeros({}, at::kDouble);
    for (int64_t b = 0; b < batch_.samples; ++b) {
      const int64_t s = named("source_lengths").values[static_cast<size_t>(b)];
      const int64_t t = named("target_lengths").values[static_cast<size_t>(b)];
      const int64_t sources = named("source").shape[1], targets = named("target_in").shape[1];
      const Place of_source{b, sources, sources}, of_target{b, targets, targets}, across{b, targets, sources};
      Tensor x = embedded("embedding", ids("source", b, s), of_source);
      for (int i = 1; p_.contains("encoder" + std::to_string(i) + ".norm1.weight"); ++i) {
        const std::string name = "encoder" + std::to_string(i), self = name + ".self_attention";
        const Tensor n = normed(name + ".norm1", x);
        x = x + dropped(self + ".dropout", attention(self, n, n, false, of_source), of_source);
        x = x + dropped(name + ".feed.dropout", feed(name + ".feed", normed(name + ".norm2", x), of_source), of_source);
      }
      const Tensor memory = normed("encoder_norm", x);
      Tensor y = embedded("target_embedding", ids("target_in", b, t), of_target);
      for (int i = 1; p_.contains("decoder" + std::to_string(i) + ".norm1.weight"); ++i) {
        const std::string name = "decoder" + std::to_string(i), self = name + ".self_attention",
                          cross = name + ".cross_attention";
        const Tensor n = normed(name + ".norm1", y);
        y = y + dropped(self + ".dropout", attention(self, n, n, true, of_target), of_target);
        const Tensor across_y = attention(cross, normed(name + ".norm2", y), memory, false, across);
        y = y + dropped(cross + ".dropout", across_y, of_target);
        y = y + dropped(name + ".feed.dropout", feed(name + ".feed", normed(name + ".norm3", y), of_target), of_target);
      }
      sum = sum + loss_sum(normed("decoder_norm", y).mm(p("embedding.weight").t()), ids("target_out", b, t));
    }
    return sum / static_cast<double>(batch_.weight);
  }

  FrameworkOptions options_;
  const TokenBatch& batch_;
  int64_t step_, micro_batch_;
  std::map<std::string, Tensor> p_;
};

}  // namespace mlbench::framework
