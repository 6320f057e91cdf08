#pragma once

// Sockets between the ranks of one group, for whoever moves bytes over them (comm/gloo). Each rank listens at one port;
// of two ranks the higher one connects. A connection is handed out only when both ends have proved that they know the
// group's secret (net/proof.h): nothing that a stranger sends gets further than here. After that it is a plain TCP
// socket: no byte and no copy more.
//
// A stranger may connect, be silent, send anything, and do so thousands of times: connections that have proved nothing
// have a bounded share, of which the oldest goes first, and a few seconds; a peer that was pushed out comes again.
//
// Greeting of a connection: "mlbpeer1", own rank and channel (4 bytes each, big-endian), nonce. The other three
// messages are bare bytes (32 each).

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/net/refusals.h"

namespace mlbench::net {

struct PeerOptions {
  std::string bind_address = "127.0.0.1";  // address or network interface to listen on
  int rank = 0;
  int size = 1;
  std::string group;   // run, segment and group: a proof for one is none for another; the same at all ranks
  std::string secret;  // of the run
  std::chrono::milliseconds handshake_timeout{5000};
  int64_t socket_buffer_bytes = 0;  // of each socket and direction; 0: the system's choice
};

class PeerSockets {
 public:
  // Listens at once. IoError naming the address.
  explicit PeerSockets(PeerOptions options);

  // Where it listens ("127.0.0.1:4711"): what the other ranks are to be told.
  const std::string& address() const { return address_; }

  struct Link {
    int peer = 0;
    uint32_t channel = 0;  // several connections between the same two
  };
  // A connected socket for each link, in their order; it does not block, and has the options that the system gives, but
  // for the buffers that were asked for. Collective: the peers ask for the same links at about the same time.
  // `addresses` holds address() of each rank. CommTimeout naming the first peer that is missing; CommError when a peer
  // is gone or its address is none.
  std::vector<FileDescriptor> connect(const std::vector<Link>& links, const std::vector<std::string>& addresses,
                                      std::chrono::milliseconds timeout);

  int64_t refused() const { return refusals_.count(); }  // connections of strangers so far

 private:
  class Meeting;

  PeerOptions options_;
  FileDescriptor listener_;
  std::string address_;
  Refusals refusals_;
};

}  // namespace mlbench::net
