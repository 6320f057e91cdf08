#pragma once

// The socket on which a server listens.

#include <cstdint>
#include <string>

#include "mlbench/base/files.h"

namespace mlbench::net::http {

// The socket listens on return; port 0 means any free port. Throws UserError when the port is in use, or when `host` is
// no address of this machine.
FileDescriptor listen_on(const std::string& host, uint16_t port);
uint16_t port_of(int fd);

}  // namespace mlbench::net::http
