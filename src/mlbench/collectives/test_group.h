#pragma once

// For the tests of this folder: a clock whose time is known, and a transport that makes mistakes.

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/comm/test_group.h"
#include "mlbench/comm/wrapper.h"

namespace mlbench::collectives {

// Each reading of the clock is a step later than the one before. For one thread.
class TickingClock final : public Clock {
 public:
  explicit TickingClock(Nanoseconds step = std::chrono::milliseconds(1)) : step_(step) {}
  TimePoint now() const override { return now_ += step_; }
  std::chrono::system_clock::time_point wall_now() const override { return {}; }

 private:
  Nanoseconds step_;
  mutable TimePoint now_{};
};

using comm::kGroupPatience;
using comm::run_group;

// Is called with the output of each operation of a rank when the operation is done, and may change the output.
using Hook = std::function<void(const std::string& operation, BufferView output)>;

class HookedWork final : public comm::Work {
 public:
  HookedWork(std::unique_ptr<comm::Work> work, std::function<void()> hook)
      : work_(std::move(work)), hook_(std::move(hook)) {}
  bool done() override { return work_->done(); }
  void synchronize() override {
    work_->synchronize();
    if (hook_) std::exchange(hook_, nullptr)();
  }

 private:
  std::unique_ptr<comm::Work> work_;
  std::function<void()> hook_;
};

class HookedTransport final : public comm::Wrapper {
 public:
  HookedTransport(std::unique_ptr<comm::Transport> inner, Hook hook)
      : Wrapper(std::move(inner)), hook_(std::move(hook)) {}

  std::string description() const override { return "hooked(" + inner().description() + ")"; }
  void broadcast(BufferView buffer, int root) override {
    inner().broadcast(buffer, root);
    hook_("broadcast", buffer);
  }
  void all_reduce(BufferView buffer, comm::ReduceOp op) override {
    inner().all_reduce(buffer, op);
    hook_("all_reduce", buffer);
  }
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    inner().all_gather_v(input, output, counts);
    hook_("all_gather", output);
  }
  void reduce_scatter(ConstBufferView input, BufferView output, comm::ReduceOp op) override {
    inner().reduce_scatter(input, output, op);
    hook_("reduce_scatter", output);
  }
  void reduce(BufferView buffer, comm::ReduceOp op, int root) override {
    inner().reduce(buffer, op, root);
    hook_("reduce", buffer);
  }
  std::unique_ptr<comm::Work> recv(BufferView buffer, int peer, int tag) override {
    return std::make_unique<HookedWork>(inner().recv(buffer, peer, tag), [this, buffer] { hook_("recv", buffer); });
  }
  void gather(ConstBufferView input, BufferView output, int root) override {
    inner().gather(input, output, root);
    if (rank() == root) hook_("gather", output);
  }
  void scatter(ConstBufferView input, BufferView output, int root) override {
    inner().scatter(input, output, root);
    hook_("scatter", output);
  }
  void all_to_all(ConstBufferView input, BufferView output) override {
    inner().all_to_all(input, output);
    hook_("all_to_all", output);
  }
  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts) override {
    inner().all_to_all_v(input, output, send_counts, recv_counts);
    hook_("all_to_all_v", output);
  }
  std::unique_ptr<comm::Transport> split(int colour, int key) override { return inner().split(colour, key); }

 private:
  Hook hook_;
};

// The hook is called on the threads of all ranks.
inline std::vector<std::unique_ptr<comm::Communicator>> make_hooked_group(int size, const Hook& hook) {
  std::vector<std::unique_ptr<comm::Communicator>> ranks;
  for (auto& transport : comm::make_in_process_transports(size, kGroupPatience)) {
    ranks.push_back(
        std::make_unique<comm::Communicator>(std::make_unique<HookedTransport>(std::move(transport), hook)));
  }
  return ranks;
}

}  // namespace mlbench::collectives
