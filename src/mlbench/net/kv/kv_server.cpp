#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/printable.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/net/kv/rank_words.h"
#include "mlbench/net/kv/wire.h"
#include "mlbench/net/proof.h"
#include "mlbench/net/refusals.h"
#include "mlbench/net/sockets.h"

namespace mlbench::net {

namespace {

using SteadyClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// The most connections that have not proved that they know the secret, counted apart for those that said hello and the
// others. Beyond this the oldest goes; silent connections take no place of a rank that is about to prove itself. A
// client that was pushed out comes again.
constexpr int kMostUnproven = 64;
constexpr int kAcceptsPerTurn = 32;
// Answers that a client does not read are kept up to this size.
constexpr size_t kMaxUnsentBytes = 2 * wire::kMaxMessageBytes;
constexpr size_t kMaxWaitsPerConnection = 1024;
// A client that is refused has this long to read why.
constexpr Milliseconds kFarewell{2000};
// While the process has no descriptors left, new connections are not looked at.
constexpr Milliseconds kAcceptPause{100};

struct Connection {
  FileDescriptor socket;
  std::string peer;
  int rank = -1;      // -1: nothing is proved yet
  Json hello;         // null: none yet
  Transcript proved;  // what the connection is to prove, once it said hello
  wire::FrameReader input;
  std::string output;
  int64_t words_told = 0;                           // of State::words, those that this rank has got
  size_t sent = 0;                                  // bytes of output
  bool refused = false;                             // to be closed once the output is sent
  std::optional<ProvedConnection> link;             // to be handed over once the output is sent
  std::optional<SteadyClock::time_point> deadline;  // closed then: the hello is missing, or it was refused
};

// What a client that comes again may ask a second time.
struct Session {
  std::string name;          // made by the client
  std::set<int64_t> set_by;  // ids of the calls that set a key
  size_t value_bytes = 0;    // bytes of the values that they set
};

// A get() whose key is not there yet.
struct Wait {
  Connection* connection;
  int64_t id;
  std::string key;
  SteadyClock::time_point deadline;
  Milliseconds timeout;
};

}  // namespace

struct KvServer::State {
  explicit State(const KvServerOptions& given)
      : options(given),
        clock(given.clock != nullptr ? *given.clock : own_clock),
        listener(listen_on(given.bind_address, given.port)),
        port(own_endpoint(listener.get()).port),
        wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        ranks(static_cast<size_t>(given.size)),
        sessions(static_cast<size_t>(given.size)) {
    if (!wakeup) throw IoError("cannot create an eventfd: " + errno_text(errno));
    thread = std::thread([this] { serve(); });
  }

