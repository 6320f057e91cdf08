#pragma once

// Sockets between the ranks of one group, for whoever moves bytes over them (comm/gloo). Each rank listens at one port;
// of two ranks the higher one connects. A connection is handed out only when both ends have proved that they know the
// group's secret (net/proof.h): nothing that a stranger sends gets further than this. From then on it is a plain TCP
// socket without an extra byte or copy.
//
// A stranger may connect, be silent, send anything, and do so thousands of times. Connections that have proved nothing
// have a few seconds and a bounded share, of which the oldest goes first; a peer that was pushed out comes again.
//
// The greeting of a connection is "mlbpeer1", the sender's rank and the channel (4 bytes each, big-endian), and a
// nonce. The other three messages are bare bytes (32 each).

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
  std::string group;   // run, segment and group, the same at all ranks: a proof for one group is none for another
  std::string secret;  // the run's
  std::chrono::milliseconds handshake_timeout{5000};
  int64_t socket_buffer_bytes = 0;  // of each socket and direction; 0: the system's choice
};

class PeerSockets {
 public:
  // Listens at once. Throws IoError naming the address.
  explicit PeerSockets(PeerOptions options);

  // The address on which this rank listens ("127.0.0.1:4711"), which the other ranks must be told.
  const std::string& address() const { return address_; }

  struct Link {
    int peer = 0;
    uint32_t channel = 0;  // tells apart several connections between the same two ranks
  };
  // Returns a connected socket for each link, in the order of `links`. The sockets do not block, and have the system's
  // options except for the buffers that were asked for. The call is collective: the peers ask for the same links at
  // about the same time. `addresses` holds address() of each rank. Throws CommTimeout naming the first peer that is
  // missing, and CommError when a peer is gone or its address is none.
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
