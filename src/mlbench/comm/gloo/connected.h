#pragma once

// Gloo over sockets that stand already (net/peer): it neither listens at a port nor connects, so no byte of a stranger
// gets to it.

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::comm::gloo_backend {

// Asks for a send buffer of so many bytes. Returns what the system grants, with its own bookkeeping: twice as many
// where there is no limit.
size_t set_send_buffer(int socket, size_t bytes);

// Connections to all other ranks of a group, in Gloo's asynchronous mode unless somebody sets another.
class ConnectedContext final : public gloo::transport::tcp::Context {
 public:
  ConnectedContext(std::shared_ptr<gloo::transport::tcp::Device> device, int rank, int size)
      : gloo::transport::tcp::Context(std::move(device), rank, size) {}

  void connect(int peer, FileDescriptor socket, size_t send_buffer_bytes);
  // Peers notice, and what is under way fails.
  void close() noexcept;
  // After a failure: the rank whose connection broke first, else one that a message is awaited from, else any other.
  int silent_peer();
};

class ConnectedDevice {
 public:
  ConnectedDevice();

  // A context whose pairs are connected: sockets[r] with rank r, the own one none. Each asks for a send buffer of
  // `send_buffer_bytes`, 0: the buffers are as they are to be. Only for a message that is longer than what was granted
  // does Gloo set another.
  std::shared_ptr<ConnectedContext> connected(int rank, int size, std::chrono::milliseconds timeout,
                                              std::vector<FileDescriptor> sockets, size_t send_buffer_bytes);

 private:
  // Each pair of Gloo's begins with listening, at the address of its device; here that is a name in a folder that no
  // other user can enter and that is gone a moment later. The number of the descriptor stands for the folder, since
  // the device's address can neither change nor be long.
  FileDescriptor place_;
  std::shared_ptr<gloo::transport::tcp::Device> device_;
};

}  // namespace mlbench::comm::gloo_backend
