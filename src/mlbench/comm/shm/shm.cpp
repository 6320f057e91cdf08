#include "mlbench/comm/shm/shm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/comm/shm/collectives.h"
#include "mlbench/comm/shm/meeting.h"
#include "mlbench/comm/shm/messages.h"
#include "mlbench/comm/shm/reductions.h"
#include "mlbench/comm/shm/regions.h"
#include "mlbench/comm/slices.h"

namespace mlbench::comm::shm_backend {

namespace {

const std::byte* bytes_of(const ConstBufferView& buffer) { return static_cast<const std::byte*>(buffer.data); }
std::byte* bytes_of(const BufferView& buffer) { return static_cast<std::byte*>(buffer.data); }

// This compares with the cores of the host, not those of this process: each rank may be bound to its own.
bool more_than_cores(int ranks) { return ranks > host_cores(); }

class Shm final : public Transport {
 public:
  // A group of one rank.
  explicit Shm(Membership own) : own_(std::move(own)) {}
  Shm(Membership own, std::unique_ptr<Group> group)
      : own_(std::move(own)), group_(std::move(group)), messages_(std::make_unique<Messages>(*group_)) {}

  int rank() const override { return own_.rank; }
  int size() const override { return own_.size; }
  std::string description() const override { return "shm"; }

  void barrier() override { collectives::barrier(*group_); }

  void broadcast(BufferView buffer, int root) override {
    collectives::broadcast(*group_, bytes_of(buffer), buffer.size_bytes(), root);
  }

  void all_reduce(BufferView buffer, ReduceOp op) override { reductions::all_reduce(*group_, regions_, buffer, op); }

  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    collectives::all_gather(*group_, bytes_of(input), bytes_of(output), offsets_of(counts, output.dtype));
  }

  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    reductions::reduce_scatter(*group_, input, output, op);
  }

  void reduce(BufferView buffer, ReduceOp op, int root) override {
    reductions::reduce(*group_, regions_, buffer, op, root);
  }

  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) override {
    return messages_->send(peer, tag, bytes_of(buffer), buffer.size_bytes());
  }
  std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) override {
    return messages_->recv(peer, tag, bytes_of(buffer), buffer.size_bytes());
  }

  void gather(ConstBufferView input, BufferView output, int root) override {
    collectives::gather(*group_, bytes_of(input), input.size_bytes(), bytes_of(output), root);
  }

  void scatter(ConstBufferView input, BufferView output, int root) override {
    collectives::scatter(*group_, bytes_of(input), bytes_of(output), output.size_bytes(), root);
  }

  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts) override {
    // All ranks must know how often the slots are to be filled.
    const int64_t largest = *std::max_element(send_counts.begin(), send_counts.end());
    all_to_all_slices(input, output, send_counts, recv_counts,
                      collectives::largest_of(*group_, static_cast<size_t>(largest)));
  }

  void all_to_all(ConstBufferView input, BufferView output) override {
    const std::vector<int64_t> counts(static_cast<size_t>(size()), input.count / size());
    all_to_all_slices(input, output, counts, counts, static_cast<size_t>(counts.front()));
  }

  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    return bytes > 0 && group_ != nullptr ? regions_.allocate(*group_, own_.run, bytes) : Transport::allocate(bytes);
  }

  std::unique_ptr<Transport> split(int colour, int key) override;

  void let_go() noexcept override {
    if (group_ == nullptr) return;
    messages_->close();
    group_->leave();
  }

 private:
  void all_to_all_slices(const ConstBufferView& input, const BufferView& output, std::span<const int64_t> send_counts,
                         std::span<const int64_t> recv_counts, size_t largest) {
    collectives::all_to_all(*group_, bytes_of(input), offsets_of(send_counts, input.dtype), bytes_of(output),
                            offsets_of(recv_counts, output.dtype), largest * size_of(input.dtype));
  }
  // Returns `bytes` of each rank, in rank order.
  std::vector<std::byte> gather_all(const void* input, size_t bytes) {
    std::vector<size_t> offsets;
    for (size_t rank = 0; rank <= static_cast<size_t>(size()); ++rank) offsets.push_back(rank * bytes);
    std::vector<std::byte> all(offsets.back());
    collectives::all_gather(*group_, static_cast<const std::byte*>(input), all.data(), offsets);
    return all;
  }

  Membership own_;
  int splits_ = 0;
  Regions regions_;
  std::unique_ptr<Group> group_;  // null: there is one rank
  std::unique_ptr<Messages> messages_;
};

