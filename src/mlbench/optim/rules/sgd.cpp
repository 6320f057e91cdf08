#include "mlbench/optim/rules/sgd.h"

#include <cstring>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/sgd_kernel.h"

namespace mlbench::optim {

namespace {

const std::string kSteps = "optimizer/momentum_steps";

std::string key_of(const FlatRange& range) { return "optimizer/momentum/" + range.name; }

}  // namespace

SgdRule::SgdRule(const SgdOptions& options, FlatLayout layout) : options_(options), layout_(std::move(layout)) {
  const auto refuse = [](const std::string& text) { throw UserError("SGD: " + text); };
  if (!(options.momentum >= 0)) refuse("momentum is " + std::to_string(options.momentum) + "; expected 0 or more");
  if (!(options.weight_decay >= 0)) {
    refuse("weight_decay is " + std::to_string(options.weight_decay) + "; expected 0 or more");
  }
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    refuse("nesterov needs a momentum above 0 and dampening 0; given momentum " + std::to_string(options.momentum) +
           ", dampening " + std::to_string(options.dampening));
  }
  if (options.momentum != 0) momentum_ = at::zeros({layout_.parameter_elements}, at::kFloat);
}

void SgdRule::update(FlatTensors& tensors, double lr) {
  MLBENCH_CHECK(tensors.parameters.numel() == layout_.parameter_elements &&
                    tensors.gradients.numel() == layout_.parameter_elements,
                "flat buffers of another layout");
  sgd_update(tensors.parameters.data_ptr<float>(), tensors.gradients.data_ptr<float>(),
             momentum_.defined() ? momentum_.data_ptr<float>() : nullptr, layout_.parameter_elements,
             {.lr = static_cast<float>(lr),
              .momentum = static_cast<float>(options_.momentum),
              .keep = static_cast<float>(1.0 - options_.dampening),
              .weight_decay = static_cast<float>(options_.weight_decay),
              .nesterov = options_.nesterov,
              .first = steps_ == 0});
  ++steps_;
}

void SgdRule::export_state(NamedState& state) const {
  state.scalars[kSteps] = steps_;
  if (!momentum_.defined()) return;
  for (const FlatRange& range : layout_.ranges) {
    if (!range.trainable) continue;
    const auto* values = reinterpret_cast<const std::byte*>(momentum_.data_ptr<float>() + range.offset);
    state.tensors[key_of(range)] = {
        DType::kFloat32, range.shape, {values, values + static_cast<size_t>(range.count) * sizeof(float)}};
  }
}

void SgdRule::import_state(const NamedState& state) {
  steps_ = state.integer(kSteps);
  if (!momentum_.defined()) return;
  for (const FlatRange& range : layout_.ranges) {
    if (!range.trainable) continue;
    const HostTensor& tensor = state.tensor(key_of(range));
    if (tensor.dtype != DType::kFloat32 || tensor.shape != range.shape) {
      throw UserError("checkpoint: '" + key_of(range) + "' has another type or shape than parameter '" + range.name +
                      "' of this task: it belongs to another model");
    }
    std::memcpy(momentum_.data_ptr<float>() + range.offset, tensor.bytes.data(), tensor.bytes.size());
  }
}

}  // namespace mlbench::optim
