// The layers multi_head_attention and additive_attention.

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "mlbench/framework/tensors/additive_attention.h"
#include "mlbench/framework/tensors/products.h"
#include "mlbench/framework/torch/differentiable.h"
#include "mlbench/framework/torch/graph_operations.h"
#include "mlbench/framework/torch/products.h"

namespace mlbench::framework::torch_framework {

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// [B, S]: true at positions before each length.
at::Tensor seen_of(const at::Tensor& lengths, int64_t positions) {
  return at::arange(positions, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

struct MultiHeadAttention {
  Parameter in_weight, out_weight;
  int64_t features = 0, heads = 0;
  bool causal = false, cross = false;
  double dropout = 0;  // 0 where dropout is off
  at::ScalarType type = at::kFloat;
  size_t index = 0;
  GradientBuffer* gradients = nullptr;

  at::Tensor operator()(const std::vector<at::Tensor>& inputs, GraphPass& pass) const {
    if (pass.decode != nullptr) return decode(inputs, *pass.decode);
    const at::Tensor lengths = causal ? at::Tensor() : inputs[1];
    std::vector<at::Tensor> values = {inputs[0]};
    if (cross) values.push_back(inputs[2]);
    struct Graph {
      std::vector<at::Tensor> leaves;  // values, then weights
      at::Tensor output;
    };
    const auto graph = std::make_shared<Graph>();
    const bool training = at::GradMode::is_enabled();
    const Pass& now = pass.pass;
    const auto forward = [&] {
      const at::AutoGradMode differentiate(training);
      const auto leaf = [&](const at::Tensor& one) { return one.detach().requires_grad_(training); };
      for (const at::Tensor& value : values) graph->leaves.push_back(leaf(value));
      graph->leaves.push_back(leaf(in_weight.value));
      graph->leaves.push_back(leaf(out_weight.value));
      graph->output = attend(graph->leaves, lengths, now);
      return graph->output.detach();
    };
    const MultiHeadAttention self = *this;
    return differentiable_of_many(values, forward, [=](const at::Tensor& dy, const std::vector<bool>& wanted) {
      std::vector<at::Tensor> leaves(graph->leaves.end() - 2, graph->leaves.end());
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i]) leaves.push_back(graph->leaves[i]);
      }
      const std::vector<at::Tensor> found = torch::autograd::grad({graph->output}, leaves, {dy});
      self.gradients->contribute(self.out_weight.slot, [&](at::Tensor& to, bool add) { store(to, found[1], add); });
      self.gradients->contribute(self.in_weight.slot, [&](at::Tensor& to, bool add) { store(to, found[0], add); });
      std::vector<at::Tensor> result(wanted.size());
      size_t next = 2;
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i]) result[i] = found[next++];
      }
      return result;
    });
  }

 private:
  // Splits [B, T, n D] into n tensors [B, heads, T, D / heads].
  std::vector<at::Tensor> split(const at::Tensor& projected, int64_t parts) const {
    std::vector<at::Tensor> result = rounded(projected, type).chunk(parts, 2);
    for (at::Tensor& part : result) part = part.unflatten(2, {heads, features / heads}).transpose(1, 2);
    return result;
  }
  at::Tensor join(const at::Tensor& attended, const at::Tensor& weight) const {
    return linear_product(attended.transpose(1, 2).flatten(2).to(at::kFloat), weight, type);
  }
  // Computes queries, keys and values.
  std::vector<at::Tensor> project(const at::Tensor& x, const at::Tensor& memory, const at::Tensor& weight) const {
    if (!cross) return split(linear_product(x, weight, type), 3);
    std::vector<at::Tensor> parts = split(linear_product(x, weight.narrow(0, 0, features), type), 1);
    for (at::Tensor& part : split(linear_product(memory, weight.narrow(0, features, 2 * features), type), 2)) {
      parts.push_back(part);
    }
    return parts;
  }

  at::Tensor attend(const std::vector<at::Tensor>& leaves, const at::Tensor& lengths, const Pass& pass) const {
    const at::Tensor &in = leaves[leaves.size() - 2], &out = leaves.back();
    const std::vector<at::Tensor> parts = project(leaves[0], cross ? leaves[1] : at::Tensor(), in);
    const at::Tensor &q = parts[0], &k = parts[1], &v = parts[2];
    const int64_t queries = q.size(2), keys = k.size(2);
    std::optional<at::Tensor> seen;  // [B, 1, 1, keys]
    if (lengths.defined()) seen = seen_of(lengths, keys).unsqueeze(1).unsqueeze(1);
    if (!pass.training || dropout == 0) {
      return join(at::scaled_dot_product_attention(q, k, v, seen, 0, causal), out);
    }
    const int64_t width = features / heads;
    at::Tensor scores = q.matmul(k.transpose(2, 3)) * (1 / std::sqrt(static_cast<double>(width)));
    if (causal) seen = at::ones({queries, keys}, scores.options().dtype(at::kBool)).tril();
    scores = scores.masked_fill(seen->logical_not(), kHidden).softmax(-1);
    const at::Tensor mask = dropout_mask_of(pass, index, dropout, scores.sizes(), scores.device());
    return join((scores * mask.to(scores.scalar_type())).matmul(v), out);
  }

  // Computes one position. Keys and values of earlier positions are kept; those of the source are made once.
  at::Tensor decode(const std::vector<at::Tensor>& inputs, DecodePass& pass) const {
    LayerState& state = pass.states[index];
    const at::Tensor &x = inputs[0], &weight = in_weight.value;
    if (!cross) {
      std::vector<at::Tensor> parts = split(linear_product(x, weight, type), 3);
      if (!state.rows.empty()) {
        parts[1] = at::cat({state.rows[0], parts[1]}, 2);
        parts[2] = at::cat({state.rows[1], parts[2]}, 2);
      }
      state.rows = {parts[1], parts[2]};
      return join(at::scaled_dot_product_attention(parts[0], parts[1], parts[2]), out_weight.value);
    }
    if (state.memory.empty()) {
      std::vector<at::Tensor> parts =
          split(linear_product(inputs[2], weight.narrow(0, features, 2 * features), type), 2);
      parts.push_back(seen_of(inputs[1], inputs[2].size(1)).unsqueeze(1).unsqueeze(1));
      for (at::Tensor& part : parts) part = part.repeat_interleave(pass.rows_per_sample, 0);
      state.memory = std::move(parts);
    }
    const at::Tensor q = split(linear_product(x, weight.narrow(0, 0, features), type), 1)[0];
    return join(at::scaled_dot_product_attention(q, state.memory[0], state.memory[1], state.memory[2]),
                out_weight.value);
  }
};

