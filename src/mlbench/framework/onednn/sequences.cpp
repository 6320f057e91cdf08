// Operations on sequences: samples of {positions, features} as rows, values and gradients in float32.

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "mlbench/framework/onednn/bfloat16.h"
#include "mlbench/framework/onednn/operations.h"
#include "mlbench/framework/onednn/products.h"

namespace mlbench::framework::onednn_framework {

namespace {

// Elements [0, columns) of each of `rows` rows, for LibTorch's vectorised functions.
at::Tensor view_of(float* values, int64_t rows, int64_t columns, int64_t stride) {
  return at::from_blob(values, {rows, columns}, {stride, 1}, at::kFloat);
}

// Each thread has some of the hidden units: their columns of the gates, rows of the weights and states. From one
// position to the next all threads need all states, so they meet at each. Factors of products are of type T.
template <typename T>
class Lstm final : public Operation {
 public:
  Lstm(Value* input, Value* result, const LstmParameters& p, int threads, const RowKernels& kernels)
      : p_(p),
        times_panels_(kernels.times_panels<T>()),
        own_(static_cast<size_t>(threads)),
        positions_(input->shape.height),
        features_(input->shape.channels),
        hidden_(result->shape.channels) {
    inputs = {input};
    output = result;
    by_batch = true;
    keeps = {input};
    if (input->wants_gradient) writes_gradient_of = {input};
    const auto bytes = static_cast<int64_t>(sizeof(float)) * hidden_;
    gates_.bytes_per_sample = 4 * positions_ * bytes;
    cells_.bytes_per_sample = positions_ * bytes;
    previous_.bytes_per_sample = positions_ * hidden_ * static_cast<int64_t>(sizeof(T));
    carried_.bytes_per_sample = 2 * bytes;
    state = {&gates_, &cells_, &previous_, &carried_};
    parameters = {p.bias_hh, p.bias_ih, p.weight_hh, p.weight_ih};
    flops = 2.0 * static_cast<double>(positions_ * (p.weight_ih.count + p.weight_hh.count));
    explanation = std::string("products of our own, ") + kPrecision<T>;
  }

  void prepare(const std::vector<int64_t>&, int64_t samples) override {
    const int64_t rows = samples * positions_;
    previous_panels_.resize(volume_of_panels<T>(rows, hidden_));
    input_panels_.resize(volume_of_panels<T>(rows, features_));
    if (kRounds) {
      rounded_input_.resize(static_cast<size_t>(rows * features_));
      rounded_sums_.resize(static_cast<size_t>(rows * 4 * hidden_));
    }
    for (Own& mine : own_) mine.transposed.resize(static_cast<size_t>(kUnitsAtOnce * rows));
  }

  void pack(int thread, const Pass& pass) override {
    const Share units = share_of(hidden_, thread, pass.threads, kPanel);
    Own& mine = own_[static_cast<size_t>(thread)];
    const auto packed = [](char transpose, int64_t inner, int64_t columns, const float* weights, int64_t stride,
                           std::vector<T>& panels) {
      panels.resize(volume_of_panels<T>(inner, columns));
      pack_panels(transpose, inner, columns, weights, stride, panels.data());
    };
    for (size_t gate = 0; gate < 4; ++gate) {
      const int64_t first = static_cast<int64_t>(gate) * hidden_ + units.begin;
      packed('T', features_, units.count(), p_.weight_ih.value + first * features_, features_, mine.input[gate]);
      packed('T', hidden_, units.count(), p_.weight_hh.value + first * hidden_, hidden_, mine.recurrent[gate]);
    }
    if (!pass.training) return;
    packed('N', 4 * hidden_, units.count(), p_.weight_hh.value + units.begin, hidden_, mine.carried);
    if (writes_gradient_of.empty()) return;
    const Share columns = share_of(features_, thread, pass.threads, kPanel);
    packed('N', 4 * hidden_, columns.count(), p_.weight_ih.value + columns.begin, features_, mine.input_gradient);
  }

