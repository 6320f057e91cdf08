// The layers multi_head_attention and additive_attention.

#include <memory>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/graph/attention_kernels.h"
#include "mlbench/framework/native/graph/graph_layers.h"
#include "mlbench/framework/tensors/additive_attention.h"

namespace mlbench::framework::native_framework {

namespace {

// [B, S]: true at positions before each length.
at::Tensor seen_of(const at::Tensor& lengths, int64_t positions) {
  return at::arange(positions, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

at::Tensor lengths_of(const RowPlan& plan) { return at::tensor(plan.lengths); }

class MultiHeadAttention final : public GraphLayer {
 public:
  MultiHeadAttention(const models::LayerSpec& layer, size_t index, const GraphContext& context)
      : in_(context.of(layer, "in_weight"), context.product_type),
        out_(context.of(layer, "out_weight"), context.product_type),
        features_(layer.options.at("features").get<int64_t>()),
        heads_(layer.options.at("heads").get<int64_t>()),
        causal_(layer.options.at("causal").get<bool>()),
        cross_(layer.options.at("cross").get<bool>()),
        dropout_(context.dropout ? layer.options.at("dropout").get<double>() : 0),
        index_(index),
        gradients_(context.gradients) {}

  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    in_.begin(pass);
    out_.begin(pass);
    x_ = in_.prepared(inputs[0]->data);
    if (pass.decode != nullptr) return inputs[0]->with(decode(inputs, *pass.decode));
    queries_plan_ = inputs[0]->plan;
    keys_plan_ = cross_ ? inputs[2]->plan : queries_plan_;
    MLBENCH_CHECK(
        queries_plan_->order == RowPlan::Order::kBySequence && keys_plan_->order == RowPlan::Order::kBySequence,
        "attention over sequences whose positions come first");
    if (cross_) {
      memory_ = in_.prepared(inputs[2]->data);
      queries_ = in_.output(x_, 0, features_);
      keys_ = in_.output(memory_, features_, 2 * features_);
    } else {
      queries_ = keys_ = in_.output(x_);
    }
    p_ = pass.training ? dropout_ : 0;
    key_ = pass.dropout_key(index_);
    attended_ = at::empty({queries_.size(0), features_}, at::kFloat);
    settle_weights();
    for_heads([&](const Head& head) {
      attend(head.shape, queries_of(head), keys_of(head), values_of(head), weights_.data_ptr<float>() + head.weights,
             attended_.data_ptr<float>() + head.output, features_);
    });
    attended_ = out_.prepared(attended_);
    return inputs[0]->with(out_.output(attended_));
  }

  std::vector<at::Tensor> backward(const at::Tensor& gradient, const std::vector<bool>& wanted) override {
    const at::Tensor dy = out_.prepared(gradient);
    gradients_.contribute(out_.slot(), [&](at::Tensor& to, bool add) { out_.weight_gradient(to, dy, attended_, add); });
    const at::Tensor d_attended = out_.input_gradient(dy);
    at::Tensor d_queries = at::empty_like(queries_), d_keys = cross_ ? at::empty_like(keys_) : d_queries;
    for_heads([&](const Head& head) {
      float* const keys_to = d_keys.data_ptr<float>() + head.keys;
      attend_backward(head.shape, queries_of(head), keys_of(head), values_of(head),
                      weights_.const_data_ptr<float>() + head.weights,
                      {d_attended.const_data_ptr<float>() + head.output, features_},
                      {d_queries.data_ptr<float>() + head.queries, keys_to, keys_to + features_, d_queries.stride(0),
                       d_keys.stride(0)});
    });
    std::vector<at::Tensor> found(wanted.size());
    d_queries = in_.prepared(d_queries);
    if (cross_) d_keys = in_.prepared(d_keys);
    gradients_.contribute(in_.slot(), [&](at::Tensor& to, bool add) {
      if (!cross_) return in_.weight_gradient(to, d_queries, x_, add);
      in_.weight_gradient(to.narrow(0, 0, features_), d_queries, x_, add);
      in_.weight_gradient(to.narrow(0, features_, 2 * features_), d_keys, memory_, add);
    });
    if (wanted[0]) found[0] = in_.input_gradient(d_queries, 0, d_queries.size(1));
    if (cross_ && wanted[2]) found[2] = in_.input_gradient(d_keys, features_, 2 * features_);
    x_ = memory_ = queries_ = keys_ = weights_ = attended_ = at::Tensor();
    return found;
  }

 private:
  // The places at which the values of one head of one sentence begin.
  struct Head {
    HeadShape shape;
    int64_t queries = 0, keys = 0, weights = 0, output = 0;
  };

  HeadRows queries_of(const Head& head) const {
    return {queries_.const_data_ptr<float>() + head.queries, queries_.stride(0)};
  }
  HeadRows keys_of(const Head& head) const { return {keys_.const_data_ptr<float>() + head.keys, keys_.stride(0)}; }
  HeadRows values_of(const Head& head) const {
    return {keys_.const_data_ptr<float>() + head.keys + features_, keys_.stride(0)};
  }

  static HeadShape shape_of(const RowPlan& queries, const RowPlan& keys, size_t sentence) {
    HeadShape shape;
    shape.queries = queries.lengths[sentence];
    shape.keys = keys.lengths[sentence];
    return shape;
  }

  // Weights of all heads of a sentence lie next to each other.
  void settle_weights() {
    weights_first_ = {0};
    for (size_t sentence = 0; sentence < queries_plan_->lengths.size(); ++sentence) {
      const HeadShape shape = shape_of(*queries_plan_, *keys_plan_, sentence);
      weights_first_.push_back(weights_first_.back() + heads_ * shape.queries * shape.weights_stride());
    }
    weights_ = at::empty({weights_first_.back()}, at::kFloat);
  }

  template <typename Body>
  void for_heads(const Body& body) const {
    const int64_t width = features_ / heads_;
    share_out(queries_plan_->sequences() * heads_, [&](int64_t i) {
      const auto sentence = static_cast<size_t>(i / heads_);
      const int64_t head = i % heads_, query = queries_plan_->first[sentence], key = keys_plan_->first[sentence];
      Head one{shape_of(*queries_plan_, *keys_plan_, sentence)};
      one.shape.width = width;
      one.shape.causal = causal_;
      one.shape.mask_key = key_;
      one.shape.p = p_;
      one.shape.mask_first = i * queries_plan_->positions * keys_plan_->positions;
      one.shape.mask_stride = keys_plan_->positions;
      one.queries = query * queries_.stride(0) + head * width;
      one.keys = key * keys_.stride(0) + (cross_ ? 0 : features_) + head * width;
      one.output = query * features_ + head * width;
      one.weights = weights_first_[sentence] + head * one.shape.queries * one.shape.weights_stride();
      body(one);
    });
  }

  // Splits [B, T, n D] into n tensors [B, heads, T, D / heads].
  std::vector<at::Tensor> split(const at::Tensor& projected, int64_t parts) const {
    std::vector<at::Tensor> result = projected.chunk(parts, 2);
    for (at::Tensor& part : result) part = part.unflatten(2, {heads_, features_ / heads_}).transpose(1, 2);
    return result;
  }
  at::Tensor join(const at::Tensor& attended) const {
    return out_.output(out_.prepared(attended.transpose(1, 2).flatten(2).flatten(0, 1)));
  }

  // Computes one position. Keys and values of earlier positions are kept; those of the source are made once.
  at::Tensor decode(const Inputs& inputs, DecodePass& pass) const {
    LayerState& state = pass.states[index_];
    if (!cross_) {
      std::vector<at::Tensor> parts = split(in_.output(x_).unsqueeze(1), 3);
      if (!state.rows.empty()) {
        parts[1] = at::cat({state.rows[0], parts[1]}, 2);
        parts[2] = at::cat({state.rows[1], parts[2]}, 2);
      }
      state.rows = {parts[1], parts[2]};
      return join(at::scaled_dot_product_attention(parts[0], parts[1], parts[2]));
    }
    if (state.memory.empty()) {
      const RowPlan& plan = *inputs[2]->plan;
      const at::Tensor rows = in_.output(in_.prepared(inputs[2]->data), features_, 2 * features_);
      std::vector<at::Tensor> parts = split(padded(rows, plan), 2);
      parts.push_back(seen_of(lengths_of(plan), plan.positions).unsqueeze(1).unsqueeze(1));
      for (at::Tensor& part : parts) part = part.repeat_interleave(pass.rows_per_sample, 0);
      state.memory = std::move(parts);
    }
    const at::Tensor q = split(in_.output(x_, 0, features_).unsqueeze(1), 1)[0];
    return join(at::scaled_dot_product_attention(q, state.memory[0], state.memory[1], state.memory[2]));
  }

  RowProduct in_, out_;
  int64_t features_, heads_;
  bool causal_, cross_;
  double dropout_;
  size_t index_;
  GradientBuffer& gradients_;

  // Values of the last pass. `keys_` [rows, 2D] has keys and values. In self-attention, `keys_` is `queries_` [rows,
  // 3D], which has queries, keys and values.
  std::shared_ptr<const RowPlan> queries_plan_, keys_plan_;
  at::Tensor x_, memory_, queries_, keys_, weights_, attended_;
  std::vector<int64_t> weights_first_;
  double p_ = 0;
  uint64_t key_ = 0;
};

class AdditiveAttention final : public GraphLayer {
 public:
  AdditiveAttention(const models::LayerSpec& layer, size_t index, const GraphContext& context)
      : query_(context.of(layer, "query_weight"), context.product_type),
        key_(context.of(layer, "key_weight"), context.product_type),
        weight_(context.of(layer, "score_weight")),
        scale_(context.of(layer, "score_scale")),
        bias_(context.of(layer, "score_bias")),
        type_(context.product_type),
        index_(index),
        gradients_(context.gradients) {}

  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    query_.begin(pass);
    key_.begin(pass);
    if (pass.decode != nullptr) return inputs[0]->with(decode(inputs, *pass.decode));
    queries_plan_ = inputs[0]->plan;
    memory_plan_ = inputs[1]->plan;
    queries_ = query_.prepared(inputs[0]->data);
    memory_ = key_.prepared(inputs[1]->data);
    of_sentences_ = padded(inputs[1]->data, *memory_plan_);
    scores_ = {padded(query_.output(queries_).add_(bias_.value), *queries_plan_),
               padded(key_.output(memory_), *memory_plan_), scaled_weight(), lengths_of(*memory_plan_)};
    attention_ = additive_scores(scores_).softmax(-1);
    return inputs[0]->with(rows_of_padded(multiply_each(attention_, of_sentences_), *queries_plan_));
  }

  std::vector<at::Tensor> backward(const at::Tensor& gradient, const std::vector<bool>& wanted) override {
    const at::Tensor dy = padded(gradient, *queries_plan_);
    const at::Tensor d_attention = multiply_each(dy, of_sentences_.transpose(1, 2));
    const at::Tensor d_scores = attention_ * (d_attention - (attention_ * d_attention).sum(-1, true));
    const AdditiveGradients found = additive_scores_backward(scores_, d_scores);
    contribute_weight(found.weight);
    const at::Tensor d_queries = rows_of_padded(found.queries, *queries_plan_);
    gradients_.contribute(bias_.slot, [&](at::Tensor& to, bool add) { store(to, d_queries.sum(0), add); });
    const at::Tensor d_q = query_.prepared(d_queries), d_k = key_.prepared(rows_of_padded(found.keys, *memory_plan_));
    gradients_.contribute(key_.slot(), [&](at::Tensor& to, bool add) { key_.weight_gradient(to, d_k, memory_, add); });
    gradients_.contribute(query_.slot(),
                          [&](at::Tensor& to, bool add) { query_.weight_gradient(to, d_q, queries_, add); });
    std::vector<at::Tensor> result(wanted.size());
    if (wanted[0]) result[0] = query_.input_gradient(d_q);
    if (wanted[1]) {
      result[1] =
          rows_of_padded(multiply_each(attention_.transpose(1, 2), dy), *memory_plan_).add_(key_.input_gradient(d_k));
    }
    queries_ = memory_ = of_sentences_ = attention_ = at::Tensor();
    scores_ = {};
    return result;
  }

 private:
  // The vector v of models/layer_kinds.h, normalised and scaled.
  at::Tensor scaled_weight() const { return weight_.value * (scale_.value / weight_.value.norm()); }

  // One product for each sentence.
  at::Tensor multiply_each(const at::Tensor& a, const at::Tensor& b) const {
    return at::bmm(framework::rounded(a, type_), framework::rounded(b, type_)).to(at::kFloat);
  }

  // Stores the gradients of score_weight and score_scale, from `gradient`, that of the scaled weight.
  void contribute_weight(const at::Tensor& gradient) const {
    const at::Tensor norm = weight_.value.norm(), direction = weight_.value / norm;
    const at::Tensor along = direction.dot(gradient);
    gradients_.contribute(scale_.slot, [&](at::Tensor& to, bool add) { store(to, along.view({1}), add); });
    gradients_.contribute(weight_.slot, [&](at::Tensor& to, bool add) {
      store(to, (gradient - direction * along) * (scale_.value / norm), add);
    });
  }

  at::Tensor decode(const Inputs& inputs, DecodePass& pass) const {
    LayerState& state = pass.states[index_];
    if (state.memory.empty()) {
      const RowPlan& plan = *inputs[1]->plan;
      const at::Tensor keys = key_.output(key_.prepared(inputs[1]->data));
      for (const at::Tensor& one : {padded(inputs[1]->data, plan), padded(keys, plan), lengths_of(plan)}) {
        state.memory.push_back(one.repeat_interleave(pass.rows_per_sample, 0));
      }
    }
    const at::Tensor queries = query_.output(query_.prepared(inputs[0]->data)).add_(bias_.value);
    const at::Tensor attention =
        additive_scores({queries.unsqueeze(1), state.memory[1], scaled_weight(), state.memory[2]}).softmax(-1);
    pass.attention = attention.select(1, 0);
    return multiply_each(attention, state.memory[0]).select(1, 0);
  }

  RowProduct query_, key_;
  framework::Parameter weight_, scale_, bias_;
  at::ScalarType type_;
  size_t index_;
  GradientBuffer& gradients_;

  // Values of the last pass.
  std::shared_ptr<const RowPlan> queries_plan_, memory_plan_;
  at::Tensor queries_, memory_;  // rows
  at::Tensor of_sentences_;      // the memory, padded
  AdditiveInputs scores_;
  at::Tensor attention_;  // [B, T, S]
};

}  // namespace

std::unique_ptr<GraphLayer> make_multi_head_attention(const models::LayerSpec& layer, size_t index,
                                                      const GraphContext& context) {
  return std::make_unique<MultiHeadAttention>(layer, index, context);
}

std::unique_ptr<GraphLayer> make_additive_attention(const models::LayerSpec& layer, size_t index,
                                                    const GraphContext& context) {
  return std::make_unique<AdditiveAttention>(layer, index, context);
}

}  // namespace mlbench::framework::native_framework
