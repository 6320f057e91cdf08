#include "mlbench/net/peer/peer_sockets.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <string_view>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/net/proof.h"
#include "mlbench/net/sockets.h"

namespace mlbench::net {

namespace {

using SteadyClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr std::string_view kMagic = "mlbpeer1";
constexpr size_t kGreetingBytes = kMagic.size() + 4 + 4 + kNonceBytes;
// The most connections that have proved nothing, counted apart for those that greeted and those that did not: a silent
// connection takes no place of one that is about to prove itself. Also, how many new connections are looked at in one
// turn.
constexpr int kMostGuests = 64;
constexpr int kGuestsPerTurn = 32;
constexpr Milliseconds kCallPatience{1000};
constexpr Milliseconds kFirstPause{5};
constexpr Milliseconds kLastPause{200};
// While the process has no descriptors left, new connections are not looked at.
constexpr Milliseconds kNoDescriptorsPause{100};

std::string greeting_of(int rank, uint32_t channel) {
  std::string greeting(kMagic);
  for (const uint32_t number : {static_cast<uint32_t>(rank), channel}) {
    for (int shift = 24; shift >= 0; shift -= 8) greeting += static_cast<char>(number >> shift & 0xFF);
  }
  return greeting + make_nonce();
}

uint32_t number_at(std::string_view greeting, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(greeting[at + i]);
  return number;
}

// Sends a few bytes, which always fit into the buffer of a socket that has sent next to nothing.
bool send_now(int socket, std::string_view bytes) {
  return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// Whether the other end has not closed the connection.
bool stands(int socket) {
  char byte = 0;
  const ssize_t count = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

enum class Received { kAll, kPart, kClosed };

// Reads no byte beyond `size`: what follows is not for this greeting.
Received receive(int socket, std::string& input, size_t size) {
  char buffer[kGreetingBytes];
  const ssize_t count = recv(socket, buffer, size - input.size(), 0);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return Received::kClosed;
  if (count > 0) input.append(buffer, static_cast<size_t>(count));
  return input.size() == size ? Received::kAll : Received::kPart;
}

}  // namespace

// One call of connect().
class PeerSockets::Meeting {
 public:
  Meeting(PeerSockets& own, const std::vector<Link>& links, const std::vector<std::string>& addresses,
          Milliseconds timeout)
      : own_(own), links_(links), sockets_(links.size()), timeout_(timeout), deadline_(deadline_after(timeout)) {
    for (size_t i = 0; i < links.size(); ++i) {
      const int peer = links[i].peer;
      MLBENCH_CHECK(peer >= 0 && peer < own_.options_.size && peer != own_.options_.rank,
                    fmt::format("a link of rank {} with rank {}", own_.options_.rank, peer));
      if (peer > own_.options_.rank) continue;
      const std::string& text = addresses.at(static_cast<size_t>(peer));
      const auto endpoint = parse_endpoint(text);
      if (!endpoint) throw CommError(fmt::format("rank {}: '{}' is no address", peer, printable(text)));
      calls_.push_back({i, *endpoint});
    }
  }

  std::vector<FileDescriptor> run() {
    while (const FileDescriptor* missing = first_missing()) {
      if (SteadyClock::now() >= deadline_) throw timed_out(static_cast<size_t>(missing - sockets_.data()));
      turn();
    }
    return std::move(sockets_);
  }

 private:
  // A link for which this rank connects.
  struct Call {
    enum class State { kPausing, kConnecting, kGreeted, kProved };
    size_t link;
    Endpoint endpoint;
    State state = State::kPausing;
    SteadyClock::time_point until{};  // of this state
    Milliseconds pause = kFirstPause;
    FileDescriptor socket{};
    Transcript transcript{};
    std::string input{};
    std::string reason = "no answer";  // of the last failure
    NoWay no_way{};
  };
  // A connection of somebody who has proved nothing yet.
  struct Guest {
    FileDescriptor socket;
    std::string peer;
    SteadyClock::time_point until;
    std::optional<size_t> link{};  // the link that its greeting named
    Transcript transcript{};
    std::string input{};
  };

  const FileDescriptor* first_missing() const {
    const auto found = std::find_if(sockets_.begin(), sockets_.end(), [](const auto& socket) { return !socket; });
    return found == sockets_.end() ? nullptr : &*found;
  }

  CommTimeout timed_out(size_t link) const {
    std::string reason = fmt::format("{} connections of others were refused", own_.refused());
    for (const Call& call : calls_) {
      if (call.link == link) reason = call.reason;
    }
    return CommTimeout(fmt::format("rank {} has not proved within {} that it belongs to this run ({})",
                                   links_[link].peer, duration_text(timeout_), reason));
  }

  std::string context(int accepting) const {
    return fmt::format("peers, {} ranks, accepted by {}, group {}", own_.options_.size, accepting, own_.options_.group);
  }

  void turn() {
    begin_calls();
    const bool accepting = SteadyClock::now() >= accept_after_;
    std::vector<pollfd> polled = {{accepting ? own_.listener_.get() : -1, POLLIN, 0}};
    auto next = accepting ? deadline_ : std::min(deadline_, accept_after_);
    for (const Call& call : calls_) {
      const short events = call.state == Call::State::kConnecting ? POLLOUT : POLLIN;
      polled.push_back({call.socket.get(), events, 0});
      if (!sockets_[call.link]) next = std::min(next, call.until);
    }
    for (const Guest& guest : guests_) {
      polled.push_back({guest.socket.get(), POLLIN, 0});
      next = std::min(next, guest.until);
    }
    if (poll(polled.data(), polled.size(), poll_timeout(next)) < 0) {
      if (errno == EINTR) return;
      throw CommError("poll: " + errno_text(errno));
    }
    const pollfd* entry = polled.data() + 1;
    for (Call& call : calls_) {
      if ((entry++)->revents != 0) advance(call);
    }
    const auto now = SteadyClock::now();
    for (Call& call : calls_) {
      if (call.socket && now >= call.until) give_up(call, "no answer");
    }
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      bool stays = (entry++)->revents == 0 || advance(*guest);
      if (stays && now >= guest->until) {
        own_.refusals_.note(guest->peer, "it proved nothing within " + duration_text(own_.options_.handshake_timeout));
        stays = false;
      }
      guest = stays ? std::next(guest) : guests_.erase(guest);
    }
    if (polled[0].revents != 0) accept_guests();
  }

  // ---- this rank connects ----------------------------------------------------------------------------------------

  void begin_calls() {
    for (Call& call : calls_) {
      if (sockets_[call.link] || call.state != Call::State::kPausing || SteadyClock::now() < call.until) continue;
      int error = 0;
      call.socket =
          begin_connect(call.endpoint.host, call.endpoint.port, call.reason, own_.options_.socket_buffer_bytes, &error);
      if (!call.socket) {
        give_up(call, call.reason, error);
        continue;
      }
      call.state = Call::State::kConnecting;
      call.until = std::min(deadline_, deadline_after(kCallPatience));
    }
  }

  void advance(Call& call) {
    if (call.state == Call::State::kConnecting) return greet(call);
    switch (receive(call.socket.get(), call.input, call.state == Call::State::kGreeted ? kNonceBytes : kProofBytes)) {
      case Received::kPart:
        return;
      case Received::kClosed:
        return give_up(call, call.state == Call::State::kGreeted
                                 ? "it closed the connection"
                                 : "it did not accept the proof: another secret or run");
      case Received::kAll:
        break;
    }
    if (call.state == Call::State::kProved) {
      if (!proves(call.input, ProofRole::kAccepting, own_.options_.secret, call.transcript)) {
        return give_up(call, "what answers there does not know the run's secret");
      }
      sockets_[call.link] = std::move(call.socket);
      return;
    }
    call.transcript.challenge = std::exchange(call.input, {});
    const std::string proof = proof_of(ProofRole::kConnecting, own_.options_.secret, call.transcript);
    if (!send_now(call.socket.get(), proof)) return give_up(call, errno_text(errno));
    call.state = Call::State::kProved;
    // The other side may have taken this connection for the link already: there must be no second one.
    call.until = deadline_;
  }

  void greet(Call& call) {
    const int error = connect_error(call.socket.get());
    if (error == ECONNREFUSED) {
      // A rank listens until all its links stand, so this one is gone.
      throw CommError(fmt::format("lost rank {} (nobody listens at {} any more)", links_[call.link].peer,
                                  endpoint_text(call.endpoint.host, call.endpoint.port)));
    }
    if (error != 0) return give_up(call, errno_text(error), error);
    call.transcript = {context(links_[call.link].peer), greeting_of(own_.options_.rank, links_[call.link].channel), {}};
    call.input.clear();
    if (!send_now(call.socket.get(), call.transcript.greeting)) return give_up(call, errno_text(errno));
    call.state = Call::State::kGreeted;
    call.until = std::min(deadline_, deadline_after(own_.options_.handshake_timeout));
  }

  void give_up(Call& call, const std::string& reason, int error = 0) {
    call.reason = reason;
    if (call.no_way.lasts(error)) {
      throw CommError(fmt::format("no way to rank {} at {}: {}", links_[call.link].peer,
                                  endpoint_text(call.endpoint.host, call.endpoint.port), reason));
    }
    call.socket.reset();
    call.state = Call::State::kPausing;
    call.until = SteadyClock::now() + call.pause;
    call.pause = std::min(2 * call.pause, kLastPause);
  }

  // ---- others connect --------------------------------------------------------------------------------------------

  void accept_guests() {
    try {
      for (int i = 0; i < kGuestsPerTurn; ++i) {
        Accepted accepted = accept_from(own_.listener_.get());
        if (!accepted.socket) return;
        guests_.push_back(
            {std::move(accepted.socket), std::move(accepted.peer), deadline_after(own_.options_.handshake_timeout)});
        if (!advance(guests_.back())) guests_.pop_back();
        turn_out_oldest(true);
        turn_out_oldest(false);
      }
    } catch (const IoError& error) {
      own_.refusals_.note("a connection", error.what());
      accept_after_ = SteadyClock::now() + kNoDescriptorsPause;
    }
  }

  // Closes the oldest guest when there are too many.
  void turn_out_oldest(bool greeted) {
    const auto one_of_them = [greeted](const Guest& guest) { return guest.link.has_value() == greeted; };
    if (std::count_if(guests_.begin(), guests_.end(), one_of_them) <= kMostGuests) return;
    const auto oldest = std::find_if(guests_.begin(), guests_.end(), one_of_them);
    own_.refusals_.note(oldest->peer, "too many connections that prove nothing");
    guests_.erase(oldest);
  }

  // Returns false when this guest is done with.
  bool advance(Guest& guest) {
    const Received received = receive(guest.socket.get(), guest.input, guest.link ? kProofBytes : kGreetingBytes);
    if (received == Received::kPart) return true;
    if (received == Received::kClosed) {
      // A guest that greeted may be a rank that waited too long and comes again.
      if (!guest.link) own_.refusals_.note(guest.peer, "it closed the connection without a greeting");
      return false;
    }
    return guest.link ? take_proof(guest) : take_greeting(guest);
  }

  bool take_greeting(Guest& guest) {
    const std::string greeting = std::exchange(guest.input, {});
    if (!greeting.starts_with(kMagic)) {
      own_.refusals_.note(guest.peer, "no greeting of a rank, but " + printable(greeting, 16));
      return false;
    }
    const uint32_t rank = number_at(greeting, kMagic.size());
    const uint32_t channel = number_at(greeting, kMagic.size() + 4);
    const auto wanted = std::find_if(links_.begin(), links_.end(), [&](const Link& link) {
      return static_cast<uint32_t>(link.peer) == rank && link.channel == channel && link.peer > own_.options_.rank;
    });
    if (wanted == links_.end()) {
      own_.refusals_.note(guest.peer, fmt::format("rank {}, channel {}: nobody waits for it here", rank, channel));
      return false;
    }
    guest.link = static_cast<size_t>(wanted - links_.begin());
    guest.transcript = {context(own_.options_.rank), greeting, make_nonce()};
    return send_now(guest.socket.get(), guest.transcript.challenge);
  }

  bool take_proof(Guest& guest) {
    if (!proves(guest.input, ProofRole::kConnecting, own_.options_.secret, guest.transcript)) {
      own_.refusals_.note(guest.peer, fmt::format("a wrong proof that it is rank {}", links_[*guest.link].peer));
      return false;
    }
    FileDescriptor& taken = sockets_[*guest.link];
    if (taken && stands(taken.get())) {
      own_.refusals_.note(guest.peer, fmt::format("rank {} has connected already", links_[*guest.link].peer));
      return false;
    }
    const std::string proof = proof_of(ProofRole::kAccepting, own_.options_.secret, guest.transcript);
    if (send_now(guest.socket.get(), proof)) taken = std::move(guest.socket);
    return false;
  }

  PeerSockets& own_;
  const std::vector<Link>& links_;
  std::vector<FileDescriptor> sockets_;  // by link
  Milliseconds timeout_;
  SteadyClock::time_point deadline_;
  std::vector<Call> calls_;
  std::list<Guest> guests_;  // the oldest first
  SteadyClock::time_point accept_after_{};
};

PeerSockets::PeerSockets(PeerOptions options)
    : options_(std::move(options)), listener_(listen_on(options_.bind_address, 0)), refusals_("peers") {
  // The sockets that it accepts inherit the buffers.
  set_buffers(listener_.get(), options_.socket_buffer_bytes);
  const Endpoint own = own_endpoint(listener_.get());
  address_ = endpoint_text(own.host, own.port);
}

std::vector<FileDescriptor> PeerSockets::connect(const std::vector<Link>& links,
                                                 const std::vector<std::string>& addresses, Milliseconds timeout) {
  return Meeting(*this, links, addresses, timeout).run();
}

}  // namespace mlbench::net
