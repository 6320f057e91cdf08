#pragma once

// Tagged messages between the ranks of a group. Each direction of each pair has a ring in the sender's memory, through
// which messages stream one after the other: a header, then the bytes in pieces, so that both ends copy at the same
// time.
//
// A message goes straight into the buffer of the first receive with its tag; if there is no such receive yet, it goes
// into the receiver's memory until one comes. So a message that nobody asked for never blocks a ring, and two ranks
// that both send first do not wait for each other. All that can move moves whenever the rank waits (Group::attend).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/comm/shm/group.h"
#include "mlbench/comm/transport.h"

namespace mlbench::comm::shm_backend {

// One rank's messages, on the thread of its group. The group must outlive this object. A Work's errors name the peer.
class Messages {
 public:
  explicit Messages(Group& group);
  ~Messages();

  // A send or receive begins at once: what fits into the ring is sent before the call returns. Throws CommError after
  // close() or a failure.
  std::unique_ptr<Work> send(int peer, int tag, const std::byte* data, size_t bytes);
  std::unique_ptr<Work> recv(int peer, int tag, std::byte* data, size_t bytes);

  // Everything under way fails, and so do later calls.
  void close() noexcept;

 private:
  class MessageWork;
  struct Request;
  // A message that came before its receive.
  struct Early {
    int tag = 0;
    std::vector<std::byte> bytes;
    bool complete = false;
    std::shared_ptr<Request> receive;  // null: none has come yet
  };
  struct Outgoing {
    Ring* ring = nullptr;
    std::byte* data = nullptr;
    uint64_t written = 0;
    uint64_t announced = 0;  // how much of `written` the receiver was told
    uint64_t read = 0;       // how much the receiver had read when last seen
    bool header_written = false;
    std::deque<std::shared_ptr<Request>> queue;
  };
  struct Incoming {
    Ring* ring = nullptr;
    const std::byte* data = nullptr;
    uint64_t read = 0;
    std::deque<std::shared_ptr<Request>> receives;  // receives that no message has met yet
    std::list<Early> early;
    // The message that is coming in:
    bool open = false;
    size_t left = 0;                   // how many of its bytes are missing
    std::byte* into = nullptr;         // null: the bytes are dropped
    std::shared_ptr<Request> receive;  // null: the message goes into `filling`
    Early* filling = nullptr;
  };

  bool move_all();
  void move(int peer);
  void push(Outgoing& out, int peer);
  void announce(Outgoing& out, int peer);
  void pull(Incoming& in, int peer);
  static void meet(Incoming& in, int tag, size_t bytes);
  static void complete(Incoming& in);
  // Hands over a message that is complete, and forgets it.
  static void deliver(Incoming& in, Early& message);
  static void refuse_size(Request& receive, size_t bytes);
  // Whether the request is unfinished and `rank` is its peer, after all that can move has moved.
  bool waits_for(const Request& request, int rank);
  bool is_done(Request& request);
  void finish(Request& request);  // finishes the request, or fails it
  static void fail(Request& request, const std::string& error);
  void fail_all(const std::string& error);
  void check_open() const;

  Group& group_;
  size_t ring_bytes_;
  std::vector<Outgoing> outgoing_;  // by peer
  std::vector<Incoming> incoming_;
  bool moved_ = false;
  bool closed_ = false;
  std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace mlbench::comm::shm_backend
