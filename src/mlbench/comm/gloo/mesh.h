#pragma once

// Bytes between the ranks of one group, over Gloo's TCP pairs.
//
// A rank has two or more connections to each other rank: one or several for collectives, over which the chunks of long
// messages are spread in turn (CommOptions::links), and one for tagged messages. Connections for collectives are in
// Gloo's synchronous mode, in which the calling thread itself reads and writes the socket. In the asynchronous mode
// (the only one of Gloo's own newer collectives), a thread of the device reads and takes turns with the calling thread
// on the pair's lock: on one core a small all-reduce then costs a scheduler slice (4 ms) instead of tens of
// microseconds.

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/gloo/connected.h"
#include "mlbench/comm/reduce.h"
#include "mlbench/net/peer/peer_sockets.h"

namespace mlbench::comm::gloo_backend {

// Combines received elements with those in place, instead of overwriting them.
struct Combine {
  AccumulateFunction function;
  size_t element_bytes;
  bool received_first = false;
};

// Blocking transfers, in one order that all ranks share. A failure closes all connections, so that the peers notice,
// and throws CommError naming the peer. One thread at a time may use a mesh.
class Mesh {
 public:
  struct Options {
    std::chrono::milliseconds timeout{30000};
    size_t chunk_bytes = 0;  // at most a quarter of what the send buffers hold
  };
  // Each link is one context, and thus one connection to each other rank.
  Mesh(std::vector<std::shared_ptr<gloo::transport::Context>> links, const Options& options);

  int rank() const { return links_.front()->rank; }
  int size() const { return links_.front()->size; }

  // One message. `number` is its place among the chunks of a long message, which go over the links in turn.
  void send(int peer, const std::byte* data, size_t bytes, size_t number = 0);
  void recv(int peer, std::byte* data, size_t bytes, size_t number = 0);
  // Sends to one rank while receiving from another (or the same), in chunks that a socket buffer holds, so that no
  // circle of exchanges can lock up. `out` and `in` may be the same memory. `combine` may be null.
  void exchange(int to, const std::byte* out, size_t out_bytes, int from, std::byte* in, size_t in_bytes,
                const Combine* combine);
  size_t chunk_bytes() const { return options_.chunk_bytes; }
  void close() noexcept;

 private:
  std::byte* scratch();
  template <typename Call>
  void transfer(int peer, size_t number, Call call);

  std::vector<std::shared_ptr<gloo::transport::Context>> links_;
  Options options_;
  std::vector<std::byte> scratch_;
};

// The messages of a group that are under way. Gloo leaves one waiting when its own side has closed the connection.
class Waiting {
 public:
  void add(gloo::transport::UnboundBuffer& message);  // throws CommError after let_go()
  void remove(gloo::transport::UnboundBuffer& message);
  // Ends the waiting for each of these messages.
  void let_go() noexcept;

 private:
  std::mutex mutex_;
  std::set<gloo::transport::UnboundBuffer*> messages_;
  bool let_go_ = false;
};

// The tagged messages of one group. The Work of a send or a receive throws CommError naming the peer.
class Mailbox {
 public:
  Mailbox(std::shared_ptr<gloo::transport::Context> context, std::chrono::milliseconds timeout)
      : context_(std::move(context)), timeout_(timeout) {}
  std::unique_ptr<Work> send(int peer, int tag, ConstBufferView buffer);
  std::unique_ptr<Work> recv(int peer, int tag, BufferView buffer);
  void close() noexcept;

 private:
  std::unique_ptr<Work> begin(int peer, int tag, void* data, size_t bytes, bool sending);

  std::shared_ptr<gloo::transport::Context> context_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

struct Connections {
  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<Mailbox> mailbox;
  size_t socket_buffer_bytes = 0;  // what the system gives each socket, of the bytes asked for
};

// Connects the rank with all others of its group, each of which proves that it knows the run's secret. Collective. Keys
// of the store begin with `prefix`, which is unique to the group and the run. Throws CommError naming the missing rank
// when `timeout` passes, and IoError naming the address or interface if listening there fails.
Connections connect(ConnectedDevice& device, RendezvousStore& store, const std::string& prefix,
                    const net::PeerOptions& peers, int links, std::chrono::milliseconds timeout);

}  // namespace mlbench::comm::gloo_backend
