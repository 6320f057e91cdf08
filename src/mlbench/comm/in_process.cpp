#include "mlbench/comm/in_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "mlbench/comm/finished_work.h"
#include "mlbench/comm/reduce.h"

namespace mlbench::comm {

namespace {

using Bytes = std::vector<std::byte>;

// What the ranks share. Operations copy their inputs into it, so that no rank ever reads memory of another rank, which
// may have given up waiting.
class Group {
 public:
  using Route = std::tuple<int, int, int>;  // sender, receiver, tag

  Group(int size, std::chrono::milliseconds timeout)
      : timeout_(timeout),
        here_(static_cast<size_t>(size), false),
        left_(static_cast<size_t>(size), false),
        inputs(here_.size()),
        subgroups(here_.size()) {}

  int size() const { return static_cast<int>(here_.size()); }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Returns when all ranks have come.
  void meet(int rank) {
    std::unique_lock lock(mutex_);
    throw_if_left();
    here_[index(rank)] = true;
    if (++arrived_ == size()) {
      arrived_ = 0;
      here_.assign(here_.size(), false);
      ++meetings_;
      changed_.notify_all();
      return;
    }
    const int64_t meeting = meetings_;
    const bool in_time = changed_.wait_for(lock, timeout_, [&] { return meetings_ != meeting || anyone_left(); });
    if (meetings_ != meeting) return;
    if (in_time) throw_if_left();
    throw CommError(fmt::format("waited {} ms for rank {}", timeout_.count(), fmt::join(absent(), ", ")));
  }

  // From now on, calls of the other ranks throw, unless what they wait for has arrived already.
  void leave(int rank) noexcept {
    const std::lock_guard lock(mutex_);
    left_[index(rank)] = true;
    changed_.notify_all();
  }

  void put(const Route& route, Bytes message) {
    const std::lock_guard lock(mutex_);
    Channel& channel = channels_[route];
    channel.messages.emplace(channel.sent++, std::move(message));
    changed_.notify_all();
  }
  // The number of a receive in the order of its route.
  int64_t expect(const Route& route) {
    const std::lock_guard lock(mutex_);
    return channels_[route].expected++;
  }
  bool has(const Route& route, int64_t number) {
    const std::lock_guard lock(mutex_);
    return channels_[route].messages.contains(number);
  }
  Bytes take(const Route& route, int64_t number) {
    std::unique_lock lock(mutex_);
    Channel& channel = channels_[route];
    const int sender = std::get<0>(route);
    const int receiver = std::get<1>(route);
    const bool in_time = changed_.wait_for(lock, timeout_, [&] {
      return channel.messages.contains(number) || left_[index(sender)] || left_[index(receiver)];
    });
    const auto found = channel.messages.find(number);
    if (found == channel.messages.end()) {
      throw CommError(in_time ? fmt::format("rank {} has left the group", left_[index(sender)] ? sender : receiver)
                              : fmt::format("waited {} ms for rank {}", timeout_.count(), sender));
    }
    Bytes message = std::move(found->second);
    channel.messages.erase(found);
    return message;
  }

  static size_t index(int rank) { return static_cast<size_t>(rank); }

 private:
  struct Channel {
    int64_t sent = 0;
    int64_t expected = 0;
    std::map<int64_t, Bytes> messages;
  };

  bool anyone_left() const { return std::find(left_.begin(), left_.end(), true) != left_.end(); }
  void throw_if_left() const {
    for (int rank = 0; rank < size(); ++rank) {
      if (left_[index(rank)]) throw CommError(fmt::format("rank {} has left the group", rank));
    }
  }
  std::vector<int> absent() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if (!here_[index(rank)]) ranks.push_back(rank);
    }
    return ranks;
  }

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  int64_t meetings_ = 0;
  std::vector<bool> here_;
  std::vector<bool> left_;
  std::map<Route, Channel> channels_;

 public:
  // Each rank writes its input before a meeting; all ranks read it after that meeting, until the next.
  std::vector<Bytes> inputs;
  std::vector<std::shared_ptr<Group>> subgroups;
};

class ReceiveWork final : public Work {
 public:
  ReceiveWork(std::shared_ptr<Group> group, Group::Route route, BufferView buffer)
      : group_(std::move(group)), route_(route), buffer_(buffer), number_(group_->expect(route)) {}
  ~ReceiveWork() override { await_silently(); }
  bool done() override { return finished_ || group_->has(route_, number_); }
  void synchronize() override {
    if (finished_) return;
    finished_ = true;
    const Bytes message = group_->take(route_, number_);
    if (message.size() != buffer_.size_bytes()) {
      throw CommError(fmt::format("rank {} sent {} bytes under tag {}, {} were expected", std::get<0>(route_),
                                  message.size(), std::get<2>(route_), buffer_.size_bytes()));
    }
    std::memcpy(buffer_.data, message.data(), message.size());
  }