struct AdditiveAttention {
  Parameter query_weight, key_weight, score_weight, score_scale, score_bias;
  bool on_host = true;
  at::ScalarType type = at::kFloat;
  size_t index = 0;
  GradientBuffer* gradients = nullptr;

  // The values that the backward pass needs.
  struct Saved {
    at::Tensor queries, memory;  // [B, T, D], [B, S, M]
    AdditiveInputs inputs;
    at::Tensor attention;  // [B, T, S]
  };

  at::Tensor operator()(const std::vector<at::Tensor>& inputs, GraphPass& pass) const {
    if (pass.decode != nullptr) return decode(inputs, *pass.decode);
    const auto saved = std::make_shared<Saved>();
    const at::Tensor queries = inputs[0].detach(), memory = inputs[1].detach(), lengths = inputs[2];
    const auto forward = [&] {
      saved->queries = queries.transpose(0, 1).contiguous();
      saved->memory = memory.transpose(0, 1).contiguous();
      saved->inputs = {project(saved->queries, query_weight) + score_bias.value, project(saved->memory, key_weight),
                       scaled_weight(), lengths};
      return attend(*saved).transpose(0, 1).contiguous();
    };
    const AdditiveAttention self = *this;
    return differentiable_of_many({inputs[0], inputs[1]}, forward,
                                  [=](const at::Tensor& dy, const std::vector<bool>&) -> std::vector<at::Tensor> {
                                    return self.backward(*saved, dy.transpose(0, 1).contiguous());
                                  });
  }

 private:
  // The vector v of models/layer_kinds.h, normalised and scaled.
  at::Tensor scaled_weight() const { return score_weight.value * (score_scale.value / score_weight.value.norm()); }

  at::Tensor project(const at::Tensor& x, const Parameter& weight) const {
    return linear_product(x, weight.value, type);
  }

  // One product for each sentence.
  at::Tensor multiply_each(const at::Tensor& a, const at::Tensor& b) const {
    return at::bmm(rounded(a, type), rounded(b, type)).to(at::kFloat);
  }

  // The mean of the memory, weighted by attention, [B, T, M] float32.
  at::Tensor attend(Saved& saved) const {
    const at::Tensor scores = on_host ? additive_scores(saved.inputs) : additive_scores_reference(saved.inputs);
    saved.attention = scores.softmax(-1);
    return multiply_each(saved.attention, saved.memory);
  }

