#include "mlbench/comm/shm/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/comm/shm/copy.h"

namespace mlbench::comm::shm_backend {

namespace {

// Positions in a ring are multiples of this, so that a header is never cut in two.
constexpr size_t kUnitBytes = 16;

struct MessageHeader {
  uint64_t bytes;
  int64_t tag;
};
static_assert(sizeof(MessageHeader) == kUnitBytes);

// A piece is a quarter of the ring: the receiver reads one while the sender writes the next.
size_t piece_bytes_of(size_t ring_bytes) { return ring_bytes / 4; }

constexpr std::chrono::milliseconds kMessageLookPeriod{50};

}  // namespace

struct Messages::Request {
  int peer;
  int tag;
  std::byte* data;  // a send does not write to it
  size_t bytes;
  size_t sent = 0;
  bool finished = false;
  std::string error = {};  // "": no error
};

class Messages::MessageWork final : public Work {
 public:
  MessageWork(Messages& messages, std::shared_ptr<Request> request)
      : messages_(messages), request_(std::move(request)) {}
  ~MessageWork() override { await_silently(); }
  bool done() override { return messages_.is_done(*request_); }
  void synchronize() override {
    messages_.finish(*request_);
    if (!request_->error.empty()) throw CommError(request_->error);
  }

 private:
  Messages& messages_;
  std::shared_ptr<Request> request_;
};

Messages::Messages(Group& group)
    : group_(group),
      ring_bytes_(group.layout().ring_bytes()),
      outgoing_(static_cast<size_t>(group.size())),
      incoming_(static_cast<size_t>(group.size())) {
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer == group_.rank()) continue;
    const size_t out = group_.layout().ring(group_.rank(), peer);
    const size_t in = group_.layout().ring(peer, group_.rank());
    outgoing_[static_cast<size_t>(peer)].ring = group_.at<Ring>(out);
    outgoing_[static_cast<size_t>(peer)].data = group_.at<std::byte>(out + sizeof(Ring));
    incoming_[static_cast<size_t>(peer)].ring = group_.at<Ring>(in);
    incoming_[static_cast<size_t>(peer)].data = group_.at<std::byte>(in + sizeof(Ring));
  }
  group_.attend([this] { return move_all(); });
}

Messages::~Messages() { group_.attend(nullptr); }

std::unique_ptr<Work> Messages::send(int peer, int tag, const std::byte* data, size_t bytes) {
  check_open();
  auto request = std::make_shared<Request>(Request{peer, tag, const_cast<std::byte*>(data), bytes});
  auto work = std::make_unique<MessageWork>(*this, request);
  outgoing_[static_cast<size_t>(peer)].queue.push_back(std::move(request));
  move(peer);
  return work;
}

std::unique_ptr<Work> Messages::recv(int peer, int tag, std::byte* data, size_t bytes) {
  check_open();
  auto request = std::make_shared<Request>(Request{peer, tag, data, bytes});
  auto work = std::make_unique<MessageWork>(*this, request);
  Incoming& in = incoming_[static_cast<size_t>(peer)];
  const auto early = std::find_if(in.early.begin(), in.early.end(), [&](const Early& message) {
    return message.tag == tag && message.receive == nullptr;
  });
  if (early == in.early.end()) {
    in.receives.push_back(std::move(request));
    move(peer);
  } else {
    early->receive = std::move(request);
    if (early->complete) deliver(in, *early);
  }
  return work;
}

bool Messages::move_all() {
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer != group_.rank()) move(peer);
  }
  return std::exchange(moved_, false);
}

void Messages::move(int peer) {
  if (closed_) return;
  push(outgoing_[static_cast<size_t>(peer)], peer);
  pull(incoming_[static_cast<size_t>(peer)], peer);
}

void Messages::push(Outgoing& out, int peer) {
  const size_t piece_bytes = piece_bytes_of(ring_bytes_);
  const auto room = [&] {
    if (ring_bytes_ - (out.written - out.read) < piece_bytes) out.read = out.ring->read.load(std::memory_order_acquire);
    return ring_bytes_ - (out.written - out.read);
  };
  while (!out.queue.empty()) {
    Request& request = *out.queue.front();
    if (!out.header_written) {
      if (room() < kUnitBytes) break;
      const MessageHeader header{request.bytes, request.tag};
      std::memcpy(out.data + out.written % ring_bytes_, &header, sizeof header);
      out.written += kUnitBytes;
      out.header_written = true;
    }
    while (request.sent < request.bytes && room() > 0) {
      const size_t at = out.written % ring_bytes_;
      const size_t left = request.bytes - request.sent;
      const size_t units = std::min({round_up(left, kUnitBytes), room(), ring_bytes_ - at, piece_bytes});
      const size_t bytes = std::min(units, left);
      put_bytes(out.data + at, request.data + request.sent, bytes);
      request.sent += bytes;
      out.written += units;
      announce(out, peer);
    }
    if (request.sent < request.bytes) break;
    request.finished = true;
    out.header_written = false;
    out.queue.pop_front();
  }
  announce(out, peer);
}

