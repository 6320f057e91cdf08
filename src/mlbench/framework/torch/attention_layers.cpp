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

// padded() and rows_of_padded(), [sequences, positions, features], as autograd sees them.
at::Tensor spread(const at::Tensor& rows, const std::shared_ptr<const RowPlan>& plan) {
  if (plan->is_padded(false)) return padded(rows, *plan);
  return differentiable(
      rows, [&] { return padded(rows.detach(), *plan); },
      [plan](const at::Tensor& d_all, bool) { return rows_of_padded(d_all, *plan); });
}
at::Tensor gathered(const at::Tensor& all, const std::shared_ptr<const RowPlan>& plan) {
  if (plan->is_padded(false)) return rows_of_padded(all, *plan);
  return differentiable(
      all, [&] { return rows_of_padded(all.detach(), *plan); },
      [plan](const at::Tensor& d_rows, bool) { return padded(d_rows, *plan); });
}

// Projections are of rows alone; between them, queries, keys and values of a sentence have padding.
struct MultiHeadAttention {
  Parameter in_weight, out_weight;
  int64_t features = 0, heads = 0;
  bool causal = false, cross = false;
  double dropout = 0;  // 0 where dropout is off
  at::ScalarType type = at::kFloat;
  size_t index = 0;
  GradientBuffer* gradients = nullptr;

