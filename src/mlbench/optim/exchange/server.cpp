#include "mlbench/optim/exchange/server.h"

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/optim/exchange/combine.h"
#include "mlbench/optim/exchange/neighbour_exchange.h"

namespace mlbench::optim {

namespace {

constexpr int kShareTag = 11, kServedTag = 12;

at::Tensor in_part(const at::Tensor& flat, const FlatPart& part) { return flat.narrow(0, part.offset, part.count); }

}  // namespace

ServerExchange::ServerExchange(const ExchangeContext& context, const ServerOptions& options)
    : comm_(context.comm), parameters_(context.layout.parameter_count()) {
  require_no_coder(context, "server");
  require_host_memory(context, "server");
  const int64_t elements = context.layout.parameter_elements;
  const auto servers = static_cast<int>(std::min<int64_t>(options.servers, comm_.size()));
  for (int rank = 0; rank < comm_.size(); ++rank) {
    parts_.push_back(rank < servers ? part_of_rank(elements, rank, servers) : FlatPart{elements, 0});
  }
  own_parameters_ = vectors_of_part(context.layout, own()).parameter_count();
  shares_.resize(parts_.size());
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank != comm_.rank()) shares_[static_cast<size_t>(rank)] = at::empty({own().count});
  }
}

uint64_t ServerExchange::gradient_bytes() const {
  return static_cast<uint64_t>(parameters_ - own_parameters_) * sizeof(float);
}

uint64_t ServerExchange::parameter_bytes() const {
  return static_cast<uint64_t>(own_parameters_ * (comm_.size() - 1)) * sizeof(float);
}

Promise ServerExchange::promise() const { return {true, true, alone() ? 0 : gradient_bytes() + parameter_bytes()}; }

std::optional<FlatPart> ServerExchange::own_part() const {
  if (alone()) return std::nullopt;
  return own();
}

void ServerExchange::begin(const compress::StepContext& /*step*/, FlatTensors& tensors) { tensors_ = &tensors; }

uint64_t ServerExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  at::Tensor& gradients = tensors_->gradients;
  tensors_ = nullptr;
  if (alone()) return 0;
  std::vector<std::unique_ptr<comm::Work>> shares(shares_.size()), sent;
  for (size_t rank = 0; rank < parts_.size(); ++rank) {
    if (static_cast<int>(rank) == comm_.rank()) continue;
    const int peer = static_cast<int>(rank);
    if (own().count > 0) shares[rank] = comm_.recv_async(view_of(shares_[rank]), peer, kShareTag);
    if (parts_[rank].count > 0) {
      sent.push_back(comm_.send_async(view_of(in_part(gradients, parts_[rank])), peer, kShareTag));
    }
  }
  at::Tensor own_share = in_part(gradients, own()), sum;
  for (size_t rank = 0; rank < parts_.size(); ++rank) {
    if (shares[rank]) shares[rank]->synchronize();
    const at::Tensor share = shares_[rank].defined() ? shares_[rank] : own_share;
    sum = sum.defined() ? sum.add_(share) : share;
  }
  if (comm_.rank() != 0) own_share.copy_(sum);  // on rank 0 it is the sum already
  for (const auto& work : sent) work->synchronize();
  return gradient_bytes();
}

uint64_t ServerExchange::after_update(FlatTensors& tensors) {
  if (alone()) return 0;
  std::vector<std::unique_ptr<comm::Work>> under_way;
  for (size_t rank = 0; rank < parts_.size(); ++rank) {
    if (static_cast<int>(rank) == comm_.rank()) continue;
    const int peer = static_cast<int>(rank);
    if (parts_[rank].count > 0) {
      under_way.push_back(comm_.recv_async(view_of(in_part(tensors.parameters, parts_[rank])), peer, kServedTag));
    }
    if (own().count > 0) {
      under_way.push_back(comm_.send_async(view_of(in_part(tensors.parameters, own())), peer, kServedTag));
    }
  }
  for (const auto& work : under_way) work->synchronize();
  return parameter_bytes();
}

Json ServerExchange::effective() const { return effective_as_a_whole(alone()); }

}  // namespace mlbench::optim