  // An exception would leave the other threads waiting: it ends the program instead.
  void forward(const Chunk& all, const Pass& pass) noexcept override {
    const Share units = share_of(hidden_, all.thread, pass.threads, kPanel);
    const Own& mine = own_[static_cast<size_t>(all.thread)];
    const int64_t rows = all.count * positions_, wide = 4 * hidden_;
    const T* x = rounded_input(all, share_of(rows, all.thread, pass.threads));
    float* gates = gates_.at<float>(all);
    T* previous = previous_.at<T>(all);
    for (size_t gate = 0; gate < 4; ++gate) {
      const int64_t first = static_cast<int64_t>(gate) * hidden_ + units.begin;
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = first; i < first + units.count(); ++i) {
          gates[row * wide + i] = p_.bias_ih.value[i] + p_.bias_hh.value[i];
        }
      }
      times_panels_(x, features_, rows, features_, mine.input[gate].data(), units.count(), true, gates + first, wide);
    }
    for (int64_t sample = 0; sample < all.count; ++sample) {
      std::fill_n(previous + sample * positions_ * hidden_ + units.begin, units.count(), T());
    }
    for (int64_t t = 0; t < positions_; ++t) {
      if (t > 0) {
#pragma omp barrier
        for (size_t gate = 0; gate < 4; ++gate) {
          times_panels_(previous + t * hidden_, positions_ * hidden_, all.count, hidden_, mine.recurrent[gate].data(),
                        units.count(), true, gates + t * wide + static_cast<int64_t>(gate) * hidden_ + units.begin,
                        positions_ * wide);
        }
      }
      if (units.count() > 0) take_position(all, units, t);
    }
  }

  void backward(const Chunk& all, const Pass& pass) noexcept override {
    const Share units = share_of(hidden_, all.thread, pass.threads, kPanel);
    const Share columns = share_of(features_, all.thread, pass.threads, kPanel);
    Own& mine = own_[static_cast<size_t>(all.thread)];
    const int64_t rows = all.count * positions_, wide = 4 * hidden_;
    const T* sums = gradients_of_sums(all);
    float* carried = carried_.at<float>(all);
    for (int64_t sample = 0; sample < all.count; ++sample) {
      for (const int64_t part : {0, 1}) {
        std::fill_n(carried + (2 * sample + part) * hidden_ + units.begin, units.count(), 0.0F);
      }
    }
    for (int64_t t = positions_ - 1; t >= 0; --t) {
      if (units.count() > 0) give_position(all, units, t);
      if (t == 0) break;
#pragma omp barrier
      times_panels_(sums + t * wide, positions_ * wide, all.count, wide, mine.carried.data(), units.count(), false,
                    carried + units.begin, 2 * hidden_);
    }
    pack_panels('N', rows, units.count(), previous_.at<T>(all) + units.begin, hidden_,
                previous_panels_.data() + units.begin * padded<T>(rows));
    pack_panels('N', rows, columns.count(), inputs[0]->data.template at<float>(all) + columns.begin, features_,
                input_panels_.data() + columns.begin * padded<T>(rows));
#pragma omp barrier
    for (int64_t gate = 0; gate < 4; ++gate) {
      for (int64_t first = units.begin; first < units.end; first += kUnitsAtOnce) {
        add_gradients(sums, rows, gate * hidden_ + first, std::min(kUnitsAtOnce, units.end - first), pass.accumulate,
                      mine.transposed);
      }
    }
    if (writes_gradient_of.empty()) return;
    times_panels_(sums, wide, rows, wide, mine.input_gradient.data(), columns.count(), adds[0],
                  inputs[0]->gradient.template at<float>(all) + columns.begin, features_);
  }

 private:
  // Whether factors have to be rounded, which makes them copies.
  static constexpr bool kRounds = !std::is_same_v<T, float>;

  // Whose sums' gradients, transposed, stay in the second-level cache.
  static constexpr int64_t kUnitsAtOnce = 60;

