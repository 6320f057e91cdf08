#include "mlbench/comm/gloo/connected.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gloo/transport/tcp/pair.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::comm::gloo_backend {

namespace {

namespace tcp = gloo::transport::tcp;

constexpr const char* kListenerName = "pair";

// Whether a timeout ended the connection: when an operation times out, Gloo ends all connections of its context.
bool ended_by_timeout(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& reason) {
    return std::string_view(reason.what()).find("Application timeout") != std::string_view::npos;
  }
}

class ConnectedPair final : public tcp::Pair {
 public:
  ConnectedPair(tcp::Context* context, tcp::Device* device, int rank, std::chrono::milliseconds timeout,
                FileDescriptor socket, size_t send_buffer_bytes)
      : tcp::Pair(context, device, rank, timeout) {
    const std::lock_guard lock(m_);
    if (state_ != LISTENING) throw IoError("somebody connected to the private socket of a pair of Gloo's");
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = -1;
    // Until handleConnected() has returned, a failure leaves nothing for the base class to clean up.
    state_ = INITIALIZING;
    fd_ = socket.get();
    handleConnected();
    static_cast<void>(socket.release());
    // Gloo enlarges a buffer smaller than the message at hand, and takes all that the system grants for room. A message
    // that just fits then fills the buffer with what the system keeps beside it. Both ends of an exchange wait in
    // writing until a delayed acknowledgement makes room, 40 ms later.
    sendBufferSize_ =
        send_buffer_bytes == 0 ? std::numeric_limits<size_t>::max() : set_send_buffer(fd_, send_buffer_bytes);
  }

  // The device's thread calls changeState() until the pair is closed, for which the object must be whole.
  ~ConnectedPair() override { tcp::Pair::close(); }

  int peer_rank() const { return rank_; }
  // Whether the other side, or the network, ended the connection.
  bool broken() {
    const std::lock_guard lock(m_);
    return broken_;
  }
  // Whether a message was awaited when the connection ended.
  bool awaited() {
    const std::lock_guard lock(m_);
    return awaited_;
  }

 protected:
  // When a connection breaks, Gloo tells those who wait for messages that have yet to begin, then calls this, with the
  // pair locked. It forgets a message under way, of which a part is read or written: whoever waits for that would wait
  // until the timeout. So such messages go back among those that have yet to begin, and Gloo tells all of them once
  // more. Nothing is transferred any more over a pair with an exception. When the own side closes, Gloo tells nobody,
  // so all who wait are told here.
  void changeState(state next) noexcept override {
    if (next != CLOSED || std::exchange(told_, true)) {
      tcp::Pair::changeState(next);
      return;
    }
    broken_ = ex_ != nullptr && !ended_by_timeout(ex_);
    awaited_ = std::ranges::any_of(localPendingRecv_, [](const auto& slot) { return !slot.second.empty(); });
    localPendingRecv_[rx_.preamble.slot].emplace_back(rx_.ubuf, 0, 0);
    for (const tcp::Op& op : tx_) localPendingSend_[op.preamble.slot].emplace_back(op.ubuf, 0, 0);
    if (!broken_) ex_ = std::make_exception_ptr(gloo::IoException("this rank has let go of its connections"));
    signalException(std::exchange(ex_, nullptr));
  }

 private:
  bool told_ = false, broken_ = false, awaited_ = false;
};

FileDescriptor open_folder(const std::filesystem::path& path) {
  FileDescriptor folder(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw IoError("cannot open " + path.string() + ": " + errno_text(errno));
  return folder;
}

tcp::attr attributes_of(const sockaddr* address, size_t bytes) {
  tcp::attr attributes;
  attributes.ai_family = address->sa_family;
  attributes.ai_socktype = SOCK_STREAM;
  attributes.ai_protocol = 0;
  attributes.ai_addr = {};
  std::memcpy(&attributes.ai_addr, address, bytes);
  attributes.ai_addrlen = static_cast<int>(bytes);
  return attributes;
}

tcp::attr loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return attributes_of(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

tcp::attr name_in(int folder) {
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder, kListenerName);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  MLBENCH_CHECK(path.size() < sizeof address.sun_path, path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return attributes_of(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// A device looks up the network interface of its address. A name in a folder has none, so the device is made with the
// loopback address, which is replaced afterwards.
class NamedDevice final : public tcp::Device {
 public:
  explicit NamedDevice(const tcp::attr& attributes) : tcp::Device(loopback()) {
    std::destroy_at(&attr_);
    std::construct_at(const_cast<tcp::attr*>(&attr_), attributes);
  }
};

}  // namespace

size_t set_send_buffer(int socket, size_t bytes) {
  int granted = static_cast<int>(std::min<size_t>(bytes, std::numeric_limits<int>::max()));
  socklen_t length = sizeof granted;
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &granted, length);
  getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &granted, &length);
  return static_cast<size_t>(granted);
}

ConnectedDevice::ConnectedDevice()
    : place_(open_folder("/")), device_(std::make_shared<NamedDevice>(name_in(place_.get()))) {}

void ConnectedContext::connect(int peer, FileDescriptor socket, size_t send_buffer_bytes) {
  pairs_[static_cast<size_t>(peer)] =
      std::make_unique<ConnectedPair>(this, device_.get(), peer, getTimeout(), std::move(socket), send_buffer_bytes);
}

void ConnectedContext::close() noexcept {
  for (const auto& pair : pairs_) {
    try {
      if (pair != nullptr) pair->close();
    } catch (const std::exception&) {  // the pair is closed already
    }
  }
}

int ConnectedContext::silent_peer() {
  int awaited = -1, other = rank == 0 ? 1 : 0;
  for (const auto& pair : pairs_) {
    if (pair == nullptr) continue;
    auto& one = static_cast<ConnectedPair&>(*pair);
    if (one.broken()) return one.peer_rank();
    if (one.awaited()) awaited = one.peer_rank();
  }
  return awaited >= 0 ? awaited : other;
}

std::shared_ptr<ConnectedContext> ConnectedDevice::connected(int rank, int size, std::chrono::milliseconds timeout,
                                                             std::vector<FileDescriptor> sockets,
                                                             size_t send_buffer_bytes) {
  auto context = std::make_shared<ConnectedContext>(device_, rank, size);
  context->setTimeout(timeout);
  const TemporaryFolder folder;  // a folder of this user alone
  if (dup3(open_folder(folder.path()).get(), place_.get(), O_CLOEXEC) < 0) throw IoError("dup3: " + errno_text(errno));
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    try {
      context->connect(peer, std::move(sockets[static_cast<size_t>(peer)]), send_buffer_bytes);
    } catch (const std::exception& error) {
      throw CommError(fmt::format("lost rank {} ({})", peer, error.what()));
    }
    unlinkat(place_.get(), kListenerName, 0);
  }
  return context;
}

}  // namespace mlbench::comm::gloo_backend
