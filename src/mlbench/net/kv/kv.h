#pragma once

// The rendezvous key-value store with heartbeats: one server per run (in the supervisor, or in rank 0 when a worker is
// started without one), one client per rank. Plain TCP; each message is a 4-byte big-endian length and a CBOR object
// (kv/wire.h). Server and client begin with proving to each other that they know the run's secret, which itself never
// travels; a connection without that proof is closed.
//
// Strangers keep no rank out: connections that have proved nothing have a bounded share, of which the oldest goes
// first, a client that was pushed out comes again, and what strangers do fills no log (net/refusals.h).
//
// A message is at most 64 MiB, before the proof 4 KiB; what a rank may say in all is in base/peer_words.h. Server and
// clients notice a host that went away without a word after about 30 s of unanswered data.
//
// A client with patience (KvClientOptions) comes again when its connection breaks, in the place of the broken one, and
// asks again what was not answered: nothing is lost, and nothing happens twice. Between two hosts something may break a
// connection that both still want; on one host only the other's end does.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::net {

// A connection of somebody who knows the secret, and comes in the name of a rank.
struct ProvedConnection {
  FileDescriptor socket;
  std::string peer;  // "127.0.0.1:4711"
  int rank = 0;
  std::string session;  // the same when one and the same comes again
  int64_t pid = 0;
  std::string host;
};

struct KvServerOptions {
  std::string bind_address = "127.0.0.1";
  int port = 0;  // 0: any free one
  int size = 1;  // ranks expected
  std::string run_id;
  std::string secret;
  std::chrono::milliseconds hello_timeout{10000};  // a connection without a proof is closed after this
  const Clock* clock = nullptr;                    // that server_time() reads; null: the system's
  // For those that come for a link (net/link): called on the server's thread, must not wait. Unset: they are refused.
  std::function<void(ProvedConnection)> take_link = nullptr;
};

// What the server knows of a rank. Nothing is forgotten when the connection closes but `connected`; a rank whose
// connection is closed may join again.
struct RankStatus {
  bool joined = false;     // said hello
  bool connected = false;  // the connection is open
  int64_t pid = 0;
  std::string host;
  std::chrono::steady_clock::time_point last_heartbeat{};
  Json heartbeat;              // {"operation", "sequence", "in_progress", "since_s", "step"} of the last one
  std::optional<Json> report;  // the last report(): a failure or the end, in the rank's own words
  std::string fault;           // what it said against the protocol, for which its connection was closed; "": nothing
};

class KvServer {
 public:
  // Listens at once, serves on a thread of its own. IoError if the address cannot be bound (names it).
  explicit KvServer(const KvServerOptions& options);
  ~KvServer();
  int port() const;
  std::vector<RankStatus> ranks() const;
  // Waits until all ranks joined. CommTimeout naming the missing ranks when the timeout passes.
  void wait_for_all(std::chrono::milliseconds timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct KvClientOptions {
  std::string address = "127.0.0.1";
  int port = 0;
  int rank = 0;
  int size = 1;
  std::string run_id;
  std::string secret;
  std::chrono::milliseconds connect_timeout{30000};  // retries until then
  std::chrono::milliseconds reply_timeout{30000};    // of set() and report()
  std::chrono::milliseconds resume_patience{0};  // so long a broken connection is tried again; 0: it is lost at once
  const Clock* clock = nullptr;                  // of server_time(); null: the system's
};

// The server's clock, read at a moment between two of the client's clock.
struct ServerTime {
  int64_t sent_ns = 0;      // of the client's clock, before the question
  int64_t server_ns = 0;    // of the server's
  int64_t received_ns = 0;  // of the client's, behind the answer
};

class KvClient {
 public:
  // Connects, and both sides prove who they are; after 10 s the log says why that takes so long. CommTimeout naming the
  // address when nobody answers in time, CommError with the reason of a refusal (wrong secret, wrong size, rank taken),
  // or where this host has no way there for 10 s, UserError when the port is none.
  explicit KvClient(const KvClientOptions& options);
  // Closes the connection; on_lost() is not called for that. Not from the callback, nor while another thread calls.
  ~KvClient();

  // All of these are thread-safe and, but heartbeat(), throw CommError when the server is or goes away.
  // Keys are UTF-8 and written once (CommError otherwise); values are bytes.
  void set(const std::string& key, const std::string& value);
  // Waits for the key. CommTimeout naming the key, and the ranks that have not joined yet, when the timeout passes.
  std::string get(const std::string& key, std::chrono::milliseconds timeout);
  // CommTimeout when the answer takes longer.
  ServerTime server_time(std::chrono::milliseconds timeout);
  // An object. Left out when the server is away or takes nothing at the moment: the next one says more.
  void heartbeat(const Json& status);
  void report(const Json& message);  // an object; returns when the server has it
  // Called once, on the client's reading thread, when the server goes away (at once if it is away already) and has
  // not come back within the patience. To be set at most once.
  void on_lost(std::function<void()> callback);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A port of this host that nobody listens on now.
int free_port();

}  // namespace mlbench::net
