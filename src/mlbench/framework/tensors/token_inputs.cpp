#include "mlbench/framework/tensors/token_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::framework {

namespace {

// The number of positions of each sentence up to its last target that counts.
std::vector<int64_t> counted_lengths(const BatchTensor& targets, int64_t ignored) {
  const at::Tensor all = integers_of(targets);
  const auto* ids = all.const_data_ptr<int64_t>();
  const int64_t sentences = targets.shape[0], positions = targets.shape[1];
  std::vector<int64_t> lengths(static_cast<size_t>(sentences), positions);
  for (int64_t s = 0; s < sentences; ++s) {
    int64_t& length = lengths[static_cast<size_t>(s)];
    while (length > 0 && ids[s * positions + length - 1] == ignored) --length;
  }
  return lengths;
}

// The lengths of the sentences of `tensor`; none where its columns are streams, without padding.
std::optional<std::vector<int64_t>> lengths_of_sentences(const models::ModelDescription& model, const BatchView& batch,
                                                         const BatchTensor& tensor) {
  const BatchTensor* lengths = batch.find(tensor.name + "_lengths");
  const BatchTensor* targets = batch.find(model.loss.targets);
  if (lengths != nullptr && std::ranges::find(model.inputs, lengths->name) != model.inputs.end()) {
    MLBENCH_CHECK(lengths->shape[0] == tensor.shape[0], "lengths of another number of sentences");
    const at::Tensor values = integers_of(*lengths);
    const auto* first = values.const_data_ptr<int64_t>();
    return std::vector<int64_t>(first, first + values.numel());
  }
  if (tensor.name == model.decoder_input && model.loss.ignored >= 0 && targets != nullptr) {
    MLBENCH_CHECK(targets->shape == tensor.shape, "targets of another shape than the tokens before them");
    return counted_lengths(*targets, model.loss.ignored);
  }
  return std::nullopt;
}

GraphValue tokens_of(const models::ModelDescription& model, const BatchView& batch, const BatchTensor& tensor,
                     const at::Device& device) {
  const at::Tensor all = integers_of(tensor);
  if (tensor.shape.size() == 1) return {all.clone(), nullptr, false};
  MLBENCH_CHECK(tensor.shape.size() == 2, "tokens are a matrix");
  GraphValue value;
  if (auto lengths = lengths_of_sentences(model, batch, tensor)) {
    value.plan =
        std::make_shared<const RowPlan>(std::move(*lengths), tensor.shape[1], RowPlan::Order::kBySequence, device);
  } else {
    value.positions_first = true;
    value.plan =
        std::make_shared<const RowPlan>(std::vector<int64_t>(static_cast<size_t>(tensor.shape[1]), tensor.shape[0]),
                                        tensor.shape[0], RowPlan::Order::kByPosition, device);
  }
  value.data = at::empty({value.plan->rows()}, at::kLong);
  const auto* ids = all.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < value.plan->rows(); ++row) {
    const int64_t id = ids[value.place(row)];
    MLBENCH_CHECK(id >= 0 && id < model.outputs,
                  fmt::format("'{}' has the token {}, the vocabulary {}", tensor.name, id, model.outputs));
    value.data.data_ptr<int64_t>()[row] = id;
  }
  return value;
}

}  // namespace

at::Tensor integers_of(const BatchTensor& tensor) {
  const ConstBufferView& view = tensor.values;
  MLBENCH_CHECK(view.dtype == DType::kInt64 && tensor.dense() && view.count == volume_of(tensor.shape),
                fmt::format("tensor '{}' of {} elements of {}", tensor.name, view.count, name_of(view.dtype)));
  // from_blob takes a writable pointer; nothing here writes to its input.
  return at::from_blob(const_cast<void*>(view.data), tensor.shape, at::kLong);
}

std::map<std::string, GraphValue> token_inputs(const models::ModelDescription& model, const BatchView& batch,
                                               const at::Device& device) {
  std::map<std::string, GraphValue> values;
  for (const std::string& name : model.inputs) {
    if (const BatchTensor* tensor = batch.find(name)) values.emplace(name, tokens_of(model, batch, *tensor, device));
  }
  return values;
}

std::shared_ptr<const RowPlan> plan_of_one_position(int64_t sequences, const at::Device& device) {
  return std::make_shared<const RowPlan>(std::vector<int64_t>(static_cast<size_t>(sequences), 1), 1,
                                         RowPlan::Order::kBySequence, device);
}

}  // namespace mlbench::framework
