#include "mlbench/comm/shm/group.h"

#include <algorithm>
#include <utility>

namespace mlbench::comm::shm_backend {

Group::Group(Segment segment, int rank, int size, std::chrono::milliseconds timeout)
    : segment_(std::move(segment)),
      layout_(size),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      passive_(header().passive != 0),
      seen_(static_cast<size_t>(size)) {}

uint64_t Group::publish() {
  ++step_;
  store(station(rank_).lines[step_ & 1].step, step_);
  for (int peer = 0; peer < size_; ++peer) ring(peer);
  return step_;
}

void Group::await(int peer, uint64_t step) {
  uint64_t& seen = seen_[static_cast<size_t>(peer)];
  if (seen >= step) return;
  const std::atomic<uint64_t>& reached = station(peer).lines[step & 1].step;
  wait(
      [&] {
        seen = reached.load(std::memory_order_acquire);
        return seen >= step;
      },
      [&](int rank) { return !has_reached(rank, step); });
}

void Group::await_all(uint64_t step) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) await(peer, step);
  }
}

std::byte* Group::next_payload() {
  const uint64_t next = step_ + 1;
  await_all(payload_free_[next & 1]);
  return station(rank_).lines[next & 1].payload;
}

int Group::claim() {
  const int slot = next_slot_;
  next_slot_ = (next_slot_ + 1) % kSlots;
  const uint64_t free = slot_free_[static_cast<size_t>(slot)];
  MLBENCH_CHECK(free <= step_, "a slot is claimed before the step that frees it: the ranks would wait for each other");
  await_all(free);
  return slot;
}

void Group::store(std::atomic<uint64_t>& number, uint64_t value) {
  // Where peers sleep rather than spin, their bells must be looked at after the number is stored. Otherwise a plain
  // store is enough, and costs tens of nanoseconds less.
  if (passive_) {
    number.exchange(value, std::memory_order_seq_cst);
  } else {
    number.store(value, std::memory_order_release);
  }
}

void Group::ring(int peer) {
  if (peer != rank_ && bell(peer).load(std::memory_order_relaxed) != 0) wake_at(bell(peer));
}

void Group::leave() noexcept {
  marker(rank_).presence.exchange(Presence::kLeft, std::memory_order_seq_cst);
  for (int peer = 0; peer < size_; ++peer) ring(peer);
}

uint64_t Group::last_step(int rank) const {
  const auto& lines = station(rank).lines;
  return std::max(lines[0].step.load(std::memory_order_relaxed), lines[1].step.load(std::memory_order_relaxed));
}

}  // namespace mlbench::comm::shm_backend
