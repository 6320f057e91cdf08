#pragma once

// The connecting side of a proof before a rendezvous server (kv/wire.h), for every kind of client.

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"
#include "mlbench/net/kv/wire.h"

namespace mlbench::net::wire {

// The server refused the connection; the text says why.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a rank says first: who it is, with a nonce of its own. `session` is bytes that the client chose; they are the
// same each time that it connects.
struct Caller {
  std::string session, run_id;
  int rank = 0, size = 1;
};
Json hello_of(const Caller& caller);

// Says `hello`, and both sides prove that they know the secret. Returns false, with the reason, when another try may
// help. Throws Refusal when the server refuses, and ProtocolError when what answers is no rendezvous server of this
// run. Bytes that came after the proof are left in `input`.
bool prove(int socket, FrameReader& input, const Json& hello, std::string_view secret,
           std::chrono::steady_clock::time_point deadline, std::string& reason);

// Sends the whole frame, waiting for room. Throws CommError when the other side is gone, or takes nothing in time.
void send_frame(int socket, std::string_view frame, std::chrono::steady_clock::time_point deadline);

// Reads what is there. Returns false at the end of the stream; throws CommError when the connection is broken.
bool read_into(int socket, FrameReader& input);

struct Retry {
  std::chrono::milliseconds first_pause{20}, longest_pause{500};
};
// Calls `attempt` again and again until it returns true; the pauses in between grow. Returns false once the deadline
// would pass in a pause, or once `pause` returns false.
bool try_again(const std::function<bool()>& attempt, std::chrono::steady_clock::time_point deadline,
               const std::function<bool(std::chrono::milliseconds)>& pause, const Retry& retry = {});

}  // namespace mlbench::net::wire
