#pragma once

// Bytes between the ranks of one group, over Gloo's TCP pairs.
//
// A rank has two or more connections to each other rank: for collectives, over which the chunks of long messages are
// spread in turn (CommOptions::links), and one for tagged messages. Those for collectives are in Gloo's synchronous
// mode, where the calling thread itself reads and writes the socket. In the asynchronous mode (all that Gloo's own
// newer collectives know) a thread of the device reads, and takes turns with the calling thread on the pair's lock: on
// one core a small all-reduce then costs a scheduler slice (4 ms) instead of tens of microseconds. Gloo's own
// collectives (library.h) share the connection of tagged messages.

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/gloo/collectives.h"
#include "mlbench/comm/gloo/connected.h"
#include "mlbench/comm/reduce.h"
#include "mlbench/net/peer/peer_sockets.h"

namespace mlbench::comm::gloo_backend {

// What to do with received elements: combine them with those in place instead of overwriting them.
struct Combine {
  AccumulateFunction function;
  size_t element_bytes;
  bool received_first = false;
};

// Blocking transfers in one order that all ranks share. A failure closes all connections, so that the peers notice, and
// throws CommError naming the peer. One thread at a time.
class Mesh {
 public:
  struct Options {
    std::chrono::milliseconds timeout{30000};
    size_t chunk_bytes = 0;  // at most a quarter of what the send buffers hold
  };
  // One context per link: as many connections to each other rank.
  Mesh(std::vector<std::shared_ptr<ConnectedContext>> links, const Options& options);

  int rank() const { return links_.front()->rank; }
  int size() const { return links_.front()->size; }

  // One message; `number` is its place among the chunks of a long one, which links take in turn.
  void send(int peer, const std::byte* data, size_t bytes, size_t number = 0);
  void recv(int peer, std::byte* data, size_t bytes, size_t number = 0);
  // Sends to one rank while it receives from another (or the same), in chunks that a socket buffer holds, so that no
  // circle of exchanges can lock up. `out` and `in` may be the same memory. `combine` may be null.
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

// The tagged messages of one group. A receive's and a send's Work throw CommError naming the peer.
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

// What a failed transfer from or to a peer becomes: the peer is lost, or was waited for so long.
CommError error_with(int peer, std::chrono::milliseconds timeout, const std::exception& error);

struct Connections {
  std::unique_ptr<Collectives> collectives;
  std::unique_ptr<Mailbox> mailbox;
  size_t socket_buffer_bytes = 0;  // that the system gives each, of those asked for
};

// Collective: connects the rank with all others of its group, each of whom proves that it knows the run's secret. Keys
// of the store begin with `prefix`, one per group and run. CommError naming the rank that is missing when the timeout
// passes; IoError naming the address or interface if it cannot be listened on.
Connections connect(ConnectedDevice& device, RendezvousStore& store, const std::string& prefix,
                    const net::PeerOptions& peers, const CommOptions& options);

}  // namespace mlbench::comm::gloo_backend