  ~State() {
    closing = true;
    wake();
    thread.join();
  }

  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wakeup.get(), &one, sizeof one);
  }

  const KvServerOptions options;
  const SystemClock own_clock;
  const Clock& clock;
  const FileDescriptor listener;
  const int port;
  const FileDescriptor wakeup;  // readable: end, or there is a word to tell
  std::atomic<bool> closing{false};

  std::mutex mutex;  // guards what follows up to `words`; only the serving thread writes `ranks`
  std::condition_variable joined;
  std::vector<RankStatus> ranks;
  Json word;          // the last one that all ranks are told
  int64_t words = 0;  // how many there were

  // What follows is used by the serving thread alone.
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<Wait> waits;
  std::map<std::string, std::string> values;
  std::vector<Session> sessions;  // of each rank
  SteadyClock::time_point accept_after{};
  Refusals refusals{"rendezvous"};

  std::thread thread;

  void serve() {
    block_signals_on_this_thread();
    try {
      while (serve_once()) {
      }
    } catch (const std::exception& error) {
      spdlog::error("rendezvous: the server ends: {}", error.what());
    }
    connections.clear();
  }

  bool serve_once() {
    tell_word();
    const bool accepting = SteadyClock::now() >= accept_after;
    std::vector<pollfd> polled = {{wakeup.get(), POLLIN, 0}, {accepting ? listener.get() : -1, POLLIN, 0}};
    for (const auto& connection : connections) {
      const int events = POLLIN | (connection->output.empty() ? 0 : POLLOUT);
      polled.push_back({connection->socket.get(), static_cast<short>(events), 0});
    }
    if (poll(polled.data(), polled.size(), poll_timeout(next_deadline(accepting))) < 0) {
      if (errno == EINTR) return true;
      throw IoError("poll: " + errno_text(errno));
    }
    if (closing) return false;
    uint64_t wakes = 0;
    if (polled[0].revents != 0 && read(wakeup.get(), &wakes, sizeof wakes) < 0 && errno != EAGAIN && errno != EINTR) {
      throw IoError("eventfd: " + errno_text(errno));
    }

    // Connections are looked at before the listener: a rank that left and comes back has left first.
    const size_t count = connections.size();
    for (size_t i = 0; i < count; ++i) {
      Connection& connection = *connections[i];
      if (connection.socket && (polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive(connection);
      if (connection.socket && !connection.output.empty()) send_output(connection);
    }
    expire();
    std::erase_if(connections, [](const auto& connection) { return !connection->socket; });
    if (polled[1].revents != 0) accept_some();
    return true;
  }

  // Tells the last word to the ranks that have not got it.
  void tell_word() {
    Json last;
    int64_t number = 0;
    {
      const std::lock_guard lock(mutex);
      if (words == 0) return;
      last = word;
      number = words;
    }
    for (const auto& connection : connections) {
      if (!connection->socket || connection->rank < 0 || connection->words_told == number) continue;
      connection->words_told = number;
      reply(*connection, wire::kWordId, {{"word", last}});
    }
  }

  SteadyClock::time_point next_deadline(bool accepting) const {
    auto next = deadline_after(std::chrono::hours(1));
    if (!accepting) next = std::min(next, accept_after);
    for (const Wait& wait : waits) next = std::min(next, wait.deadline);
    for (const auto& connection : connections) next = std::min(next, connection->deadline.value_or(next));
    return next;
  }

  void expire() {
    const auto now = SteadyClock::now();
    for (const auto& connection : connections) {
      if (!connection->socket || !connection->deadline || now < *connection->deadline) continue;
      close_connection(*connection,
                       connection->refused ? "" : "no proof within " + duration_text(options.hello_timeout));
    }
    std::vector<Wait> expired;
    std::erase_if(waits, [&](const Wait& wait) {
      if (now < wait.deadline) return false;
      expired.push_back(wait);
      return true;
    });
    for (const Wait& wait : expired) {
      const std::string missing = missing_text(ranks);
      reply(*wait.connection, wait.id,
            {{"error", fmt::format("nobody set it within {}{}", duration_text(wait.timeout),
                                   missing.empty() ? "" : "; " + missing)},
             {"timeout", true}});
    }
  }

  void accept_some() {
    try {
      for (int i = 0; i < kAcceptsPerTurn; ++i) {
        Accepted accepted = accept_from(listener.get());
        if (!accepted.socket) return;
        set_options(accepted.socket.get());
        auto connection = std::make_unique<Connection>();
        connection->socket = std::move(accepted.socket);
        connection->peer = std::move(accepted.peer);
        connection->deadline = SteadyClock::now() + options.hello_timeout;
        connections.push_back(std::move(connection));
        turn_out_oldest();
      }
    } catch (const IoError& error) {
      refusals.note("a connection", error.what());
      accept_after = SteadyClock::now() + kAcceptPause;
    }
  }

  void turn_out_oldest() {
    for (const bool greeted : {true, false}) {
      const auto one_of_them = [greeted](const auto& each) {
        return each->rank < 0 && greeted == (!each->hello.is_null() && !each->refused);
      };
      if (std::ranges::count_if(connections, one_of_them) <= kMostUnproven) continue;
      const auto oldest = std::ranges::find_if(connections, one_of_them);
      close_connection(**oldest, (*oldest)->refused ? "" : "too many connections that prove nothing");
      connections.erase(oldest);
    }
  }

  void receive(Connection& connection) {
    char buffer[65536];
    const ssize_t count = recv(connection.socket.get(), buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) return close_connection(connection, errno_text(errno));
    if (count == 0) return close_connection(connection, "");
    if (connection.refused) return;
    try {
      connection.input.append({buffer, static_cast<size_t>(count)});
      while (!connection.refused && !connection.link && connection.socket) {
        const auto message = connection.input.next(connection.rank < 0 ? wire::kMaxHelloBytes : wire::kMaxMessageBytes);
        if (!message) return;
        handle(connection, *message);
      }
    } catch (const std::exception& error) {
      note_fault(connection, error.what());
      refuse(connection, 0, error.what());
    }
  }

  // Notes a fault of the rank for which the connection stands. Who only claims to be a rank harms none.
  void note_fault(const Connection& connection, const std::string& fault) {
    if (connection.rank < 0) return;
    const std::lock_guard lock(mutex);
    RankStatus& rank = ranks[static_cast<size_t>(connection.rank)];
    if (rank.fault.empty()) rank.fault = reason_of(peer_words::kReason, fault);
  }

  void send_output(Connection& connection) {
    const std::string_view unsent = std::string_view(connection.output).substr(connection.sent);
    const ssize_t count = send(connection.socket.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return close_connection(connection, errno_text(errno));
    if (count > 0) connection.sent += static_cast<size_t>(count);
    if (connection.sent < connection.output.size()) return;
    connection.output = {};
    connection.sent = 0;
    if (connection.refused) shutdown(connection.socket.get(), SHUT_WR);
    if (!connection.link) return;
    connection.link->socket = std::move(connection.socket);
    options.take_link(*std::exchange(connection.link, std::nullopt));
  }

  void reply(Connection& connection, int64_t id, Json members) {
    members["id"] = id;
    const std::string frame = wire::encode(members);
    if (connection.output.size() + frame.size() > kMaxUnsentBytes) {
      return close_connection(connection, "it does not read its answers");
    }
    connection.output += frame;
  }

  // Says why, then closes. The close comes later: unread input would turn it into a reset that overtakes the reply.
  void refuse(Connection& connection, int64_t id, const std::string& reason) {
    note_end(connection, reason);
    forget(connection);
    connection.refused = true;
    connection.deadline = SteadyClock::now() + kFarewell;
    reply(connection, id, {{"error", reason}});
  }

  void close_connection(Connection& connection, const std::string& reason) {
    if (!reason.empty()) note_end(connection, reason);
    forget(connection);
    connection.socket.reset();
  }

  void note_end(const Connection& connection, const std::string& reason) {
    if (connection.rank < 0) {
      refusals.note(connection.peer, reason);
    } else {
      spdlog::warn("rendezvous: ended the connection of rank {} at {}: {}", connection.rank, connection.peer,
                   printable(reason));
    }
  }

  // The connection no longer stands for its rank.
  void forget(Connection& connection) {
    std::erase_if(waits, [&](const Wait& wait) { return wait.connection == &connection; });
    if (connection.rank < 0) return;
    const std::lock_guard lock(mutex);
    ranks[static_cast<size_t>(connection.rank)].connected = false;
    connection.rank = -1;
  }

  void handle(Connection& connection, const Json& message) {
    const std::string operation = wire::text_in(message, "op");
    if (connection.rank < 0) {
      const std::string expected = connection.hello.is_null() ? "hello" : "proof";
      if (operation != expected) throw wire::ProtocolError("a message '" + operation + "', not '" + expected + "'");
      return expected == "hello" ? handle_hello(connection, message) : handle_proof(connection, message);
    }
    if (operation == "heartbeat") {
      Json status = checked_words(checked(peer_words::kHeartbeat, wire::object_in(message, "status")));
      const std::lock_guard lock(mutex);
      RankStatus& rank = ranks[static_cast<size_t>(connection.rank)];
      rank.heartbeat = std::move(status);
      rank.last_heartbeat = SteadyClock::now();
      return;
    }
    const int64_t id = wire::integer_in(message, "id");
    if (operation == "time") {
      reply(connection, id, {{"time", clock.now().time_since_epoch().count()}});
    } else if (operation == "set") {
      handle_set(connection, id, wire::text_in(message, "key"), wire::bytes_in(message, "value"));
    } else if (operation == "get") {
      handle_get(connection, id, wire::text_in(message, "key"), Milliseconds(wire::integer_in(message, "timeout_ms")));
    } else if (operation == "report") {
      Json report = checked_words(checked(peer_words::kReport, wire::object_in(message, "message")));
      {
        const std::lock_guard lock(mutex);
        ranks[static_cast<size_t>(connection.rank)].report = std::move(report);
      }
      reply(connection, id, Json::object());
    } else {
      throw wire::ProtocolError("operation '" + operation + "': expected set, get, report, time or heartbeat");
    }
  }

  void handle_hello(Connection& connection, const Json& message) {
    connection.hello = message;
    connection.proved = wire::transcript_of(message, make_nonce());
    reply(connection, 0, {{"challenge", wire::to_bytes(connection.proved.challenge)}});
  }

  void handle_proof(Connection& connection, const Json& proof) {
    if (!proves(wire::bytes_in(proof, "proof"), ProofRole::kConnecting, options.secret, connection.proved)) {
      return refuse(connection, 0, "wrong secret");
    }
    const Json message = std::move(connection.hello);
    const int64_t id = 0;
    const std::string run = wire::text_in(message, "run");
    if (run != options.run_id) {
      return refuse(connection, id, fmt::format("wrong run: '{}' was asked for, '{}' is here", run, options.run_id));
    }
    const int64_t size = wire::integer_in(message, "size");
    if (size != options.size) {
      return refuse(connection, id, fmt::format("wrong size: it counts {} ranks, the run has {}", size, options.size));
    }
    const int64_t rank = wire::integer_in(message, "rank");
    if (rank < 0 || rank >= size) {
      return refuse(connection, id, fmt::format("rank {}: expected 0 to {}", rank, size - 1));
    }
    const int64_t pid = checked(peer_words::kProcess, wire::integer_in(message, "pid"));
    const std::string host = checked(peer_words::kHost, wire::text_in(message, "host"));
    const std::string own = proof_of(ProofRole::kAccepting, options.secret, connection.proved);
    if (message.value("for", Json()) == "link") {
      if (!options.take_link)
        return refuse(connection, id, "this run has no ranks on other hosts: nobody takes a link");
      connection.link =
          ProvedConnection{{}, connection.peer, static_cast<int>(rank), wire::bytes_in(message, "session"), pid, host};
      return reply(connection, id, {{"proof", wire::to_bytes(own)}});
    }
    const RankStatus& known = ranks[static_cast<size_t>(rank)];
    const std::string name = wire::bytes_in(message, "session");
    Session& session = sessions[static_cast<size_t>(rank)];
    if (known.connected && name != session.name) {
      return refuse(connection, id, fmt::format("rank {} is taken by process {} on {}", rank, known.pid, known.host));
    }
    if (known.connected) {
      // The client's end of that connection has broken, which nobody told us.
      const auto broken = std::ranges::find(connections, static_cast<int>(rank), &Connection::rank);
      MLBENCH_CHECK(broken != connections.end(), "a rank that is connected has a connection");
      close_connection(**broken, "");
    }
    if (name != session.name) session = {name, {}};
    connection.rank = static_cast<int>(rank);
    connection.deadline.reset();
    reply(connection, id, {{"proof", wire::to_bytes(own)}});
    const std::lock_guard lock(mutex);
    RankStatus& status = ranks[static_cast<size_t>(rank)];
    status.joined = true;
    status.connected = true;
    status.pid = pid;
    status.host = host;
    joined.notify_all();
  }

  void handle_set(Connection& connection, int64_t id, const std::string& key, std::string value) {
    Session& session = sessions[static_cast<size_t>(connection.rank)];
    if (session.set_by.contains(id)) return reply(connection, id, Json::object());  // the answer was lost
    checked(peer_words::kKey, key);
    session.value_bytes += key.size() + value.size();
    if (session.set_by.size() >= peer_words::kMostKeys || session.value_bytes > peer_words::kMostValueBytes) {
      throw PeerFault(
          fmt::format("more than {} keys of {} bytes in all", peer_words::kMostKeys, peer_words::kMostValueBytes));
    }
    const auto [entry, inserted] = values.try_emplace(key, std::move(value));
    if (!inserted) return reply(connection, id, {{"error", "it is set already"}});
    session.set_by.insert(id);
    reply(connection, id, Json::object());
    std::vector<Wait> answered;
    std::erase_if(waits, [&](const Wait& wait) {
      if (wait.key != key) return false;
      answered.push_back(wait);
      return true;
    });
    for (const Wait& wait : answered) reply(*wait.connection, wait.id, {{"value", wire::to_bytes(entry->second)}});
  }

  void handle_get(Connection& connection, int64_t id, const std::string& key, Milliseconds timeout) {
    const auto found = values.find(key);
    if (found != values.end()) return reply(connection, id, {{"value", wire::to_bytes(found->second)}});
    const auto waiting =
        std::count_if(waits.begin(), waits.end(), [&](const Wait& wait) { return wait.connection == &connection; });
    if (static_cast<size_t>(waiting) >= kMaxWaitsPerConnection) {
      return reply(connection, id, {{"error", fmt::format("{} calls of this rank wait already", waiting)}});
    }
    waits.push_back({&connection, id, key, deadline_after(timeout), timeout});
  }
};

KvServer::KvServer(const KvServerOptions& options) {
  MLBENCH_CHECK(options.size >= 1, "a run has at least one rank");
  state_ = std::make_unique<State>(options);
}

KvServer::~KvServer() = default;

int KvServer::port() const { return state_->port; }

std::vector<RankStatus> KvServer::ranks() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ranks;
}

void KvServer::tell(const Json& word) {
  MLBENCH_CHECK(word.is_object(), "a word is an object");
  {
    const std::lock_guard lock(state_->mutex);
    state_->word = word;
    ++state_->words;
  }
  state_->wake();
}

void KvServer::wait_for_all(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  const auto all_joined = [this] {
    return std::all_of(state_->ranks.begin(), state_->ranks.end(), [](const RankStatus& rank) { return rank.joined; });
  };
  if (!state_->joined.wait_until(lock, deadline_after(timeout), all_joined)) {
    throw CommTimeout(missing_text(state_->ranks) + " within " + duration_text(timeout));
  }
}

int free_port() { return own_endpoint(listen_on("127.0.0.1", 0).get()).port; }

}  // namespace mlbench::net
