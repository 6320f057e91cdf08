#pragma once

// Gloo over sockets that are connected already (net/peer). Gloo itself neither listens at a port nor connects, so no
// byte of a stranger reaches it.

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::comm::gloo_backend {

// Asks for a send buffer of `bytes` bytes. Returns the size that the system grants, including its own bookkeeping:
// twice `bytes` where no limit is hit.
size_t set_send_buffer(int socket, size_t bytes);

// One connection to each other rank of a group, in Gloo's asynchronous mode until setSync() changes it.
class ConnectedContext final : public gloo::transport::tcp::Context {
 public:
  ConnectedContext(std::shared_ptr<gloo::transport::tcp::Device> device, int rank, int size)
      : gloo::transport::tcp::Context(std::move(device), rank, size) {}

  void connect(int peer, FileDescriptor socket, size_t send_buffer_bytes);
  // Closes the connections: peers notice, and operations under way fail.
  void close() noexcept;
  // After a failure, returns the lowest rank whose connection broke, else one from which a message is awaited, else any
  // other.
  int silent_peer();
};

class ConnectedDevice {
 public:
  ConnectedDevice();

  // Makes a context whose pairs are connected: sockets[r] to rank r; the own entry is empty. Each socket asks for a
  // send buffer of `send_buffer_bytes`; 0 leaves its buffer as it is. Gloo sets another buffer only for a message
  // longer than what was granted. Throws CommError naming the rank whose connection is lost.
  std::shared_ptr<ConnectedContext> connected(int rank, int size, std::chrono::milliseconds timeout,
                                              std::vector<FileDescriptor> sockets, size_t send_buffer_bytes);

 private:
  // Each pair of Gloo begins by listening at the address of its device. Here that is a name in a folder that no other
  // user can enter and that is removed right afterwards. The address is /proc/self/fd/N/NAME with this descriptor's
  // number N, since the device's address can neither change nor be long.
  FileDescriptor place_;
  std::shared_ptr<gloo::transport::tcp::Device> device_;
};

}  // namespace mlbench::comm::gloo_backend
