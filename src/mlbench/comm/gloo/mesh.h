#pragma once

// Moves bytes between the ranks of one group, over Gloo's TCP pairs.
//
// A rank has two or more connections to each other rank: one for tagged messages, and one or more for collectives, over
// which the chunks of long messages are spread in turn (CommOptions::links). Those for collectives are in Gloo's
// synchronous mode, where the calling thread itself reads and writes the socket. In the asynchronous mode, the only one
// that Gloo's newer collectives know, a thread of the device reads, and takes turns with the calling thread on the
// pair's lock. On one core a small all-reduce then costs a scheduler slice (4 ms) instead of tens of microseconds.
// Gloo's own collectives (library.h) share the connection of tagged messages.

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/gloo/collectives.h"
#include "mlbench/comm/gloo/connected.h"
#include "mlbench/comm/reduce.h"
#include "mlbench/net/peer/peer_sockets.h"

namespace mlbench::comm::gloo_backend {

// How to combine received elements with those in place, instead of overwriting these.
struct Combine {
  AccumulateFunction function;
  size_t element_bytes;
  bool received_first = false;
};

// Blocking transfers. Precondition: all ranks make them in matching order, on one thread at a time. A failure closes
// all connections, so that the peers notice, and throws CommError naming the peer.
class Mesh {
 public:
  struct Options {
    std::chrono::milliseconds timeout{30000};
    size_t chunk_bytes = 0;  // must be at most a quarter of a send buffer
  };
  // `links` has one context per link, with a connection to each other rank.
  Mesh(std::vector<std::shared_ptr<ConnectedContext>> links, const Options& options);

  int rank() const { return links_.front()->rank; }
  int size() const { return links_.front()->size; }

  // Transfer one message. `number` is its place among the chunks of a long one, which the links take in turn.
  void send(int peer, const std::byte* data, size_t bytes, size_t number = 0);
  void recv(int peer, std::byte* data, size_t bytes, size_t number = 0);
  // Sends to rank `to` while it receives from rank `from`, which may be the same. Moves chunks that fit into a socket
  // buffer, so that no circle of exchanges can deadlock. `out` and `in` may be the same memory. `combine` may be null.
  void exchange(int to, const std::byte* out, size_t out_bytes, int from, std::byte* in, size_t in_bytes,
                const Combine* combine);
  size_t chunk_bytes() const { return options_.chunk_bytes; }
  void close() noexcept;

 private:
  std::byte* scratch();
  template <typename Call>
  void transfer(int peer, size_t number, Call call);

  std::vector<std::shared_ptr<ConnectedContext>> links_;
  Options options_;
  std::vector<std::byte> scratch_;
};

// The tagged messages of one group. The Work of a send or receive throws CommError naming the peer.
class Mailbox {
 public:
  Mailbox(std::shared_ptr<ConnectedContext> context, std::chrono::milliseconds timeout)
      : context_(std::move(context)), timeout_(timeout) {}
  std::unique_ptr<Work> send(int peer, int tag, ConstBufferView buffer);
  std::unique_ptr<Work> recv(int peer, int tag, BufferView buffer);
  void close() noexcept { context_->close(); }

 private:
  std::unique_ptr<Work> begin(int peer, int tag, void* data, size_t bytes, bool sending);

  std::shared_ptr<ConnectedContext> context_;
  std::chrono::milliseconds timeout_;
};

// The CommError for a failed transfer from or to `peer`: the peer was lost, or did not answer within `timeout`.
CommError error_with(int peer, std::chrono::milliseconds timeout, const std::exception& error);

struct Connections {
  std::unique_ptr<Collectives> collectives;
  std::unique_ptr<Mailbox> mailbox;
  size_t socket_buffer_bytes = 0;  // buffer that the system granted each socket; 0: none was asked for
};

// Connects the rank with all others of its group, each of which must prove that it knows the run's secret. Collective.
// Keys in `store` begin with `prefix`, which must be unique to the group. Throws CommError naming the missing rank when
// the timeout passes, and IoError naming the address or interface where it cannot listen.
Connections connect(ConnectedDevice& device, RendezvousStore& store, const std::string& prefix,
                    const net::PeerOptions& peers, const CommOptions& options);

}  // namespace mlbench::comm::gloo_backend
