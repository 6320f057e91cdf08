#include "mlbench/comm/wrap/netem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/comm/ring/ring.h"
#include "mlbench/comm/work_group.h"

namespace mlbench::comm {

namespace {

// Sent before each message, under the message's tag.
struct Header {
  int64_t due_ns = 0;  // on the monotonic clock

  BufferView view() { return {&due_ns, 1, DType::kInt64, {}}; }
  TimePoint due() const { return TimePoint(std::chrono::duration_cast<TimePoint::duration>(Nanoseconds(due_ns))); }
};

// A sleep ends late by tens of microseconds, as long as a message takes: the rest is waited for awake.
void wait_until(TimePoint due) {
  constexpr std::chrono::microseconds kAwake{200};
  std::this_thread::sleep_until(due - kAwake);
  while (std::chrono::steady_clock::now() < due) std::this_thread::yield();
}

class SentMessage final : public Work {
 public:
  SentMessage(Transport& inner, ConstBufferView buffer, int peer, int tag, TimePoint due)
      : header_{std::chrono::duration_cast<Nanoseconds>(due.time_since_epoch()).count()}, works_(inner) {
    works_.add(inner.send(header_.view(), peer, tag));
    works_.add(inner.send(buffer, peer, tag));
  }
  ~SentMessage() override { await_silently(); }
  bool done() override { return works_.done(); }
  void synchronize() override { works_.finish(); }

 private:
  Header header_;
  WorkGroup works_;
};

class AwaitedMessage final : public Work {
 public:
  AwaitedMessage(Transport& inner, BufferView buffer, int peer, int tag) : works_(inner) {
    works_.add(inner.recv(header_.view(), peer, tag));
    works_.add(inner.recv(buffer, peer, tag));
  }
  ~AwaitedMessage() override { await_silently(); }
  bool done() override {
    if (!fetched_ && !works_.done()) return false;
    fetch();
    return error_ != nullptr || std::chrono::steady_clock::now() >= header_.due();
  }
  void synchronize() override {
    fetch();
    if (error_ != nullptr) std::rethrow_exception(error_);
    wait_until(header_.due());
  }

 private:
  void fetch() {
    if (std::exchange(fetched_, true)) return;
    try {
      works_.finish();
    } catch (const CommError&) {
      error_ = std::current_exception();
    }
  }

  Header header_;
  WorkGroup works_;
  bool fetched_ = false;
  std::exception_ptr error_;
};

// This rank's links to all ranks of the first group. Its splits share them.
using Links = std::vector<Link>;

class Netem final : public RingCollectives {
 public:
  // origins[r] is the number of rank r in the first group.
  Netem(std::unique_ptr<Transport> inner, std::shared_ptr<Links> links, std::vector<int32_t> origins)
      : inner_(std::move(inner)), links_(std::move(links)), origins_(std::move(origins)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string description() const override { return fmt::format("netem(ring({}))", inner_->description()); }
  Json versions() const override { return inner_->versions(); }

  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) override {
    Link& link = (*links_)[static_cast<size_t>(origins_[static_cast<size_t>(peer)])];
    const TimePoint due = link.send(std::chrono::steady_clock::now(), buffer.size_bytes());
    return std::make_unique<SentMessage>(*inner_, buffer, peer, tag, due);
  }
  std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) override {
    return std::make_unique<AwaitedMessage>(*inner_, buffer, peer, tag);
  }
  std::shared_ptr<std::byte> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  std::unique_ptr<Transport> split(int colour, int key) override {
    auto part = inner_->split(colour, key);
    std::vector<int32_t> origins(static_cast<size_t>(part->size()));
    const int32_t own = origins_[static_cast<size_t>(rank())];
    if (part->size() > 1) {
      const std::vector<int64_t> ones(origins.size(), 1);
      part->all_gather_v({&own, 1, DType::kInt32}, view_of(std::span(origins)), ones);
    } else {
      origins[0] = own;
    }
    return std::make_unique<Netem>(std::move(part), links_, std::move(origins));
  }
  void let_go() noexcept override { inner_->let_go(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::shared_ptr<Links> links_;
  std::vector<int32_t> origins_;
};

void check_link(const LinkOptions& link, const std::string& name) {
  if (link.latency.count() >= 0 && link.bytes_per_second >= 0) return;
  throw UserError(fmt::format("netem: {} has a latency of {} ns and {} bytes/s; neither can be negative", name,
                              link.latency.count(), link.bytes_per_second));
}

}  // namespace

std::unique_ptr<Transport> make_netem(std::unique_ptr<Transport> inner, const NetemOptions& options) {
  const int size = inner->size();
  check_link(options.all, "every link");
  auto links = std::make_shared<Links>(static_cast<size_t>(size), Link(options.all));
  for (const auto& [ends, link] : options.links) {
    const auto [sender, receiver] = ends;
    const std::string name = fmt::format("the link {} -> {}", sender, receiver);
    check_link(link, name);
    if (sender == receiver || std::min(sender, receiver) < 0 || std::max(sender, receiver) >= size) {
      throw UserError(fmt::format("netem: {} is none between two of {} ranks (0 to {})", name, size, size - 1));
    }
    if (sender == inner->rank()) (*links)[static_cast<size_t>(receiver)] = Link(link);
  }
  std::vector<int32_t> origins(static_cast<size_t>(size));
  std::iota(origins.begin(), origins.end(), 0);
  return std::make_unique<Netem>(std::move(inner), std::move(links), std::move(origins));
}

}  // namespace mlbench::comm
