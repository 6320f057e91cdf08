#include "mlbench/exec/guard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"

namespace mlbench::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What a rank whose supervisor is gone gets to end by itself, and then to act on SIGTERM.
constexpr seconds kEndPatience{5};
constexpr seconds kStopPatience{3};
// Messages are small; the descriptors are those of LaunchRequest::inherited.
constexpr size_t kMostBytes = 16384;
constexpr size_t kMostDescriptors = 16;
// Where the kernel cannot say when a process ends (before Linux 5.3).
constexpr int kPollMilliseconds = 20;

struct Address {
  sockaddr_un address{};
  socklen_t size = 0;
};

// In the abstract namespace: no file that could be left behind.
Address address_of(const std::string& name) {
  Address result;
  result.address.sun_family = AF_UNIX;
  MLBENCH_CHECK(name.size() < sizeof result.address.sun_path - 1, "the name of a socket is too long");
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

FileDescriptor make_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) throw IoError("cannot create a socket: " + errno_text(errno));
  return socket;
}

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw IoError("no random bytes: " + errno_text(errno));
  }
  return fmt::format("mlbench-guard-{:02x}", fmt::join(bytes, ""));
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

std::string required_variable(const char* name) {
  const auto value = environment_variable(name);
  if (!value)
    throw UserError(fmt::format("guard-rank: {} is not set: mpirun and the supervisor of a run set it", name));
  return *value;
}

void wait_for_input(int fd) {
  pollfd input{fd, POLLIN, 0};
  while (poll(&input, 1, -1) < 0 && errno == EINTR) {
  }
}

// The rank under the guard, from its start to the last word about it.
class Guard {
 public:
  Guard(GuardSocket& supervisor, const sigset_t& signals) : supervisor_(supervisor) {
    signals_ = FileDescriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw IoError("cannot create a signal descriptor: " + errno_text(errno));
  }

  int run(const ProcessOptions& options) {
    ChildProcess rank = start(options);
    const ProcessEnd end = wait_for_end(rank);
    tell({{"code", end.code}, {"signal", end.signal ? Json(*end.signal) : Json(nullptr)}});
    while (!closed_ && !signalled()) wait(-1, -1);
    return end.code;
  }

 private:
  ChildProcess start(const ProcessOptions& options) {
    try {
      ChildProcess rank = ChildProcess::start(options);
      tell({{"pid", rank.pid()}});
      return rank;
    } catch (const IoError& error) {
      tell({{"error", error.what()}});
      throw;
    }
  }

  ProcessEnd wait_for_end(ChildProcess& rank) {
    const FileDescriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, rank.pid(), 0)));
    for (;;) {
      if (const auto end = rank.wait(milliseconds(0))) return *end;
      if (closed_) {
        if (const auto end = rank.wait(kEndPatience)) return *end;
        return rank.stop(kStopPatience);
      }
      if (const int number = signalled()) rank.signal(number);
      wait(pidfd.get(), pidfd ? -1 : kPollMilliseconds);
    }
  }

  // Until the supervisor or a signal or the process wants something.
  void wait(int pidfd, int timeout_ms) {
    std::array<pollfd, 3> inputs{pollfd{supervisor_.fd(), POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0},
                                 pollfd{pidfd, POLLIN, 0}};
    if (poll(inputs.data(), inputs.size(), timeout_ms) <= 0 || inputs[0].revents == 0) return;
    GuardSocket::Message ignored;
    closed_ = supervisor_.receive(ignored) == GuardSocket::Status::kClosed;
  }

  int signalled() {
    signalfd_siginfo info{};
    return read(signals_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

  void tell(const Json& message) {
    try {
      supervisor_.send(message);
    } catch (const IoError&) {
      closed_ = true;
    }
  }

  GuardSocket& supervisor_;
  FileDescriptor signals_;
  bool closed_ = false;
};

}  // namespace

void GuardSocket::send(const Json& message, std::span<const int> descriptors) {
  std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  MLBENCH_CHECK(text.size() <= kMostBytes && descriptors.size() <= kMostDescriptors,
                "a message to a guard is too long");
  iovec data{text.data(), text.size()};
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
  if (sent < 0) throw IoError("the other end of a rank's guard is gone: " + errno_text(errno));
}

GuardSocket::Status GuardSocket::receive(Message& message) {
  std::array<char, kMostBytes> text{};
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
  const auto content = try_parse_json({text.data(), static_cast<size_t>(count)}, inputs::kGuardMessage);
  if (!content || !content->is_object()) return Status::kClosed;  // nonsense is no word of a guard's
  message.content = *content;
  return Status::kMessage;
}

GuardListener::GuardListener() : name_(random_name()), socket_(make_socket()) {
  const Address address = address_of(name_);
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address.address), address.size) != 0 ||
      listen(socket_.get(), SOMAXCONN) != 0) {
    throw IoError("cannot listen for the guards of ranks: " + errno_text(errno));
  }
}

std::optional<GuardSocket> GuardListener::accept() {
  pollfd input{fd(), POLLIN, 0};
  while (poll(&input, 1, 0) > 0) {
    FileDescriptor connection(accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection && same_user(connection.get())) return GuardSocket(std::move(connection));
  }
  return std::nullopt;
}

int guard_rank(const std::vector<std::string>& command) {
  if (command.empty()) throw UserError("guard-rank: a command is missing (a run's supervisor starts it)");
  ProcessOptions options;
  options.arguments = command;
  options.environment = {{"RANK", required_variable("OMPI_COMM_WORLD_RANK")},
                         {"WORLD_SIZE", required_variable("OMPI_COMM_WORLD_SIZE")},
                         {"LOCAL_RANK", required_variable("OMPI_COMM_WORLD_LOCAL_RANK")},
                         {"LOCAL_WORLD_SIZE", required_variable("OMPI_COMM_WORLD_LOCAL_SIZE")}};
  options.die_with_parent = true;

  const Address address = address_of(required_variable(kGuardVariable));

  // Before there is a rank: a signal that is to end the guard is handed on to it.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  GuardSocket supervisor(make_socket());
  if (connect(supervisor.fd(), reinterpret_cast<const sockaddr*>(&address.address), address.size) != 0 ||
      !same_user(supervisor.fd())) {
    throw IoError("guard-rank: the supervisor of this run is gone: " + errno_text(errno));
  }
  supervisor.send({{"rank", std::stoi(options.environment["RANK"])}});
  GuardSocket::Message message;
  wait_for_input(supervisor.fd());
  if (supervisor.receive(message) != GuardSocket::Status::kMessage) {
    throw IoError("guard-rank: the supervisor of this run is gone");
  }
  options.output = message.content.at("output").get<std::string>();
  for (const FileDescriptor& descriptor : message.descriptors) options.inherited.push_back(descriptor.get());
  Guard guard(supervisor, signals);
  return guard.run(options);
}

}  // namespace mlbench::exec
