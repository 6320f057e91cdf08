#pragma once

// The connecting side of a proof before a rendezvous server (kv/wire.h), for all who come there.

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"
#include "mlbench/net/kv/wire.h"

namespace mlbench::net::wire {

// The server says why it ends the connection.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a rank says first: who it is, with a nonce of its own. `session` is the client's, bytes, the same each time it
// connects.
struct Caller {
  std::string session, run_id;
  int rank = 0, size = 1;
};
Json hello_of(const Caller& caller);

// Says `hello`, and both sides prove that they know the secret. False, with the reason, when another try may help.
// Refusal; ProtocolError when what answers is no rendezvous server of this run. What came behind the proof is in
// `input`.
bool prove(int socket, FrameReader& input, const Json& hello, std::string_view secret,
           std::chrono::steady_clock::time_point deadline, std::string& reason);

// All of it, waiting for room. CommError when the other side is gone, or takes nothing until the deadline.
void send_frame(int socket, std::string_view frame, std::chrono::steady_clock::time_point deadline);

// Reads what is there. False at the end of the stream; CommError when the connection is broken.
bool read_into(int socket, FrameReader& input);

struct Retry {
  std::chrono::milliseconds first_pause{20}, longest_pause{500};
};
// Calls `attempt` again and again until it says true; the pauses between grow. False once the deadline would pass in a
// pause, or `pause` says that all is over.
bool try_again(const std::function<bool()>& attempt, std::chrono::steady_clock::time_point deadline,
               const std::function<bool(std::chrono::milliseconds)>& pause, const Retry& retry = {});

}  // namespace mlbench::net::wire