  // The input of all threads, of which each rounds `rows`.
  const T* rounded_input(const Chunk& all, const Share& rows) {
    const float* x = inputs[0]->data.template at<float>(all);
    if constexpr (kRounds) {
      std::transform(x + rows.begin * features_, x + rows.end * features_,
                     rounded_input_.begin() + rows.begin * features_, rounded_to<T>);
#pragma omp barrier
      return rounded_input_.data();
    } else {
      return x;
    }
  }

  T* gradients_of_sums(const Chunk& all) {
    if constexpr (kRounds) {
      return rounded_sums_.data();
    } else {
      return gates_.at<float>(all);
    }
  }

  // Of `count` rows of the weights and biases, from the gradients of the gates' sums.
  void add_gradients(const T* sums, int64_t rows, int64_t first, int64_t count, bool accumulate,
                     std::vector<T>& transposed) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < count; ++i) {
        transposed[static_cast<size_t>(i * rows + row)] = sums[row * 4 * hidden_ + first + i];
      }
    }
    times_panels_(transposed.data(), rows, count, rows, previous_panels_.data(), hidden_, accumulate,
                  p_.weight_hh.gradient + first * hidden_, hidden_);
    times_panels_(transposed.data(), rows, count, rows, input_panels_.data(), features_, accumulate,
                  p_.weight_ih.gradient + first * features_, features_);
    for (int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int64_t row = 0; row < rows; ++row) sum += value_of(transposed[static_cast<size_t>(i * rows + row)]);
      for (float* gradient : {p_.bias_ih.gradient, p_.bias_hh.gradient}) {
        gradient[first + i] = static_cast<float>(sum) + (accumulate ? gradient[first + i] : 0.0F);
      }
    }
  }

  // Where sample `sample` has position t, unit 0.
  int64_t row_of(int64_t sample, int64_t t) const { return (sample * positions_ + t) * hidden_; }

  // From the sums at position t to gates, cells and output, which the next position gets.
  void take_position(const Chunk& all, const Share& units, int64_t t) {
    float* gates = gates_.at<float>(all) + t * 4 * hidden_ + units.begin;
    float* cells = cells_.at<float>(all);
    T* previous = previous_.at<T>(all);
    float* y = output->data.at<float>(all);
    const int64_t stride = positions_ * 4 * hidden_, count = units.count();
    for (const int64_t gate : {kInput, kForget, kOutput}) {
      view_of(gates + gate * hidden_, all.count, count, stride).sigmoid_();
    }
    view_of(gates + kCell * hidden_, all.count, count, stride).tanh_();
    for (int64_t sample = 0; sample < all.count; ++sample) {
      const float* gate = gates + sample * stride;
      float* cell = cells + row_of(sample, t) + units.begin;
      for (int64_t i = 0; i < count; ++i) {
        const float before = t > 0 ? cell[i - hidden_] : 0.0F;
        cell[i] = gate[kForget * hidden_ + i] * before + gate[kInput * hidden_ + i] * gate[kCell * hidden_ + i];
      }
    }
    at::Tensor out = view_of(y + row_of(0, t) + units.begin, all.count, count, positions_ * hidden_);
    at::tanh_out(out, view_of(cells + row_of(0, t) + units.begin, all.count, count, positions_ * hidden_));
    out.mul_(view_of(gates + kOutput * hidden_, all.count, count, stride));
    if (t + 1 == positions_) return;
    for (int64_t sample = 0; sample < all.count; ++sample) {
      const float* from = y + row_of(sample, t) + units.begin;
      std::transform(from, from + count, previous + row_of(sample, t + 1) + units.begin, rounded_to<T>);
    }
  }

  // From the output's gradient at position t to those of the sums, which take the gates' place where T is float.
  void give_position(const Chunk& all, const Share& units, int64_t t) {
    const int64_t at = t * 4 * hidden_ + units.begin;
    const float* gates = gates_.at<float>(all) + at;
    T* sums = gradients_of_sums(all) + at;
    float* cells = cells_.at<float>(all);
    float* carried = carried_.at<float>(all);
    const float* dy = output->final_gradient().at<float>(all);
    const int64_t stride = positions_ * 4 * hidden_, count = units.count();
    const at::Tensor tanh_cells =
        view_of(cells + row_of(0, t) + units.begin, all.count, count, positions_ * hidden_).tanh();
    const float* squashed = tanh_cells.const_data_ptr<float>();
    const int64_t squashed_stride = tanh_cells.stride(0);
    for (int64_t sample = 0; sample < all.count; ++sample) {
      const float* gate = gates + sample * stride;
      T* sum = sums + sample * stride;
      const float* cell = cells + row_of(sample, t) + units.begin;
      const float* from_above = dy + row_of(sample, t) + units.begin;
      float* state_gradient = carried + 2 * sample * hidden_ + units.begin;
      float* cell_gradient = state_gradient + hidden_;
      for (int64_t i = 0; i < count; ++i) {
        const float in = gate[kInput * hidden_ + i], forget = gate[kForget * hidden_ + i];
        const float candidate = gate[kCell * hidden_ + i], out = gate[kOutput * hidden_ + i];
        const float tanh_cell = squashed[sample * squashed_stride + i], before = t > 0 ? cell[i - hidden_] : 0.0F;
        const float dh = from_above[i] + state_gradient[i];
        const float dc = cell_gradient[i] + dh * out * (1 - tanh_cell * tanh_cell);
        sum[kInput * hidden_ + i] = rounded_to<T>(dc * candidate * in * (1 - in));
        sum[kForget * hidden_ + i] = rounded_to<T>(dc * before * forget * (1 - forget));
        sum[kCell * hidden_ + i] = rounded_to<T>(dc * in * (1 - candidate * candidate));
        sum[kOutput * hidden_ + i] = rounded_to<T>(dh * tanh_cell * out * (1 - out));
        cell_gradient[i] = dc * forget;
      }
    }
  }

  // A thread's panels: of the weights of its units, and of those that give its share of the input's gradient.
  struct Own {
    std::array<std::vector<T>, 4> input, recurrent;
    std::vector<T> carried, input_gradient;
    std::vector<T> transposed;
  };

  static constexpr int64_t kInput = 0, kForget = 1, kCell = 2, kOutput = 3;
  LstmParameters p_;
  TimesPanels<T> times_panels_;
  std::vector<Own> own_;
  std::vector<T> previous_panels_, input_panels_;  // for the gradients of the weights
  std::vector<T> rounded_input_, rounded_sums_;    // the input, and the gradients of the gates' sums
  int64_t positions_, features_, hidden_;
  Buffer gates_;     // [positions, 4 hidden]
  Buffer cells_;     // [positions, hidden]
  Buffer previous_;  // [positions, hidden], T: the output one position earlier
  Buffer carried_;   // [2, hidden]: gradients of output and cell that go one position back
};

