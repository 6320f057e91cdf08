#pragma once

// What server and clients of the key-value store share: the messages.
//
// A message is a 4-byte big-endian length and a CBOR object of that length. First both prove that they know the run's
// secret (net/proof.h; the whole hello is the greeting), with "id" 0; "error" instead of an answer is a refusal:
//   client: {"op": "hello", "id", "nonce": bytes, "session": bytes, "run", "rank", "size", "pid", "host"}
//   server: {"id", "challenge": bytes}
//   client: {"op": "proof", "id", "proof": bytes}
//   server: {"id", "proof": bytes}
// The session is a client's own: one that comes again with it takes the place of its broken connection, and gives its
// unanswered messages again with their old ids. One whose hello says "for": "link" speaks net/link from then on. Else:
//           {"op": "set", "id", "key", "value": bytes}
//           {"op": "get", "id", "key", "timeout_ms"}
//           {"op": "report", "id", "message": {...}}
//           {"op": "time", "id"}
//           {"op": "heartbeat", "status": {...}}                                     no reply
//   server: {"id"} or {"id", "value": bytes} or {"id", "time": nanoseconds of its clock}
//           or {"id", "error": text, "timeout": bool}

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

// What comes in is no message of this protocol: the connection is of no use any more.
using ProtocolError = PeerFault;

// What both sides of a proof know; `hello` as it was sent or read.
Transcript transcript_of(const Json& hello, std::string challenge);

// Length and body. CommError when the message is too large.
std::string encode(const Json& message);
// An object nested no deeper than kDeepestNesting, of at most 4096 values, all texts UTF-8; else ProtocolError.
Json decode(std::string_view body);

Json to_bytes(std::string_view text);
std::string from_bytes(const Json& value);

// Member of a message. ProtocolError when it is missing or of another type.
int64_t integer_in(const Json& message, const char* name);
std::string text_in(const Json& message, const char* name);
std::string bytes_in(const Json& message, const char* name);
Json object_in(const Json& message, const char* name);

// Cuts a stream into messages. Memory grows with what arrived, never with what a length announces.
class FrameReader {
 public:
  void append(std::string_view data) { buffer_.append(data); }
  // Empty while the next message is incomplete. ProtocolError when it is longer than `limit`, or malformed.
  std::optional<Json> next(size_t limit);

 private:
  std::string buffer_;
  size_t first_ = 0;  // of the next message
};

}  // namespace mlbench::net::wire
