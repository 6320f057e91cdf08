#pragma once

// The socket that a server listens at.

#include <cstdint>
#include <string>

#include "mlbench/base/files.h"

namespace mlbench::net::http {

// Listens on return; port 0: any free one. UserError when the port is in use, or `host` is no address of this machine.
FileDescriptor listen_on(const std::string& host, uint16_t port);
uint16_t port_of(int fd);

}  // namespace mlbench::net::http
