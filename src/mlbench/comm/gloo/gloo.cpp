#include "mlbench/comm/gloo/gloo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "mlbench/base/sha256.h"
#include "mlbench/comm/gloo/collectives.h"
#include "mlbench/comm/gloo/mesh.h"
#include "mlbench/comm/slices.h"

namespace mlbench::comm::gloo_backend {

namespace {

// A thread that performs one collective after the other, in the order of submission.
class Queue {
 public:
  struct Task {
    std::function<void()> body;
    bool finished = false;
    std::exception_ptr error;
  };

  ~Queue() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::shared_ptr<Task> submit(std::function<void()> body) {
    auto task = std::make_shared<Task>(Task{std::move(body), false, nullptr});
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    tasks_.push_back(task);
    changed_.notify_all();
    return task;
  }
  bool finished(const Task& task) {
    const std::lock_guard lock(mutex_);
    return task.finished;
  }
  void wait(const Task& task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return task.finished; });
  }
  void wait_until_empty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.empty(); });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::shared_ptr<Task> task = tasks_.front();
      lock.unlock();
      try {
        task->body();
      } catch (...) {
        task->error = std::current_exception();
      }
      lock.lock();
      task->finished = true;
      tasks_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> tasks_;  // the first one is being performed
  bool ending_ = false;
  std::thread thread_;
};

class QueuedWork final : public Work {
 public:
  QueuedWork(Queue& queue, std::shared_ptr<Queue::Task> task) : queue_(queue), task_(std::move(task)) {}
  ~QueuedWork() override { queue_.wait(*task_); }
  bool done() override { return queue_.finished(*task_); }
  void synchronize() override {
    queue_.wait(*task_);
    if (task_->error != nullptr) std::rethrow_exception(task_->error);
  }

 private:
  Queue& queue_;
  std::shared_ptr<Queue::Task> task_;
};

// What a group passes on to its splits.
struct Origin {
  CommOptions options;                      // options of the first group
  std::string secret;                       // secret of the run
  std::shared_ptr<ConnectedDevice> device;  // null until a group has more than one rank
  size_t socket_buffer_bytes = 0;           // granted by the system; 0: none was asked for
};

// Ranks that were given no secret share one that rank 0 makes: whoever may read the store can know it.
std::string secret_of(const CommOptions& options, const std::string& key) {
  if (!options.secret.empty() || options.size == 1) return options.secret;
  if (options.rank == 0) {
    const std::string secret = random_hex(32);
    options.store->set(key, secret);
    return secret;
  }
  try {
    return options.store->get(key, options.timeout);
  } catch (const CommError& error) {
    throw CommError(fmt::format("rank 0 did not come ({})", error.what()));
  }
}

