#include "mlbench/guard/channel.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "mlbench/base/system_error.h"

namespace mlbench::guard {
namespace {

// The most descriptors of a message; they come from LaunchRequest::inherited (exec/executor.h).
constexpr size_t kMostDescriptors = 16;
constexpr std::string_view kUnix = "unix:";

struct Address {
  sockaddr_un address{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// The address of a socket in the abstract namespace, where no file could be left behind.
Address address_of(std::string_view name) {
  Address result;
  result.address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof result.address.sun_path - 1) {
    throw UserError("'" + std::string(name) + "' is no name of a socket");
  }
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

FileDescriptor make_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) throw_system_error("cannot create a socket", errno);
  return socket;
}

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw_system_error("no random bytes", errno);
  }
  std::string name = "mlbench-guard-";
  for (const unsigned char byte : bytes) name += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return name;
}

std::optional<ucred> peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

bool same_user(int socket) {
  const auto peer = peer_of(socket);
  return peer && peer->uid == geteuid();
}

class UnixChannel final : public Channel {
 public:
  explicit UnixChannel(FileDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const override { return socket_.get(); }

  std::optional<pid_t> peer() const override {
    const auto peer = peer_of(fd());
    return peer && peer->pid > 0 ? std::optional(peer->pid) : std::nullopt;
  }

  void send(const std::string& word, const std::string& text, std::span<const int> descriptors) override {
    std::string line = word + " " + text.substr(0, kMostMessageBytes - word.size() - 1);
    MLBENCH_CHECK(descriptors.size() <= kMostDescriptors, "too many descriptors for a guard");
    iovec data{line.data(), line.size()};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
    if (!descriptors.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    ssize_t sent = 0;
    do {
      sent = sendmsg(fd(), &header, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) throw_system_error("the other end of a rank's guard is gone", errno);
  }

  Status receive(Message& message) override {
    std::array<char, kMostMessageBytes> text{};
    iovec data{text.data(), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    ssize_t count = 0;
    do {
      count = recvmsg(fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && errno == EAGAIN) return Status::kNothing;
    if (count <= 0) return Status::kClosed;

    message.descriptors.clear();
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
      for (size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(part) + at, sizeof descriptor);
        message.descriptors.emplace_back(descriptor);
      }
    }
    const std::string_view line(text.data(), static_cast<size_t>(count));
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return Status::kClosed;  // each message has a blank behind its word
    message.word = line.substr(0, blank);
    message.text = line.substr(blank + 1);
    return Status::kMessage;
  }

 private:
  FileDescriptor socket_;
};

}  // namespace

std::unique_ptr<Channel> connect_to(const std::string& address, const RankOfRun& rank) {
  if (address.starts_with(kLink)) return connect_by_link(address.substr(kLink.size()), rank);
  if (!address.starts_with(kUnix)) {
    throw UserError("'" + address + "' is no address of a supervisor: expected unix:NAME or link:HOST:PORT");
  }
  const Address name = address_of(std::string_view(address).substr(kUnix.size()));
  FileDescriptor socket = make_socket();
  if (connect(socket.get(), name.get(), name.size) != 0)
    throw_system_error("the supervisor of this run is gone", errno);
  if (!same_user(socket.get())) throw IoError("another user listens in the place of the supervisor of this run");
  return std::make_unique<UnixChannel>(std::move(socket));
}

Listener::Listener() : name_(random_name()), socket_(make_socket()) {
  const Address address = address_of(name_);
  if (bind(socket_.get(), address.get(), address.size) != 0 || listen(socket_.get(), SOMAXCONN) != 0) {
    throw_system_error("cannot listen for the guards of ranks", errno);
  }
}

std::unique_ptr<Channel> Listener::accept() {
  pollfd input{fd(), POLLIN, 0};
  while (poll(&input, 1, 0) > 0) {
    FileDescriptor connection(accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection && same_user(connection.get())) return std::make_unique<UnixChannel>(std::move(connection));
  }
  return nullptr;
}

}  // namespace mlbench::guard
