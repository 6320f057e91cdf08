#include "mlbench/optim/exchange/push_sum.h"

#include <cstring>

namespace mlbench::optim {

namespace {

constexpr int kPushTag = 9;
const std::string kPushRounds = "exchange/rounds";
const std::string kPushSumWeight = "exchange/push_sum_weight";
// The weight goes behind the values of a message, with the bits that it has.
constexpr int64_t kWeightElements = sizeof(double) / sizeof(float);

at::Tensor message_of(const at::Tensor& values, double weight) {
  at::Tensor message = at::empty({values.numel() + kWeightElements});
  message.narrow(0, 0, values.numel()).copy_(values);
  std::memcpy(message.data_ptr<float>() + values.numel(), &weight, sizeof weight);
  return message;
}

double weight_in(const at::Tensor& message) {
  double weight = 0;
  std::memcpy(&weight, message.const_data_ptr<float>() + message.numel() - kWeightElements, sizeof weight);
  return weight;
}

}  // namespace

PushSumExchange::PushSumExchange(const ExchangeContext& context, const PushSumOptions& options)
    : NeighbourExchange(context, options.every),
      message_bytes_(static_cast<uint64_t>(context.layout.parameter_count() + kWeightElements) * sizeof(float)),
      graph_(options.graph, MixingDemand::kColumnStochastic, context.comm.rank(), context.comm.size()) {
  require_no_coder(context, "push_sum");
  require_host_memory(context, "push_sum");
}

uint64_t PushSumExchange::bytes_per_mixing() const { return message_bytes_ * graph_.mixing(0).to.size(); }

void PushSumExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  NeighbourExchange::begin(step, tensors);
  before_ = weight_ == 1 ? at::Tensor() : tensors.parameters.clone();
}

uint64_t PushSumExchange::after_update(FlatTensors& tensors) {
  if (comm_.size() == 1) return 0;
  at::Tensor& values = tensors.parameters;
  if (before_.defined()) values.add_(before_, weight_ - 1);  // x, behind the rule's step
  const uint64_t bytes = mixes_behind_this_update() ? push(values) : 0;
  if (weight_ != 1) values.div_(weight_);
  return bytes;
}

uint64_t PushSumExchange::push(at::Tensor& values) {
  const Mixing mixing = graph_.mixing(rounds_++);
  const std::vector<at::Tensor> received =
      exchange_with(comm_, mixing.to, mixing.from, message_of(values, weight_), kPushTag);
  values.mul_(mixing.own);
  weight_ *= mixing.own;
  for (size_t i = 0; i < received.size(); ++i) {
    values.add_(received[i].narrow(0, 0, values.numel()), mixing.weights[i]);
    weight_ += mixing.weights[i] * weight_in(received[i]);
  }
  return message_bytes_ * mixing.to.size();
}

void PushSumExchange::export_state(NamedState& state) const {
  NeighbourExchange::export_state(state);
  state.scalars[kPushRounds] = rounds_;
  state.scalars[kPushSumWeight] = weight_;
}

void PushSumExchange::import_state(const NamedState& state) {
  NeighbourExchange::import_state(state);
  rounds_ = state.integer(kPushRounds);
  weight_ = state.real(kPushSumWeight);
}

}  // namespace mlbench::optim