class Gloo final : public Transport {
 public:
  Gloo(Origin origin, std::string prefix, int rank, int size)
      : origin_(std::move(origin)), prefix_(std::move(prefix)), rank_(rank), size_(size) {
    if (size_ == 1) return;
    if (origin_.device == nullptr) origin_.device = std::make_shared<ConnectedDevice>();
    const CommOptions& options = origin_.options;
    net::PeerOptions peers = {.rank = rank_,
                              .size = size_,
                              .group = options.run + "/" + prefix_,
                              .secret = origin_.secret,
                              .socket_buffer_bytes = options.socket_buffer_bytes};
    if (!options.bind_address.empty()) peers.bind_address = options.bind_address;
    connections_ = connect(*origin_.device, *options.store, prefix_, peers, options);
    origin_.socket_buffer_bytes = connections_.socket_buffer_bytes;
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  // "gloo", "gloo[ring,links=2,socket_buffer=4194304]": names what was asked for, with the buffers that the system
  // granted.
  std::string description() const override {
    const CommOptions& options = origin_.options;
    std::vector<std::string> words;
    if (options.algorithm != "auto") words.push_back(options.algorithm);
    if (options.links > 1) words.push_back(fmt::format("links={}", options.links));
    if (origin_.socket_buffer_bytes > 0) words.push_back(fmt::format("socket_buffer={}", origin_.socket_buffer_bytes));
    if (!options.bind_address.empty()) words.push_back("interface=" + options.bind_address);
    return words.empty() ? "gloo" : fmt::format("gloo[{}]", fmt::join(words, ","));
  }

  std::string collectives_by() const override {
    return origin_.options.algorithm == kLibraryAlgorithm ? "gloo" : "mlbench";
  }

  void barrier() override { own().barrier(); }

  void broadcast(BufferView buffer, int root) override {
    own().broadcast(static_cast<std::byte*>(buffer.data), buffer.size_bytes(), root);
  }

  void all_reduce(BufferView buffer, ReduceOp op) override { own().all_reduce(buffer, op); }

  std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op) override {
    return std::make_unique<QueuedWork>(
        queue_, queue_.submit([this, buffer, op] { connections_.collectives->all_reduce(buffer, op); }));
  }

  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    auto* data = static_cast<std::byte*>(output.data);
    const std::vector<size_t> offsets = offsets_of(counts, output.dtype);
    if (input.count > 0) std::memmove(data + offsets[static_cast<size_t>(rank_)], input.data, input.size_bytes());
    own().all_gather(data, offsets);
  }

  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    const auto* begin = static_cast<const std::byte*>(input.data);
    std::vector<std::byte> work(begin, begin + input.size_bytes());
    own().reduce_scatter({work.data(), input.count, input.dtype, {}}, op);
    std::memcpy(output.data, work.data() + static_cast<size_t>(rank_) * output.size_bytes(), output.size_bytes());
  }

  void reduce(BufferView buffer, ReduceOp op, int root) override { own().reduce(buffer, op, root); }

  void gather(ConstBufferView input, BufferView output, int root) override {
    own().gather(static_cast<const std::byte*>(input.data), input.size_bytes(), static_cast<std::byte*>(output.data),
                 root);
  }

  void scatter(ConstBufferView input, BufferView output, int root) override {
    own().scatter(static_cast<const std::byte*>(input.data), static_cast<std::byte*>(output.data), output.size_bytes(),
                  root);
  }

  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts) override {
    own().all_to_all(static_cast<const std::byte*>(input.data), offsets_of(send_counts, input.dtype),
                     static_cast<std::byte*>(output.data), offsets_of(recv_counts, output.dtype));
  }

  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) override {
    return connections_.mailbox->send(peer, tag, buffer);
  }
  std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) override {
    return connections_.mailbox->recv(peer, tag, buffer);
  }

  std::unique_ptr<Transport> split(int colour, int key) override {
    std::vector<int32_t> all(2 * static_cast<size_t>(size_));
    const std::vector<int64_t> counts(static_cast<size_t>(size_), 2);
    const int32_t own[] = {colour, key};
    if (size_ > 1) {
      all_gather_v({own, 2, DType::kInt32}, view_of(std::span(all)), counts);
    } else {
      std::copy(std::begin(own), std::end(own), all.begin());
    }
    std::vector<std::pair<int, int>> members;  // (key, rank in this group), ordered
    for (int peer = 0; peer < size_; ++peer) {
      const auto at = 2 * static_cast<size_t>(peer);
      if (all[at] == colour) members.emplace_back(all[at + 1], peer);
    }
    std::sort(members.begin(), members.end());
    const auto place = std::find(members.begin(), members.end(), std::pair{key, rank_});
    return std::make_unique<Gloo>(origin_, fmt::format("{}split{}/{}/", prefix_, splits_++, colour),
                                  static_cast<int>(place - members.begin()), static_cast<int>(members.size()));
  }

  void let_go() noexcept override {
    connections_.mailbox->close();
    own().close();
  }

 private:
  // The collectives, once all operations begun before are finished.
  Collectives& own() {
    queue_.wait_until_empty();
    return *connections_.collectives;
  }

  Origin origin_;
  std::string prefix_;
  int rank_;
  int size_;
  int splits_ = 0;
  Connections connections_;
  Queue queue_;  // destroyed first, when its last operation has ended
};

}  // namespace

Availability available() { return {true, ""}; }

std::unique_ptr<Transport> make(const CommOptions& options) {
  MLBENCH_CHECK(options.rank >= 0 && options.rank < options.size,
                fmt::format("rank {} of {}", options.rank, options.size));
  MLBENCH_CHECK(options.size == 1 || options.store != nullptr, "a group of several ranks without a rendezvous store");
  // Writing to a peer that is gone must be an error, not the end of the process.
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
  try {
    return std::make_unique<Gloo>(Origin{options, secret_of(options, "gloo/secret"), nullptr}, "gloo/", options.rank,
                                  options.size);
  } catch (const CommError& error) {
    throw CommError(fmt::format("connecting with Gloo: rank {} of {}: {}", options.rank, options.size, error.what()));
  }
}

}  // namespace mlbench::comm::gloo_backend