// softmax(q k^T / sqrt(width)) v of each head; {positions, 3 features} in, {positions, features} out.
class Attention final : public Operation {
 public:
  Attention(Value* input, Value* result, int64_t heads, bool causal)
      : positions_(input->shape.height), features_(result->shape.channels), heads_(heads), causal_(causal) {
    inputs = {input};
    output = result;
    keeps = {input};
    writes_gradient_of = {input};
    scores_.bytes_per_sample = positions_ * positions_ * static_cast<int64_t>(sizeof(float));
    weights_.bytes_per_sample = heads * scores_.bytes_per_sample;
    state = {&weights_};
    temporary = {&scores_};
    flops = 4.0 * static_cast<double>(positions_ * positions_ * features_);
    explanation = "LibTorch's products, float32";
  }

  void forward(const Chunk& chunk, const Pass&) override {
    for_heads(chunk, [&](const Head& head) {
      const float* x = inputs[0]->data.at<float>(chunk) + head.input;
      float* y = output->data.at<float>(chunk) + head.output;
      float* weights = weights_.at<float>(chunk) + head.weights;
      float* scores = scores_.at<float>(chunk);
      multiply<float>('N', 'T', positions_, positions_, width(), x, 3 * features_, x + features_, 3 * features_, false,
                      scores, positions_);
      for (int64_t row = 0; row < positions_; ++row) {
        float* of_row = scores + row * positions_;
        for (int64_t i = 0; i < positions_; ++i) of_row[i] *= scale();
        if (causal_) std::fill(of_row + row + 1, of_row + positions_, -std::numeric_limits<float>::infinity());
      }
      at::Tensor normalised = view_of(weights, positions_, positions_, positions_);
      at::softmax_out(normalised, view_of(scores, positions_, positions_, positions_), 1);
      multiply<float>('N', 'N', positions_, width(), positions_, weights, positions_, x + 2 * features_, 3 * features_,
                      false, y, features_);
    });
  }

