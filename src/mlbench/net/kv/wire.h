#pragma once

// The messages that the server and the clients of the key-value store share.
//
// A message is a 4-byte big-endian length and a CBOR object of that length. First, both sides prove that they know the
// run's secret (net/proof.h; the whole hello is the greeting). These messages have "id" 0; "error" in place of an
// answer is a refusal:
//   client: {"op": "hello", "id", "nonce": bytes, "session": bytes, "run", "rank", "size", "pid", "host"}
//   server: {"id", "challenge": bytes}
//   client: {"op": "proof", "id", "proof": bytes}
//   server: {"id", "proof": bytes}
// A session belongs to one client. A client that comes again with its session takes the place of its broken connection,
// and sends its unanswered messages again with their old ids. A client whose hello says "for": "link" speaks net/link
// from then on. Any other client then says:
//           {"op": "set", "id", "key", "value": bytes}
//           {"op": "get", "id", "key", "timeout_ms"}
//           {"op": "report", "id", "message": {...}}
//           {"op": "time", "id"}
//           {"op": "heartbeat", "status": {"operation", "sequence", "in_progress", "since_s", "step",
//                                          "trains", "stop_after"}}                  no reply
//   server: {"id"} or {"id", "value": bytes} or {"id", "time": nanoseconds of its clock}
//           or {"id", "error": text, "timeout": bool}
// Unasked, the server says with "id" -1:
//   server: {"id": -1, "word": {...}}

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/net/proof.h"

namespace mlbench::net::wire {

inline constexpr size_t kMaxMessageBytes = size_t{64} << 20;
inline constexpr size_t kMaxHelloBytes = 4096;
inline constexpr int64_t kWordId = -1;  // of what the server says unasked

// What came in is no message of this protocol: the connection is of no use any more.
using ProtocolError = PeerFault;

// What both sides of a proof know; `hello` is the object as it was sent or read.
Transcript transcript_of(const Json& hello, std::string challenge);

// The message as length and body. Throws CommError when the message is too large.
std::string encode(const Json& message);
// The object in `body`. Throws ProtocolError unless it is nested no deeper than kDeepestNesting, has at most 4096
// values, and all its texts are UTF-8.
Json decode(std::string_view body);

Json to_bytes(std::string_view text);
std::string from_bytes(const Json& value);

// The member `name` of a message. Throws ProtocolError when it is missing or has another type.
int64_t integer_in(const Json& message, const char* name);
std::string text_in(const Json& message, const char* name);
std::string bytes_in(const Json& message, const char* name);
Json object_in(const Json& message, const char* name);

// Cuts a stream into messages. Its memory grows with what arrived, never with what a length announces.
class FrameReader {
 public:
  void append(std::string_view data) { buffer_.append(data); }
  // The next message; empty while it is incomplete. Throws ProtocolError when it is longer than `limit`, or malformed.
  std::optional<Json> next(size_t limit);

 private:
  std::string buffer_;
  size_t first_ = 0;  // where the next message begins
};

}  // namespace mlbench::net::wire