  // Returns the gradients of queries and memory, positions first.
  std::vector<at::Tensor> backward(const Saved& saved, const at::Tensor& dy) const {
    const at::Tensor& attention = saved.attention;
    const at::Tensor d_attention = multiply_each(dy, saved.memory.transpose(1, 2));
    const at::Tensor d_scores = attention * (d_attention - (attention * d_attention).sum(-1, true));
    const AdditiveGradients found = on_host ? additive_scores_backward(saved.inputs, d_scores)
                                            : additive_scores_backward_reference(saved.inputs, d_scores);
    const at::Tensor &d_queries = found.queries, &d_keys = found.keys;
    contribute_weight(found.weight);
    gradients->contribute(score_bias.slot, [&](at::Tensor& to, bool add) {
      store(to, found.queries.sum(at::IntArrayRef{0, 1}), add);
    });
    const auto contribute = [&](const Parameter& weight, const at::Tensor& a, const at::Tensor& b) {
      gradients->contribute(weight.slot, [&](at::Tensor& to, bool add) {
        store_product(to, a.flatten(0, 1).t(), b.flatten(0, 1), add, type);
      });
    };
    contribute(key_weight, d_keys, saved.memory);
    contribute(query_weight, d_queries, saved.queries);
    const at::Tensor d_memory =
        multiply_each(attention.transpose(1, 2), dy) + linear_product(d_keys, key_weight.value.t(), type);
    const at::Tensor d_x = linear_product(d_queries, query_weight.value.t(), type);
    return {d_x.transpose(0, 1), d_memory.transpose(0, 1)};
  }

  // Stores the gradients of score_weight and score_scale, from `gradient`, that of the scaled weight.
  void contribute_weight(const at::Tensor& gradient) const {
    const at::Tensor norm = score_weight.value.norm(), direction = score_weight.value / norm;
    const at::Tensor along = direction.dot(gradient);
    gradients->contribute(score_scale.slot, [&](at::Tensor& to, bool add) { store(to, along.view({1}), add); });
    gradients->contribute(score_weight.slot, [&](at::Tensor& to, bool add) {
      store(to, (gradient - direction * along) * (score_scale.value / norm), add);
    });
  }

  at::Tensor decode(const std::vector<at::Tensor>& inputs, DecodePass& pass) const {
    LayerState& state = pass.states[index];
    if (state.memory.empty()) {
      const at::Tensor memory = inputs[1].transpose(0, 1).contiguous();
      for (const at::Tensor& one : {memory, project(memory, key_weight), inputs[2]}) {
        state.memory.push_back(one.repeat_interleave(pass.rows_per_sample, 0));
      }
    }
    Saved saved;
    saved.queries = inputs[0].transpose(0, 1).contiguous();
    saved.memory = state.memory[0];
    saved.inputs = {project(saved.queries, query_weight) + score_bias.value, state.memory[1], scaled_weight(),
                    state.memory[2]};
    const at::Tensor context = attend(saved);
    pass.attention = saved.attention.select(1, 0);
    return context.transpose(0, 1);
  }
};

}  // namespace

GraphOperation make_multi_head_attention(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  MultiHeadAttention attention;
  attention.in_weight = context.parameter(models::parameter_name(layer, "in_weight"));
  attention.out_weight = context.parameter(models::parameter_name(layer, "out_weight"));
  attention.features = layer.options.at("features").get<int64_t>();
  attention.heads = layer.options.at("heads").get<int64_t>();
  attention.causal = layer.options.at("causal").get<bool>();
  attention.cross = layer.options.at("cross").get<bool>();
  attention.dropout = context.dropout ? layer.options.at("dropout").get<double>() : 0;
  attention.type = context.product_type;
  attention.index = index;
  attention.gradients = &context.gradients;
  return attention;
}

GraphOperation make_additive_attention(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const auto parameter = [&](const char* role) { return context.parameter(models::parameter_name(layer, role)); };
  AdditiveAttention attention;
  attention.query_weight = parameter("query_weight");
  attention.key_weight = parameter("key_weight");
  attention.score_weight = parameter("score_weight");
  attention.score_scale = parameter("score_scale");
  attention.score_bias = parameter("score_bias");
  attention.on_host = context.on_host;
  attention.type = context.product_type;
  attention.index = index;
  attention.gradients = &context.gradients;
  return attention;
}

}  // namespace mlbench::framework::torch_framework