  GraphValue operator()(const std::vector<GraphValue>& inputs, GraphPass& pass) const {
    if (pass.decode != nullptr) return inputs[0].with(decode(inputs, *pass.decode));
    const Sides sides{inputs[0].plan, (cross ? inputs[2] : inputs[0]).plan, causal ? at::Tensor() : inputs[1].data};
    std::vector<at::Tensor> values = {inputs[0].data};
    if (cross) values.push_back(inputs[2].data);
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
      graph->output = attend(graph->leaves, sides, now);
      return graph->output.detach();
    };
    const MultiHeadAttention self = *this;
    const auto backward = [=](const at::Tensor& dy, const std::vector<bool>& wanted) {
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
    };
    return inputs[0].with(differentiable_of_many(values, forward, backward));
  }

 private:
  struct Sides {
    std::shared_ptr<const RowPlan> queries, keys;
    at::Tensor lengths;  // of the keys; undefined where attention is causal
  };

  // Splits [B, T, n D] into n tensors [B, heads, T, D / heads].
  std::vector<at::Tensor> split(const at::Tensor& projected, int64_t parts) const {
    std::vector<at::Tensor> result = rounded(projected, type).chunk(parts, 2);
    for (at::Tensor& part : result) part = part.unflatten(2, {heads, features / heads}).transpose(1, 2);
    return result;
  }
  // The rows of the output, from [B, heads, T, D / heads].
  at::Tensor join(const at::Tensor& attended, const std::shared_ptr<const RowPlan>& plan,
                  const at::Tensor& weight) const {
    return linear_product(gathered(attended.transpose(1, 2).flatten(2).to(at::kFloat), plan), weight, type);
  }
  // Computes queries, keys and values.
  std::vector<at::Tensor> project(const at::Tensor& x, const at::Tensor& memory, const Sides& sides,
                                  const at::Tensor& weight) const {
    if (!cross) return split(spread(linear_product(x, weight, type), sides.queries), 3);
    std::vector<at::Tensor> parts =
        split(spread(linear_product(x, weight.narrow(0, 0, features), type), sides.queries), 1);
    const at::Tensor of_memory = linear_product(memory, weight.narrow(0, features, 2 * features), type);
    for (at::Tensor& part : split(spread(of_memory, sides.keys), 2)) {
      parts.push_back(part);
    }
    return parts;
  }

  at::Tensor attend(const std::vector<at::Tensor>& leaves, const Sides& sides, const Pass& pass) const {
    const at::Tensor &in = leaves[leaves.size() - 2], &out = leaves.back();
    const std::vector<at::Tensor> parts = project(leaves[0], cross ? leaves[1] : at::Tensor(), sides, in);
    const at::Tensor &q = parts[0], &k = parts[1], &v = parts[2];
    const int64_t queries = q.size(2), keys = k.size(2);
    std::optional<at::Tensor> seen;  // [B, 1, 1, keys]
    if (sides.lengths.defined()) seen = seen_of(sides.lengths, keys).unsqueeze(1).unsqueeze(1);
    if (!pass.training || dropout == 0) {
      return join(at::scaled_dot_product_attention(q, k, v, seen, 0, causal), sides.queries, out);
    }
    const int64_t width = features / heads;
    at::Tensor scores = q.matmul(k.transpose(2, 3)) * (1 / std::sqrt(static_cast<double>(width)));
    if (causal) seen = at::ones({queries, keys}, scores.options().dtype(at::kBool)).tril();
    scores = scores.masked_fill(seen->logical_not(), kHidden).softmax(-1);
    const at::Tensor mask = dropout_mask_of(pass, index, dropout, scores.sizes(), scores.device());
    return join((scores * mask.to(scores.scalar_type())).matmul(v), sides.queries, out);
  }

  // Computes one position. Keys and values of earlier positions are kept; those of the source are made once.
  at::Tensor decode(const std::vector<GraphValue>& inputs, DecodePass& pass) const {
    LayerState& state = pass.states[index];
    const at::Tensor &x = inputs[0].data, &weight = in_weight.value;
    const auto& plan = inputs[0].plan;
    if (!cross) {
      std::vector<at::Tensor> parts = split(spread(linear_product(x, weight, type), plan), 3);
      if (!state.rows.empty()) {
        parts[1] = at::cat({state.rows[0], parts[1]}, 2);
        parts[2] = at::cat({state.rows[1], parts[2]}, 2);
      }
      state.rows = {parts[1], parts[2]};
      return join(at::scaled_dot_product_attention(parts[0], parts[1], parts[2]), plan, out_weight.value);
    }
    if (state.memory.empty()) {
      const GraphValue& memory = inputs[2];
      const at::Tensor rows = linear_product(memory.data, weight.narrow(0, features, 2 * features), type);
      std::vector<at::Tensor> parts = split(spread(rows, memory.plan), 2);
      parts.push_back(seen_of(inputs[1].data, memory.plan->positions).unsqueeze(1).unsqueeze(1));
      for (at::Tensor& part : parts) part = part.repeat_interleave(pass.rows_per_sample, 0);
      state.memory = std::move(parts);
    }
    const at::Tensor q = split(spread(linear_product(x, weight.narrow(0, 0, features), type), plan), 1)[0];
    return join(at::scaled_dot_product_attention(q, state.memory[0], state.memory[1], state.memory[2]), plan,
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
    GraphValue queries, memory;  // rows
    at::Tensor of_sentences;     // the memory, [B, S, M]
    AdditiveInputs inputs;
    at::Tensor attention;  // [B, T, S]
  };

  GraphValue operator()(const std::vector<GraphValue>& inputs, GraphPass& pass) const {
    if (pass.decode != nullptr) return inputs[0].with(decode(inputs, *pass.decode));
    const auto saved = std::make_shared<Saved>();
    const auto forward = [&] {
      saved->queries = inputs[0].with(inputs[0].data.detach());
      saved->memory = inputs[1].with(inputs[1].data.detach());
      const GraphValue &queries = saved->queries, &memory = saved->memory;
      saved->of_sentences = spread_of(memory, memory.data);
      saved->inputs = {spread_of(queries, project(queries.data, query_weight) + score_bias.value),
                       spread_of(memory, project(memory.data, key_weight)), scaled_weight(), inputs[2].data};
      return rows_of_padded(attend(*saved), *queries.plan);
    };
    const AdditiveAttention self = *this;
    return inputs[0].with(
        differentiable_of_many({inputs[0].data, inputs[1].data}, forward,
                               [=](const at::Tensor& dy, const std::vector<bool>&) -> std::vector<at::Tensor> {
                                 return self.backward(*saved, spread_of(saved->queries, dy));
                               }));
  }

 private:
  // The vector v of models/layer_kinds.h, normalised and scaled.
  at::Tensor scaled_weight() const { return score_weight.value * (score_scale.value / score_weight.value.norm()); }

  at::Tensor project(const at::Tensor& x, const Parameter& weight) const {
    return linear_product(x, weight.value, type);
  }

  // `rows` of `value` as [B, positions, features], contiguous.
  static at::Tensor spread_of(const GraphValue& value, const at::Tensor& rows) {
    return padded(rows.contiguous(), *value.plan);
  }

  // One product for each sentence.
  at::Tensor multiply_each(const at::Tensor& a, const at::Tensor& b) const {
    return at::bmm(rounded(a, type), rounded(b, type)).to(at::kFloat);
  }

  // The mean of the memory, weighted by attention, [B, T, M] float32.
  at::Tensor attend(Saved& saved) const {
    const at::Tensor scores = on_host ? additive_scores(saved.inputs) : additive_scores_reference(saved.inputs);
    saved.attention = scores.softmax(-1);
    return multiply_each(saved.attention, saved.of_sentences);
  }

  // Returns the gradients of the rows of queries and memory. `dy` is [B, T, M].
  std::vector<at::Tensor> backward(const Saved& saved, const at::Tensor& dy) const {
    const at::Tensor& attention = saved.attention;
    const at::Tensor d_attention = multiply_each(dy, saved.of_sentences.transpose(1, 2));
    const at::Tensor d_scores = attention * (d_attention - (attention * d_attention).sum(-1, true));
    const AdditiveGradients found = on_host ? additive_scores_backward(saved.inputs, d_scores)
                                            : additive_scores_backward_reference(saved.inputs, d_scores);
    const at::Tensor d_queries = rows_of_padded(found.queries, *saved.queries.plan),
                     d_keys = rows_of_padded(found.keys, *saved.memory.plan);
    contribute_weight(found.weight);
    gradients->contribute(score_bias.slot, [&](at::Tensor& to, bool add) { store(to, d_queries.sum(0), add); });
    const auto contribute = [&](const Parameter& weight, const at::Tensor& a, const at::Tensor& b) {
      gradients->contribute(weight.slot, [&](at::Tensor& to, bool add) { store_product(to, a.t(), b, add, type); });
    };
    contribute(key_weight, d_keys, saved.memory.data);
    contribute(query_weight, d_queries, saved.queries.data);
    const at::Tensor d_memory = rows_of_padded(multiply_each(attention.transpose(1, 2), dy), *saved.memory.plan) +
                                linear_product(d_keys, key_weight.value.t(), type);
    return {linear_product(d_queries, query_weight.value.t(), type), d_memory};
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

  at::Tensor decode(const std::vector<GraphValue>& inputs, DecodePass& pass) const {
    LayerState& state = pass.states[index];
    if (state.memory.empty()) {
      const GraphValue& memory = inputs[1];
      const at::Tensor keys = project(memory.data, key_weight);
      for (const at::Tensor& one : {spread_of(memory, memory.data), spread_of(memory, keys), inputs[2].data}) {
        state.memory.push_back(one.repeat_interleave(pass.rows_per_sample, 0));
      }
    }
    Saved saved;
    saved.of_sentences = state.memory[0];
    saved.inputs = {spread_of(inputs[0], project(inputs[0].data, query_weight) + score_bias.value), state.memory[1],
                    scaled_weight(), state.memory[2]};
    const at::Tensor context = attend(saved);
    pass.attention = saved.attention.select(1, 0);
    return rows_of_padded(context, *inputs[0].plan);
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
