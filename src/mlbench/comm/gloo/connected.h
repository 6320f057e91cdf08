#pragma once

// Gloo over sockets that are connected already (net/peer). Gloo itself neither listens at a port nor connects, so no
// byte of a stranger reaches it.

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <memory>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::comm::gloo_backend {

// Asks for a send buffer of `bytes`. Returns what the system grants, with the system's own bookkeeping: twice as many
// bytes where there is no limit.
size_t set_send_buffer(int socket, size_t bytes);

class ConnectedDevice {
 public:
  ConnectedDevice();

  // A context whose pairs are connected: sockets[r] is connected with rank r; the own entry has none. Each socket asks
  // for a send buffer of `send_buffer_bytes`; 0 leaves the buffers as they are. Gloo sets another size only for a
  // message longer than what was granted.
  std::shared_ptr<gloo::transport::Context> connected(int rank, int size, std::chrono::milliseconds timeout,
                                                      std::vector<FileDescriptor> sockets, size_t send_buffer_bytes);

 private:
  // Each pair of Gloo begins by listening at the address of its device. Here that address is a name in a folder that no
  // other user can enter and that is gone a moment later. The folder's descriptor stands for the folder, since the
  // address of a device can neither change nor be long.
  FileDescriptor place_;
  std::shared_ptr<gloo::transport::tcp::Device> device_;
};

}  // namespace mlbench::comm::gloo_backend
