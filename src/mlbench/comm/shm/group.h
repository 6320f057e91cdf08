#pragma once

// One rank's view of its group's segment: steps, payloads, slots, and waiting for peers.
//
// Steps. All ranks of a group go through the same sequence of steps, numbered from 1. publish() says that this rank has
// reached its next step, and makes visible what it wrote before. await() waits until a peer has reached a step. The
// number of a step stands in a cache line of its rank; the line's other 56 bytes, the payload, can carry data along.
// Odd and even steps take turns with two lines.
//
// Slots. Each rank has kSlots buffers of kSlotBytes that all ranks can read and write. claim() takes them in turn. All
// ranks claim at the same places of their sequence, so that the same slot of every rank belongs together.
//
// Reuse. A rank that has read what it wanted from payloads or slots says so with its next step, whatever that step is
// for. A rank that wants to write there again waits for that step of all peers. So no step is needed for reuse alone.
//
// One thread at a time may use a group. Failures are CommErrors with the peer: "rank 1 has left the group", "lost rank
// 1 (its process has ended)", or "waited 30000 ms for rank 1" (a CommTimeout).

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/comm/shm/bell.h"
#include "mlbench/comm/shm/layout.h"
#include "mlbench/comm/shm/segment.h"

namespace mlbench::comm::shm_backend {

class Group {
 public:
  // Precondition: the segment's header is filled.
  Group(Segment segment, int rank, int size, std::chrono::milliseconds timeout);
  ~Group() { leave(); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  uint64_t publish();
  void await(int peer, uint64_t step);
  void await_all(uint64_t step);

  // Returns where this rank writes the payload of its next step, once it is free; may wait for peers.
  std::byte* next_payload();
  // The payload of a step of a peer that is known to have reached it, before payloads_read(); or one's own payload.
  const std::byte* payload(int rank, uint64_t step) const { return station(rank).lines[step & 1].payload; }
  // Says that the payloads of the last published step are read. Every rank must call this, whether it read any or not.
  void payloads_read() { payload_free_[step_ & 1] = step_ + 1; }

  int claim();
  std::byte* slot(int rank, int slot) const { return segment_.data() + layout_.slot(rank, slot); }
  void release(int slot) { slot_free_[static_cast<size_t>(slot)] = step_ + 1; }

  // Waits until ready() is true, and meanwhile attends to other work (attend()). blocks(r) tells whether peer r still
  // prevents that; the error names one such peer. Both functions are called often.
  template <typename Ready, typename Blocks>
  void wait(const Ready& ready, const Blocks& blocks);
  // Throws CommError if a peer that blocks has left or, when `thorough`, if its process has ended.
  template <typename Blocks>
  void throw_if_lost(const Blocks& blocks, bool thorough) const;
  // Sets what this rank does now and then while it waits. `other` returns whether it moved something; null: nothing.
  void attend(std::function<bool()> other) { other_ = std::move(other); }

  // Sets a number of this rank for which peers may be waiting. ring() afterwards tells them.
  void store(std::atomic<uint64_t>& number, uint64_t value);
  void ring(int peer);

  // Peers that wait for this rank stop waiting. The rank keeps its memory: what it published can still be read.
  void leave() noexcept;

  Segment& segment() { return segment_; }
  const Layout& layout() const { return layout_; }
  Header& header() const { return *at<Header>(0); }
  Marker& marker(int rank) const { return station(rank).marker; }
  Presence presence(int rank) const { return marker(rank).presence.load(std::memory_order_acquire); }

  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(segment_.data() + offset);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLookPeriod{50};  // between two checks whether processes live

  Station& station(int rank) const { return *at<Station>(layout_.station(rank)); }
  Bell& bell(int rank) const { return at<Bell>(layout_.bells())[rank]; }
  bool has_reached(int rank, uint64_t step) const {
    return station(rank).lines[step & 1].step.load(std::memory_order_acquire) >= step;
  }
  bool move_other() { return other_ && other_(); }
  template <typename Ready, typename Blocks>
  void wait_long(const Ready& ready, const Blocks& blocks);
  template <typename Ready>
  void doze(const Ready& ready, std::chrono::nanoseconds limit);
  // The rank that has come least far among those that block.
  template <typename Blocks>
  int slowest(const Blocks& blocks) const;
  uint64_t last_step(int rank) const;

  Segment segment_;
  Layout layout_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  bool passive_;
  uint64_t step_ = 0;
  std::vector<uint64_t> seen_;       // for each peer, a step that it is known to have reached
  uint64_t payload_free_[2] = {};    // the step that all peers must reach before the own payload is free
  uint64_t slot_free_[kSlots] = {};  // the step that all peers must reach before the own slot is free
  int next_slot_ = 0;
  std::function<bool()> other_;
};

template <typename Ready, typename Blocks>
void Group::wait(const Ready& ready, const Blocks& blocks) {
  constexpr int kLooks = 500;  // some 10 us
  for (int look = passive_ ? kLooks : 0; look < kLooks; ++look) {
    if (ready()) return;
    relax();
  }
  wait_long(ready, blocks);
}

template <typename Ready, typename Blocks>
void Group::wait_long(const Ready& ready, const Blocks& blocks) {
  constexpr std::chrono::microseconds kSpin{200};  // several times the cost of being woken
  Clock::time_point begin = Clock::now();
  Clock::time_point next_look = begin + kLookPeriod;
  while (true) {
    const bool moved = move_other();
    if (ready()) return;
    const Clock::time_point now = Clock::now();
    if (moved) begin = now;
    const Clock::duration waited = now - begin;
    const bool late = waited >= timeout_;
    const bool thorough = late || now >= next_look;
    if (thorough) next_look = now + kLookPeriod;
    throw_if_lost(blocks, thorough);
    const int slow = late ? slowest(blocks) : rank_;
    if (slow != rank_) throw CommTimeout(fmt::format("waited {} ms for rank {}", timeout_.count(), slow));
    if (!passive_ && waited < kSpin) {
      for (int look = 0; look < 32 && !ready(); ++look) relax();
    } else {
      doze(ready, timeout_ - waited);
    }
  }
}

template <typename Ready>
void Group::doze(const Ready& ready, std::chrono::nanoseconds limit) {
  // Peers that spin look at the bell without a fence after what they published. Rarely, they miss that it was set just
  // now; then this rank wakes by itself.
  const std::chrono::nanoseconds longest = passive_ ? kLookPeriod : std::chrono::milliseconds(1);
  bell(rank_).exchange(1, std::memory_order_seq_cst);
  if (!ready() && !move_other()) sleep_at(bell(rank_), std::min(limit, longest));
  bell(rank_).store(0, std::memory_order_relaxed);
}

template <typename Blocks>
void Group::throw_if_lost(const Blocks& blocks, bool thorough) const {
  // blocks() is called after each look at the peer: what the peer did before it left or ended counts.
  int left = rank_;
  for (int peer = 0; peer < size_ && left == rank_; ++peer) {
    if (peer != rank_ && presence(peer) == Presence::kLeft && blocks(peer)) left = peer;
  }
  if (left == rank_ && !thorough) return;
  // A rank that left may have done so because another one died.
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && presence(peer) == Presence::kPresent && has_ended(marker(peer).process) && blocks(peer)) {
      throw CommError(fmt::format("lost rank {} (its process has ended)", peer));
    }
  }
  if (left != rank_) throw CommError(fmt::format("rank {} has left the group", left));
}

template <typename Blocks>
int Group::slowest(const Blocks& blocks) const {
  int slow = rank_;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_ || !blocks(peer)) continue;
    if (slow == rank_ || last_step(peer) < last_step(slow)) slow = peer;
  }
  return slow;
}

}  // namespace mlbench::comm::shm_backend