  void backward(const Chunk& chunk, const Pass&) override {
    const bool add = adds[0];
    for_heads(chunk, [&](const Head& head) {
      const float* x = inputs[0]->data.at<float>(chunk) + head.input;
      float* dx = inputs[0]->gradient.at<float>(chunk) + head.input;
      const float* dy = output->final_gradient().at<float>(chunk) + head.output;
      const float* weights = weights_.at<float>(chunk) + head.weights;
      float* scores = scores_.at<float>(chunk);
      const int64_t wide = 3 * features_;
      multiply<float>('T', 'N', positions_, width(), positions_, weights, positions_, dy, features_, add,
                      dx + 2 * features_, wide);
      multiply<float>('N', 'T', positions_, positions_, width(), dy, features_, x + 2 * features_, wide, false, scores,
                      positions_);
      for (int64_t row = 0; row < positions_; ++row) {
        float* of_row = scores + row * positions_;
        const float* weight = weights + row * positions_;
        float mean = 0;
        for (int64_t i = 0; i < positions_; ++i) mean += weight[i] * of_row[i];
        for (int64_t i = 0; i < positions_; ++i) of_row[i] = scale() * weight[i] * (of_row[i] - mean);
      }
      multiply<float>('N', 'N', positions_, width(), positions_, scores, positions_, x + features_, wide, add, dx,
                      wide);
      multiply<float>('T', 'N', positions_, width(), positions_, scores, positions_, x, wide, add, dx + features_,
                      wide);
    });
  }

 private:
  int64_t width() const { return features_ / heads_; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(width())); }

  // Where a head of a sample of the chunk begins.
  struct Head {
    int64_t input, output, weights;
  };
  template <typename Body>
  void for_heads(const Chunk& chunk, const Body& body) const {
    for (int64_t sample = 0; sample < chunk.count; ++sample) {
      for (int64_t head = 0; head < heads_; ++head) {
        body(Head{sample * positions_ * 3 * features_ + head * width(),
                  sample * positions_ * features_ + head * width(),
                  (sample * heads_ + head) * positions_ * positions_});
      }
    }
  }

  int64_t positions_, features_, heads_;
  bool causal_;
  Buffer weights_;  // [heads, positions, positions]
  Buffer scores_;   // [positions, positions], of one head at a time
};

}  // namespace

template <typename T>
std::unique_ptr<Operation> make_lstm(Value* input, Value* output, const LstmParameters& parameters, int threads,
                                     const RowKernels& kernels) {
  return std::make_unique<Lstm<T>>(input, output, parameters, threads, kernels);
}
template std::unique_ptr<Operation> make_lstm<float>(Value*, Value*, const LstmParameters&, int, const RowKernels&);
template std::unique_ptr<Operation> make_lstm<BFloat16>(Value*, Value*, const LstmParameters&, int, const RowKernels&);

std::unique_ptr<Operation> make_attention(Value* input, Value* output, int64_t heads, bool causal) {
  return std::make_unique<Attention>(input, output, heads, causal);
}

}  // namespace mlbench::framework::onednn_framework
