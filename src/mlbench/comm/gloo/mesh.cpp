#include "mlbench/comm/gloo/mesh.h"

#include <fmt/format.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/pair.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <utility>

#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/comm/gloo/gloo.h"
#include "mlbench/comm/gloo/library.h"

namespace mlbench::comm::gloo_backend {

namespace {

constexpr int kSlot = 0;  // each pair uses this slot alone
constexpr size_t kMaxChunkBytes = 512 << 10;

// Removes the "[file:line] " with which Gloo's texts begin.
std::string without_place(const std::string& text) {
  const size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

bool is_timeout(const std::string& text) {
  return text.find("timeout") != std::string::npos || text.find("Timed out") != std::string::npos;
}

}  // namespace

CommError error_with(int peer, std::chrono::milliseconds timeout, const std::exception& error) {
  const std::string reason = without_place(error.what());
  if (is_timeout(reason)) return CommError(fmt::format("waited {} ms for rank {} ({})", timeout.count(), peer, reason));
  return CommError(fmt::format("lost rank {} ({})", peer, reason));
}

namespace {

template <typename Call>
void with_peer(int peer, std::chrono::milliseconds timeout, Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    throw error_with(peer, timeout, error);
  }
}

size_t granted_send_buffer(size_t bytes) {
  const FileDescriptor any(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!any) throw IoError("cannot create a socket: " + errno_text(errno));
  return set_send_buffer(any.get(), bytes);
}

}  // namespace

template <typename Call>
void Mesh::transfer(int peer, size_t number, Call call) {
  try {
    call(*links_[number % links_.size()]->getPair(peer));
  } catch (const std::exception& error) {
    // The connections are closed at once: otherwise a peer that still waits in this operation would take what a later
    // one sends for its answer.
    close();
    throw error_with(peer, options_.timeout, error);
  }
}

// Up to three chunks are on their way over a link in an exchange. When they fill the send buffer, both sides stall in
// writing until timers of TCP fire. So a chunk is a quarter of the buffer.
Mesh::Mesh(std::vector<std::shared_ptr<ConnectedContext>> links, const Options& options)
    : links_(std::move(links)), options_(options) {
  for (int peer = 0; peer < size(); ++peer) {
    for (size_t link = 0; peer != rank() && link < links_.size(); ++link) {
      transfer(peer, link, [](gloo::transport::Pair& pair) { pair.setSync(true, false); });
    }
  }
}

void Mesh::send(int peer, const std::byte* data, size_t bytes, size_t number) {
  transfer(peer, number, [&](gloo::transport::Pair& pair) {
    const auto buffer = pair.createSendBuffer(kSlot, const_cast<std::byte*>(data), bytes);
    buffer->send();
    buffer->waitSend();
  });
}

void Mesh::recv(int peer, std::byte* data, size_t bytes, size_t number) {
  transfer(peer, number, [&](gloo::transport::Pair& pair) {
    const auto buffer = pair.createRecvBuffer(kSlot, data, bytes);
    buffer->waitRecv();
  });
}

std::byte* Mesh::scratch() {
  scratch_.resize(chunk_bytes());
  return scratch_.data();
}

void Mesh::exchange(int to, const std::byte* out, size_t out_bytes, int from, std::byte* in, size_t in_bytes,
                    const Combine* combine) {
  const size_t chunk = chunk_bytes();
  const size_t out_chunks = (out_bytes + chunk - 1) / chunk;
  const size_t in_chunks = (in_bytes + chunk - 1) / chunk;
  const auto send_chunk = [&](size_t i) {
    if (i < out_chunks) send(to, out + i * chunk, std::min(chunk, out_bytes - i * chunk), i);
  };
  // Each link is one chunk ahead, so that a rank that comes late finds something to read.
  for (size_t i = 0; i < links_.size(); ++i) send_chunk(i);
  for (size_t i = 0; i < std::max(out_chunks, in_chunks); ++i) {
    send_chunk(i + links_.size());
    if (i >= in_chunks) continue;
    std::byte* place = in + i * chunk;
    const size_t bytes = std::min(chunk, in_bytes - i * chunk);
    if (combine == nullptr) {
      recv(from, place, bytes, i);
    } else {
      std::byte* received = scratch();
      recv(from, received, bytes, i);
      combine->function(place, received, bytes / combine->element_bytes, combine->received_first);
    }
  }
}

void Mesh::close() noexcept {
  for (const auto& link : links_) link->close();
}

namespace {

class MessageWork final : public Work {
 public:
  // Begins the transfer.
  MessageWork(gloo::transport::Context& context, std::chrono::milliseconds timeout, int peer, int tag, void* data,
              size_t bytes, bool sending)
      : message_(context.createUnboundBuffer(data, bytes)), timeout_(timeout), peer_(peer), sending_(sending) {
    with_peer(peer_, timeout_, [&] {
      const auto slot = static_cast<uint64_t>(tag);
      sending_ ? message_->send(peer_, slot) : message_->recv(peer_, slot);
    });
  }
  ~MessageWork() override { await_silently(); }
  // Gloo knows no look without waiting: a thread waits instead, for those who ask.
  bool done() override {
    if (finished_) return true;
    if (!waiting_.valid()) waiting_ = std::async(std::launch::async, [this] { wait_for_message(); });
    return waiting_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void synchronize() override {
    if (finished_) return;
    finished_ = true;
    waiting_.valid() ? waiting_.get() : wait_for_message();
  }

 private:
  void wait_for_message() {
    with_peer(peer_, timeout_, [&] { sending_ ? message_->waitSend(timeout_) : message_->waitRecv(timeout_); });
  }

  std::unique_ptr<gloo::transport::UnboundBuffer> message_;
  std::chrono::milliseconds timeout_;
  int peer_;
  bool sending_;
  bool finished_ = false;
  std::future<void> waiting_;
};

}  // namespace

std::unique_ptr<Work> Mailbox::begin(int peer, int tag, void* data, size_t bytes, bool sending) {
  return std::make_unique<MessageWork>(*context_, timeout_, peer, tag, data, bytes, sending);
}

std::unique_ptr<Work> Mailbox::send(int peer, int tag, ConstBufferView buffer) {
  return begin(peer, tag, const_cast<void*>(buffer.data), buffer.size_bytes(), true);
}

std::unique_ptr<Work> Mailbox::recv(int peer, int tag, BufferView buffer) {
  return begin(peer, tag, buffer.data, buffer.size_bytes(), false);
}

namespace {

// What a rank publishes to the others of its group.
struct Announcement {
  std::string address;
  uint64_t send_buffer_bytes = 0;

