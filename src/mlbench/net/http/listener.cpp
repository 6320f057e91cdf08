#include "mlbench/net/http/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "mlbench/base/errors.h"

namespace mlbench::net::http {

FileDescriptor listen_on(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string where = host + ":" + std::to_string(port);
  if (const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); failed != 0) {
    throw UserError("cannot listen on " + where + ": '" + host + "' is no address of this machine (" +
                    gai_strerror(failed) + ")");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  FileDescriptor fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw IoError("cannot make a socket: " + errno_text(errno));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) {
      throw UserError("cannot listen on " + where +
                      ": another program uses this port; choose another one, or 0 for any");
    }
    throw UserError("cannot listen on " + where + ": " + errno_text(errno));
  }
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw IoError("cannot ask for the port: " + errno_text(errno));
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace mlbench::net::http