 private:
  std::shared_ptr<Group> group_;
  Group::Route route_;
  BufferView buffer_;
  int64_t number_;
  bool finished_ = false;
};

Bytes copy_of(ConstBufferView buffer) {
  const auto* begin = static_cast<const std::byte*>(buffer.data);
  return {begin, begin + buffer.size_bytes()};
}

class InProcess final : public Transport {
 public:
  InProcess(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  ~InProcess() override { group_->leave(rank_); }
  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string description() const override { return "in-process"; }

  void barrier() override { group_->meet(rank_); }

  void broadcast(BufferView buffer, int root) override {
    exchange(rank_ == root ? ConstBufferView(buffer) : ConstBufferView(), [&] {
      if (rank_ != root) std::memcpy(buffer.data, group_->inputs[Group::index(root)].data(), buffer.size_bytes());
    });
  }

  void all_reduce(BufferView buffer, ReduceOp op) override {
    exchange(buffer, [&] { reduce_into(buffer, 0, op); });
  }

  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    exchange(input, [&] {
      int64_t first = 0;
      for (size_t peer = 0; peer < counts.size(); ++peer) {
        const BufferView slice = output.slice(first, counts[peer]);
        if (slice.count > 0) std::memcpy(slice.data, group_->inputs[peer].data(), slice.size_bytes());
        first += counts[peer];
      }
    });
  }

  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    exchange(input, [&] { reduce_into(output, rank_ * output.count, op); });
  }

  void reduce(BufferView buffer, ReduceOp op, int root) override {
    exchange(buffer, [&] {
      if (rank_ == root) reduce_into(buffer, 0, op);
    });
  }

  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) override {
    group_->put({rank_, peer, tag}, copy_of(buffer));
    return std::make_unique<FinishedWork>();
  }

  std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) override {
    return std::make_unique<ReceiveWork>(group_, Group::Route{peer, rank_, tag}, buffer);
  }

  std::unique_ptr<Transport> split(int colour, int key) override {
    const int own[] = {colour, key};
    std::vector<std::pair<int, int>> members;  // (key, rank in this group), in ascending order
    exchange({own, 2, DType::kInt32}, [&] {
      for (int peer = 0; peer < size(); ++peer) {
        int other[2];
        std::memcpy(other, group_->inputs[Group::index(peer)].data(), sizeof other);
        if (other[0] == colour) members.emplace_back(other[1], peer);
      }
    });
    std::sort(members.begin(), members.end());
    const int first = members.front().second;
    if (rank_ == first) {
      group_->subgroups[Group::index(rank_)] =
          std::make_shared<Group>(static_cast<int>(members.size()), group_->timeout());
    }
    group_->meet(rank_);
    const auto subgroup = group_->subgroups[Group::index(first)];
    group_->meet(rank_);
    if (rank_ == first) group_->subgroups[Group::index(rank_)].reset();
    const auto place = std::find(members.begin(), members.end(), std::pair{key, rank_});
    return std::make_unique<InProcess>(subgroup, static_cast<int>(place - members.begin()));
  }

  void let_go() noexcept override { group_->leave(rank_); }

 private:
  // Shares the input, then lets `read` use the inputs of all ranks.
  template <typename Read>
  void exchange(ConstBufferView input, Read read) {
    group_->inputs[Group::index(rank_)] = copy_of(input);
    group_->meet(rank_);
    read();
    group_->meet(rank_);
  }

  // Combines the elements [first, first + output.count) of all inputs in the order of ranks.
  void reduce_into(BufferView output, int64_t first, ReduceOp op) {
    const AccumulateFunction accumulate = accumulate_function(output.dtype, op);
    const size_t offset = static_cast<size_t>(first) * size_of(output.dtype);
    std::memcpy(output.data, group_->inputs[0].data() + offset, output.size_bytes());
    for (size_t peer = 1; peer < group_->inputs.size(); ++peer) {
      accumulate(output.data, group_->inputs[peer].data() + offset, static_cast<size_t>(output.count), false);
    }
  }

  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_in_process_transports(int size, std::chrono::milliseconds timeout) {
  MLBENCH_CHECK(size >= 1, fmt::format("a group of {} ranks", size));
  const auto group = std::make_shared<Group>(size, timeout);
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<InProcess>(group, rank));
  return ranks;
}

std::vector<std::unique_ptr<Communicator>> make_in_process_group(int size, std::chrono::milliseconds timeout) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (auto& transport : make_in_process_transports(size, timeout)) {
    ranks.push_back(std::make_unique<Communicator>(std::move(transport)));
  }
  return ranks;
}

}  // namespace mlbench::comm
