#pragma once

// A transport around a transport that changes nothing: the base class of wrappers.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "mlbench/comm/transport.h"

namespace mlbench::comm {

class Wrapper : public Transport {
 public:
  explicit Wrapper(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Json versions() const override { return inner_->versions(); }
  std::string collectives_by() const override { return inner_->collectives_by(); }
  bool supports(const Device& device) const override { return inner_->supports(device); }

  void barrier() override { inner_->barrier(); }
  void broadcast(BufferView buffer, int root) override { inner_->broadcast(buffer, root); }
  void all_reduce(BufferView buffer, ReduceOp op) override { inner_->all_reduce(buffer, op); }
  std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op) override {
    return inner_->all_reduce_async(buffer, op);
  }
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    inner_->all_gather_v(input, output, counts);
  }
  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    inner_->reduce_scatter(input, output, op);
  }
  void reduce(BufferView buffer, ReduceOp op, int root) override { inner_->reduce(buffer, op, root); }
  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) override {
    return inner_->send(buffer, peer, tag);
  }
  std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) override { return inner_->recv(buffer, peer, tag); }
  void gather(ConstBufferView input, BufferView output, int root) override { inner_->gather(input, output, root); }
  void scatter(ConstBufferView input, BufferView output, int root) override { inner_->scatter(input, output, root); }
  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts) override {
    inner_->all_to_all_v(input, output, send_counts, recv_counts);
  }
  void all_to_all(ConstBufferView input, BufferView output) override { inner_->all_to_all(input, output); }
  std::shared_ptr<std::byte> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void let_go() noexcept override { inner_->let_go(); }

 protected:
  Transport& inner() { return *inner_; }
  const Transport& inner() const { return *inner_; }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace mlbench::comm
