#pragma once

// What ranks, their guards and the supervisor of a run tell each other over a network. Who knows the run's secret may
// still be broken, or want more than to take part: each word of a peer has a row here, its type and its bounds. A word
// is checked where it comes in, and again where an environment variable, an argument, a file name or the text for a
// placeholder is made of it. Files and bodies are in input.h.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"

namespace mlbench {

// A peer said what none may say. The text says what was given and what was expected; who knows the rank, adds it.
class PeerFault : public CommError {
 public:
  using CommError::CommError;
};

enum class WordType {
  kLabel,         // letters, digits and . _ : -
  kPeerVariable,  // a variable by which programs find their peers: MASTER_ADDR, MASTER_PORT, HOROVOD_...
  kHost,          // a host name of RFC 1123; a machine may have _ in its own
  kAddress,       // a host name, or an address of IPv4, or of IPv6 with or without its zone
  kAddresses,     // several, with commas between them
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
// Of JSON and CBOR.
struct PeerObject {
  std::string_view what;
  size_t most_bytes;  // as JSON
  size_t most_depth;
};

namespace peer_words {
// Who and where.
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
// How much of it. Whatever peers say within these bounds, all that is kept of 10,000 ranks stays below the size of a
// record: of hosts beyond kMostCaptures bytes it has the names alone.
inline constexpr size_t kMostCaptures = size_t{4} << 20;
inline constexpr size_t kMostSaidBytes = size_t{256} << 10;  // of one word of a guard
inline constexpr size_t kMostWaiting = 4096;                 // words, or kMostWaitingBytes, that nobody has read yet
inline constexpr size_t kMostWaitingBytes = size_t{4} << 20;
inline constexpr size_t kMostGuardFrame = size_t{2} << 20;  // of a link
inline constexpr int kWordsAtOnce = 256;                    // of one rank, before the others have their turn
inline constexpr size_t kMostKeys = 100'000;                // that a rank sets in the rendezvous, of kMostValueBytes
inline constexpr size_t kMostValueBytes = size_t{64} << 20;
inline constexpr PeerWord kKey{"a key", WordType::kLine, 512};
inline constexpr PeerObject kHeartbeat{"a heartbeat", 4096, 2};
inline constexpr PeerObject kReport{"a report", size_t{64} << 10, 4};
// How it goes.
inline constexpr PeerWord kWord{"a word", WordType::kLabel, 32};
inline constexpr PeerWord kReason{"a reason", WordType::kBytes, 4096};    // as reason_of() gives it
inline constexpr PeerWord kMessage{"a message", WordType::kBytes, 8192};  // likewise
inline constexpr PeerWord kReported{"a rank's words", WordType::kBytes, size_t{64} << 10};
inline constexpr PeerWord kOperation{"an operation", WordType::kLine, 2048};
inline constexpr PeerNumber kSequence{"a sequence number", -1, 100'000'000'000'000'000};
inline constexpr PeerNumber kExitCode{"an exit code", 0, 255};
inline constexpr PeerNumber kSignal{"a signal", 0, 64};
// Files and commands.
inline constexpr PeerWord kFile{"a file's name", WordType::kPath, 1024};
inline constexpr PeerWord kPeerVariable{"a variable that names peers", WordType::kPeerVariable, 64};
inline constexpr PeerWord kShellLine{"a command for a shell", WordType::kLine, size_t{16} << 10};
}  // namespace peer_words

bool fits(const PeerWord& row, std::string_view text);
// PeerFault for what is not of the row. Empty is no word, but of kLine and kBytes.
const std::string& checked(const PeerWord& row, const std::string& text);
int64_t checked(const PeerNumber& row, int64_t number);
const Json& checked(const PeerObject& row, const Json& object);
// Digits, and a sign before them, alone.
int64_t number_of(const PeerNumber& row, std::string_view text);

// Of a JSON object, where it has such a member, which is then one of the row; else what is given.
std::string word_in(const Json& object, const char* name, const PeerWord& row, const std::string& otherwise = "");
int64_t number_in(const Json& object, const char* name, const PeerNumber& row, int64_t otherwise);

// Words that are shown and no more: cut at the row's bytes, and escaped, but for their line breaks.
std::string reason_of(const PeerWord& row, std::string_view text);

// A host's own name for itself, as a word: what no name has becomes -, and none at all "unknown".
std::string host_word(std::string name);

}  // namespace mlbench
