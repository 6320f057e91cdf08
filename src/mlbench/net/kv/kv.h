#pragma once

// The rendezvous: a key-value store with heartbeats. A run has one server (in the supervisor, or in rank 0 when a
// worker is started without a supervisor) and one client per rank. Server and clients speak plain TCP; each message is
// a 4-byte big-endian length and a CBOR object (kv/wire.h). Server and client first prove to each other that they know
// the run's secret, which itself never travels; a connection without that proof is closed.
//
// Strangers keep no rank out. Connections that have proved nothing have a bounded share, and the oldest of them goes
// first; a client that was pushed out comes again. What strangers do fills no log (net/refusals.h).
//
// A message has at most 64 MiB, before the proof 4 KiB; base/peer_words.h bounds all that a rank may say. Server and
// clients notice after about 30 s of unanswered data that a host went away without a word.
//
// A client with patience (KvClientOptions::resume_patience) connects again when its connection breaks. The new
// connection takes the place of the broken one, and the client asks again what was not answered: nothing is lost, and
// nothing happens twice. Between two hosts, something may break a connection that both ends still want; on one host,
// only the end of the other process does.

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

// A connection of somebody who knows the secret and comes in the name of a rank.
struct ProvedConnection {
  FileDescriptor socket;
  std::string peer;  // "127.0.0.1:4711"
  int rank = 0;
  std::string session;  // the same when the same client comes again
  int64_t pid = 0;
  std::string host;
};

struct KvServerOptions {
  std::string bind_address = "127.0.0.1";
  int port = 0;  // 0: any free one
  int size = 1;  // ranks expected
  std::string run_id;
  std::string secret;
  std::chrono::milliseconds hello_timeout{10000};  // without a proof, a connection is closed after this time
  const Clock* clock = nullptr;                    // the clock of server_time(); null: the system's
  // Takes connections that come for a link (net/link). The server's thread calls this function, which must not wait.
  // Unset: such connections are refused.
  std::function<void(ProvedConnection)> take_link = nullptr;
};

// What the server knows of a rank. When a connection closes, only `connected` changes; the rank may join again.
struct RankStatus {
  bool joined = false;     // it said hello
  bool connected = false;  // the connection is open
  int64_t pid = 0;
  std::string host;
  std::chrono::steady_clock::time_point last_heartbeat{};
  Json heartbeat;              // the last one's words (kv/wire.h)
  std::optional<Json> report;  // the last report(): a failure or the end, in the rank's own words
  std::string fault;           // what it said against the protocol, for which its connection was closed; "": nothing
};

class KvServer {
 public:
  // Listens at once and serves on a thread of its own. Throws IoError naming the address if that cannot be bound.
  explicit KvServer(const KvServerOptions& options);
  ~KvServer();
  int port() const;
  std::vector<RankStatus> ranks() const;
  // Tells a word, an object, to all ranks that are connected, and to those that connect later. The last word counts: it
  // takes the place of one that a rank has not got yet.
  void tell(const Json& word);
  // Waits until all ranks have joined. Throws CommTimeout naming the missing ranks when `timeout` passes.
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
  std::chrono::milliseconds connect_timeout{30000};  // the constructor tries again until then
  std::chrono::milliseconds reply_timeout{30000};    // for an answer to set() and report()
  std::chrono::milliseconds resume_patience{0};  // how long a broken connection is made again; 0: it is lost at once
  const Clock* clock = nullptr;                  // the clock of server_time(); null: the system's
};

// The server's clock, read at a moment between two readings of the client's clock.
struct ServerTime {
  int64_t sent_ns = 0;      // the client's clock before the question
  int64_t server_ns = 0;    // the server's clock
  int64_t received_ns = 0;  // the client's clock after the answer
};

class KvClient {
 public:
  // Connects, and both sides prove who they are; after 10 s the log says why that takes so long. Throws CommTimeout
  // naming the address when nobody answers in time; CommError with the reason of a refusal (wrong secret, wrong size,
  // rank taken), or when this host has had no route there for 10 s; UserError when the port is none.
  explicit KvClient(const KvClientOptions& options);
  // Closes the connection; on_lost() is not called for that. Must not be called from that callback, nor while another
  // thread is in a call.
  ~KvClient();

  // All of these are thread-safe. All except heartbeat() throw CommError when the server is gone or goes away.
  // Keys are UTF-8, and each may be written once (else CommError); values are bytes.
  void set(const std::string& key, const std::string& value);
  // Waits for the key. Throws CommTimeout naming the key and the ranks that have not joined when `timeout` passes.
  std::string get(const std::string& key, std::chrono::milliseconds timeout);
  // Throws CommTimeout when the answer takes longer than `timeout`.
  ServerTime server_time(std::chrono::milliseconds timeout);
  // Sends an object. Does nothing when the server is away or takes no data at the moment: the next heartbeat says more.
  void heartbeat(const Json& status);
  void report(const Json& message);  // sends an object; returns when the server has it
  // `callback` is called on the client's reading thread with each word that the server tells; the last one may come
  // twice. The callback must not wait for the server. May be set once; earlier words are not heard.
  void on_word(std::function<void(const Json&)> callback);
  // `callback` is called once, on the client's reading thread, when the server has gone away and has not come back
  // within the patience; at once if it is lost already. May be set once.
  void on_lost(std::function<void()> callback);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A port of this host on which nobody listens at this moment.
int free_port();

}  // namespace mlbench::net