std::unique_ptr<Transport> Shm::split(int colour, int key) {
  struct Choice {
    int32_t colour, key;
  };
  Membership part = own_;
  part.group = fmt::format("{}split{}/{}/", own_.group, splits_++, colour);
  if (group_ == nullptr) return std::make_unique<Shm>(part);

  const Choice own{colour, key};
  const std::vector<std::byte> choices = gather_all(&own, sizeof own);
  std::vector<std::pair<int, int>> members;  // (key, rank in this group), in ascending order
  for (int peer = 0; peer < size(); ++peer) {
    Choice choice{};
    std::memcpy(&choice, choices.data() + static_cast<size_t>(peer) * sizeof choice, sizeof choice);
    if (choice.colour == colour) members.emplace_back(choice.key, peer);
  }
  std::sort(members.begin(), members.end());
  part.rank = static_cast<int>(std::find(members.begin(), members.end(), std::pair{key, rank()}) - members.begin());
  part.size = static_cast<int>(members.size());

  // The first rank of each part invites the others through this group, in which all parts exchange at the same time.
  const auto exchange = [&](const std::string& invitation) {
    char text[kInvitationBytes] = {};
    invitation.copy(text, sizeof text - 1);
    const std::vector<std::byte> all = gather_all(text, sizeof text);
    const size_t first = static_cast<size_t>(members.front().second) * sizeof text;
    return std::string(reinterpret_cast<const char*>(all.data() + first));
  };
  if (part.size == 1) {
    exchange("");
    return std::make_unique<Shm>(part);
  }
  auto group = part.rank == 0 ? host(part, [&](const std::string& invitation) { exchange(invitation); })
                              : join(part, exchange(""));
  return std::make_unique<Shm>(part, std::move(group));
}

}  // namespace

Availability available() {
  const bool usable = access("/dev/shm", W_OK | X_OK) == 0;
  return {usable, usable ? "" : "/dev/shm is not there or not writable"};
}

std::unique_ptr<Transport> make(const CommOptions& options) {
  MLBENCH_CHECK(options.rank >= 0 && options.rank < options.size,
                fmt::format("rank {} of {}", options.rank, options.size));
  MLBENCH_CHECK(options.size == 1 || options.store != nullptr, "a group of several ranks without a rendezvous store");
  const Membership own = {.rank = options.rank,
                          .size = options.size,
                          .run = options.run,
                          .group = "shm/",
                          .secret = options.secret,
                          .timeout = options.timeout,
                          .passive = options.passive_wait || more_than_cores(options.size)};
  if (own.size == 1) return std::make_unique<Shm>(own);
  constexpr const char* kKey = "shm/invitation";
  const auto invitation = [&] {
    try {
      return options.store->get(kKey, options.timeout);
    } catch (const CommError& error) {
      throw CommError(fmt::format("rank 0 did not come ({})", error.what()));
    }
  };
  try {
    auto group = own.rank == 0 ? host(own, [&](const std::string& text) { options.store->set(kKey, text); })
                               : join(own, invitation());
    return std::make_unique<Shm>(own, std::move(group));
  } catch (const CommError& error) {
    throw CommError(fmt::format("connecting over shared memory: rank {} of {}: {}", own.rank, own.size, error.what()));
  }
}

}  // namespace mlbench::comm::shm_backend
