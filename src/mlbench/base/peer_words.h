#pragma once

// What ranks, their guards and the supervisor of a run tell each other over a network. A peer that knows the run's
// secret may still be broken, or hostile. Each word that a peer may say has a row here with its type and its bounds. A
// word is checked when it arrives, and again before it becomes an environment variable, an argument, a file name or the
// text for a placeholder. Files and bodies are in input.h.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"

namespace mlbench {

// A peer said what no peer may say. The text says what was given and what was expected; who knows the rank, adds it.
class PeerFault : public CommError {
 public:
  using CommError::CommError;
};

enum class WordType {
  kLabel,         // letters, digits and . _ : -
  kPeerVariable,  // a variable by which programs find their peers: MASTER_ADDR, MASTER_PORT, HOROVOD_...
  kHost,          // a host name by RFC 1123; a machine's own name may have _
  kAddress,       // a host name, or an address of IPv4, or of IPv6 with or without its zone
  kAddresses,     // several addresses, with commas between them
  kPath,          // of a file below some folder: parts of at most 255 bytes, none of them ".", ".." or empty
  kLine,          // UTF-8 without control characters
  kBytes,
};

struct PeerWord {
  std::string_view what;  // "an address"
  WordType type;
  size_t most_bytes;
};
struct PeerNumber {
  std::string_view what;
  int64_t least, most;
};
// An object in JSON or CBOR.
struct PeerObject {
  std::string_view what;
  size_t most_bytes;  // as JSON
  size_t most_depth;
};

namespace peer_words {
// Words that say who and where a peer is.
inline constexpr PeerWord kAddress{"an address", WordType::kAddress, 253};
inline constexpr PeerWord kAddresses{"the addresses of all ranks", WordType::kAddresses, size_t{4} << 20};
inline constexpr PeerWord kHost{"a host's name", WordType::kHost, 253};
inline constexpr PeerWord kSegment{"a segment of shared memory", WordType::kLabel, 250};
inline constexpr PeerWord kFolderIdentity{"a folder's identity", WordType::kLabel, 256};
inline constexpr PeerWord kBuildId{"a build's identity", WordType::kLabel, 128};
inline constexpr PeerNumber kPort{"a port", 0, 65535};
inline constexpr PeerNumber kRank{"a rank", 0, 1'000'000};
inline constexpr PeerNumber kRankCount{"a number of ranks", 1, 1'000'000};
inline constexpr PeerNumber kProcess{"a process", 0, int64_t{1} << 31};
inline constexpr PeerNumber kCore{"a core", 0, (int64_t{1} << 20) - 1};
inline constexpr PeerNumber kGpu{"a GPU", 0, (int64_t{1} << 31) - 1};
inline constexpr PeerNumber kCores{"a number of cores", 1, int64_t{1} << 20};
inline constexpr PeerObject kCapture{"what a host says of itself", size_t{64} << 10, 6};
// Bounds of how much peers may say. Whatever peers say within these bounds, what is kept of 10,000 ranks stays smaller
// than a record may be. Beyond kMostCaptures bytes, only the names of hosts are kept.
inline constexpr size_t kMostCaptures = size_t{4} << 20;
inline constexpr size_t kMostSaidBytes = size_t{256} << 10;  // of one word of a guard
inline constexpr size_t kMostWaiting = 4096;                 // words, or kMostWaitingBytes, that nobody has read yet
inline constexpr size_t kMostWaitingBytes = size_t{4} << 20;
inline constexpr size_t kMostGuardFrame = size_t{2} << 20;  // of a link
inline constexpr int kWordsAtOnce = 256;                    // of one rank, before the other ranks have their turn
inline constexpr size_t kMostKeys = 100'000;                // that a rank sets in the rendezvous, of kMostValueBytes
inline constexpr size_t kMostValueBytes = size_t{64} << 20;
inline constexpr PeerWord kKey{"a key", WordType::kLine, 512};
inline constexpr PeerObject kHeartbeat{"a heartbeat", 4096, 2};
inline constexpr PeerObject kReport{"a report", size_t{64} << 10, 4};
// Words that say how a rank is doing.
inline constexpr PeerWord kWord{"a word", WordType::kLabel, 32};
inline constexpr PeerWord kReason{"a reason", WordType::kBytes, 4096};    // as reason_of() returns it
inline constexpr PeerWord kMessage{"a message", WordType::kBytes, 8192};  // as reason_of() returns it
inline constexpr PeerWord kReported{"a rank's words", WordType::kBytes, size_t{64} << 10};
inline constexpr PeerWord kOperation{"an operation", WordType::kLine, 2048};
inline constexpr PeerNumber kSequence{"a sequence number", -1, 100'000'000'000'000'000};
inline constexpr PeerWord kBoot{"a boot's identity", WordType::kLabel, 128};
inline constexpr PeerWord kMeter{"a meter of energy", WordType::kLine, 4096};
inline constexpr PeerNumber kMicrojoules{"an energy in microjoules", 0, 1'000'000'000'000'000'000};
inline constexpr PeerNumber kExitCode{"an exit code", 0, 255};
inline constexpr PeerNumber kSignal{"a signal", 0, 64};
// Words about files and commands.
inline constexpr PeerWord kFile{"a file's name", WordType::kPath, 1024};
inline constexpr PeerWord kPeerVariable{"a variable that names peers", WordType::kPeerVariable, 64};
inline constexpr PeerWord kShellLine{"a command for a shell", WordType::kLine, size_t{16} << 10};
}  // namespace peer_words

bool fits(const PeerWord& row, std::string_view text);
// Return their second argument, or throw PeerFault when it does not fit the row. Only kLine and kBytes may be empty.
const std::string& checked(const PeerWord& row, const std::string& text);
int64_t checked(const PeerNumber& row, int64_t number);
const Json& checked(const PeerObject& row, const Json& object);
// The number of a text that consists of digits, perhaps after a sign. Throws PeerFault for other texts.
int64_t number_of(const PeerNumber& row, std::string_view text);

// The member `name` of a JSON object, checked against the row; `otherwise` where there is no such member.
std::string word_in(const Json& object, const char* name, const PeerWord& row, const std::string& otherwise = "");
int64_t number_in(const Json& object, const char* name, const PeerNumber& row, int64_t otherwise);

// A text that is only shown: cut to the row's bytes, and escaped except for its line breaks.
std::string reason_of(const PeerWord& row, std::string_view text);

// A host's own name as a word of kHost: characters that no name may have become -, and "" becomes "unknown".
std::string host_word(std::string name);

}  // namespace mlbench