void Messages::announce(Outgoing& out, int peer) {
  if (out.announced == out.written) return;
  out.announced = out.written;
  group_.store(out.ring->written, out.written);
  group_.ring(peer);
  moved_ = true;
}

void Messages::pull(Incoming& in, int peer) {
  const size_t piece_bytes = piece_bytes_of(ring_bytes_);
  while (true) {
    const size_t there = in.ring->written.load(std::memory_order_acquire) - in.read;
    if (there == 0) return;
    const size_t at = in.read % ring_bytes_;
    if (!in.open) {
      MessageHeader header{};
      std::memcpy(&header, in.data + at, sizeof header);
      in.read += kUnitBytes;
      meet(in, static_cast<int>(header.tag), header.bytes);
    } else {
      const size_t units = std::min({round_up(in.left, kUnitBytes), there, ring_bytes_ - at, piece_bytes});
      const size_t bytes = std::min(units, in.left);
      if (in.into != nullptr) {
        take_bytes(in.into, in.data + at, bytes);
        in.into += bytes;
      }
      in.left -= bytes;
      in.read += units;
    }
    if (in.left == 0) complete(in);
    group_.store(in.ring->read, in.read);
    group_.ring(peer);
    moved_ = true;
  }
}

void Messages::meet(Incoming& in, int tag, size_t bytes) {
  in.open = true;
  in.left = bytes;
  const auto receive = std::find_if(in.receives.begin(), in.receives.end(),
                                    [&](const std::shared_ptr<Request>& request) { return request->tag == tag; });
  if (receive == in.receives.end()) {
    in.early.push_back({tag, std::vector<std::byte>(bytes), false, nullptr});
    in.filling = &in.early.back();
    in.into = in.filling->bytes.data();
    return;
  }
  in.receive = std::move(*receive);
  in.receives.erase(receive);
  if (in.receive->bytes == bytes) {
    in.into = in.receive->data;
  } else {
    refuse_size(*in.receive, bytes);
    in.into = nullptr;
  }
}

void Messages::complete(Incoming& in) {
  in.open = false;
  in.into = nullptr;
  if (in.receive != nullptr) {
    in.receive->finished = true;
    in.receive = nullptr;
  } else {
    in.filling->complete = true;
    if (in.filling->receive != nullptr) deliver(in, *in.filling);
    in.filling = nullptr;
  }
}

void Messages::deliver(Incoming& in, Early& message) {
  Request& receive = *message.receive;
  if (receive.bytes == message.bytes.size()) {
    if (receive.bytes > 0) std::memcpy(receive.data, message.bytes.data(), receive.bytes);
    receive.finished = true;
  } else {
    refuse_size(receive, message.bytes.size());
  }
  in.early.remove_if([&](const Early& other) { return &other == &message; });
}

void Messages::refuse_size(Request& receive, size_t bytes) {
  fail(receive, fmt::format("rank {} sent {} bytes under tag {}, {} were expected", receive.peer, bytes, receive.tag,
                            receive.bytes));
}

// The look for a message comes last: what the peer did before it left or ended counts.
bool Messages::waits_for(const Request& request, int rank) {
  if (rank == request.peer) move(rank);
  return rank == request.peer && !request.finished;
}

bool Messages::is_done(Request& request) {
  if (!waits_for(request, request.peer)) return true;
  const auto now = std::chrono::steady_clock::now();
  const bool thorough = now >= next_look_;
  if (thorough) next_look_ = now + kMessageLookPeriod;
  try {
    group_.throw_if_lost([&](int rank) { return waits_for(request, rank); }, thorough);
  } catch (const CommError& error) {
    fail_all(error.what());
  }
  return request.finished;
}

void Messages::finish(Request& request) {
  if (request.finished) return;
  try {
    group_.wait([&] { return !waits_for(request, request.peer); }, [&](int rank) { return waits_for(request, rank); });
  } catch (const CommError& error) {
    fail_all(error.what());
  }
}

void Messages::close() noexcept { fail_all("this rank has let go of the group"); }

void Messages::fail(Request& request, const std::string& error) {
  if (request.finished) return;
  request.error = error;
  request.finished = true;
}

// Nothing moves from now on, so no buffer of a request is accessed any more.
void Messages::fail_all(const std::string& error) {
  closed_ = true;
  for (Outgoing& out : outgoing_) {
    for (const auto& request : out.queue) fail(*request, error);
    out.queue.clear();
  }
  for (Incoming& in : incoming_) {
    for (const auto& request : in.receives) fail(*request, error);
    for (const Early& message : in.early) {
      if (message.receive != nullptr) fail(*message.receive, error);
    }
    if (in.receive != nullptr) fail(*in.receive, error);
    in.receives.clear();
    in.early.clear();
    in.receive = nullptr;
  }
}

void Messages::check_open() const {
  if (closed_) throw CommError("this rank has let go of the group");
}

}  // namespace mlbench::comm::shm_backend