  std::string encode() const { return Json{{"address", address}, {"send_buffer_bytes", send_buffer_bytes}}.dump(); }
  static Announcement decode(const std::string& text, int peer) {
    const Json json = try_parse_json(text, inputs::kMessage).value_or(Json());
    if (!json.is_object() || !json.value("address", Json()).is_string() ||
        !json.value("send_buffer_bytes", Json()).is_number_unsigned()) {
      throw CommError(fmt::format("rank {} announces '{}': another version of the program?", peer, printable(text)));
    }
    return {json["address"], json["send_buffer_bytes"]};
  }
};

Announcement announcement_of(int peer, RendezvousStore& store, const std::string& prefix,
                             std::chrono::milliseconds timeout) {
  std::string text;
  try {
    text = store.get(prefix + std::to_string(peer), timeout);
  } catch (const CommError& error) {
    throw CommError(fmt::format("rank {} did not come ({})", peer, error.what()));
  }
  return Announcement::decode(text, peer);
}

net::PeerSockets listen(net::PeerOptions options) {
  try {
    return net::PeerSockets(std::move(options));
  } catch (const IoError& error) {
    throw IoError(fmt::format("Gloo {}; expected an address or a network interface of this host", error.what()));
  }
}

}  // namespace

Connections connect(ConnectedDevice& device, RendezvousStore& store, const std::string& prefix,
                    const net::PeerOptions& peers, const CommOptions& options) {
  constexpr size_t kEnough = 64 << 20;
  const bool asked = peers.socket_buffer_bytes > 0;
  const bool library = options.algorithm == kLibraryAlgorithm;
  const auto for_collectives = static_cast<size_t>(library ? 0 : options.links);
  const std::chrono::milliseconds timeout = options.timeout;
  const size_t contexts = for_collectives + 1;  // the last one is for messages
  net::PeerSockets own = listen(peers);
  const size_t granted = granted_send_buffer(asked ? static_cast<size_t>(peers.socket_buffer_bytes) : kEnough);
  Announcement announcement{own.address(), granted};
  store.set(prefix + std::to_string(peers.rank), announcement.encode());
  uint64_t send_buffer_bytes = announcement.send_buffer_bytes;
  std::vector<std::string> addresses(static_cast<size_t>(peers.size));
  std::vector<net::PeerSockets::Link> links;
  for (int peer = 0; peer < peers.size; ++peer) {
    if (peer == peers.rank) continue;
    announcement = announcement_of(peer, store, prefix, timeout);
    send_buffer_bytes = std::min(send_buffer_bytes, announcement.send_buffer_bytes);
    addresses[static_cast<size_t>(peer)] = announcement.address;
    for (uint32_t channel = 0; channel < contexts; ++channel) links.push_back({peer, channel});
  }
  std::vector<FileDescriptor> connected = own.connect(links, addresses, timeout);
  std::vector<std::vector<FileDescriptor>> sockets(contexts);
  for (auto& channel : sockets) channel.resize(static_cast<size_t>(peers.size));
  for (size_t i = 0; i < links.size(); ++i) {
    sockets[links[i].channel][static_cast<size_t>(links[i].peer)] = std::move(connected[i]);
  }
  const size_t quarter = std::max<size_t>(static_cast<size_t>(send_buffer_bytes) / 4 / 4096, 1) * 4096;
  const size_t chunk_bytes = std::min(kMaxChunkBytes, quarter);
  const auto context = [&](size_t channel) {
    return device.connected(peers.rank, peers.size, timeout, std::move(sockets[channel]), asked ? 0 : 2 * chunk_bytes);
  };
  Connections made;
  made.socket_buffer_bytes = asked ? granted / 2 : 0;
  if (!library) {
    std::vector<std::shared_ptr<ConnectedContext>> meshed;
    for (size_t channel = 0; channel < for_collectives; ++channel) meshed.push_back(context(channel));
    auto mesh = std::make_unique<Mesh>(std::move(meshed), Mesh::Options{timeout, chunk_bytes});
    made.collectives = make_textbook_collectives(options.algorithm, std::move(mesh));
  }
  const std::shared_ptr<ConnectedContext> last = context(for_collectives);
  made.mailbox = std::make_unique<Mailbox>(last, timeout);
  if (library) made.collectives = make_library_collectives(last, timeout);
  return made;
}

}  // namespace mlbench::comm::gloo_backend
