#pragma once

// What comes from outside: files that somebody else may have written, bodies, answers, lines of a script. One depth
// and one table of sizes for all of it, looked at before anything is built of the bytes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"

namespace mlbench {

// Lists and objects within each other, in JSON, CBOR and TOML. What is copied, compared, printed or destroyed by
// recursion is never deeper.
inline constexpr size_t kDeepestNesting = 64;

// One kind of input and the size that no good one exceeds.
struct Input {
  std::string_view what;  // "a task file"
  size_t most_bytes;
  bool may_be_pipe = false;  // named by the user: /dev/stdin and <(command) are as good as a file
};

namespace inputs {
inline constexpr size_t kKiB = size_t{1} << 10, kMiB = size_t{1} << 20;

// Given by the user.
inline constexpr Input kTaskFile{"a task file", 128 * kKiB, true};
inline constexpr Input kHostFile{"a host file", kMiB, true};
inline constexpr Input kSetup{"a file for --setup", 64 * kKiB, true};
inline constexpr Input kPodOverlay{"a file for --pod-overlay", 64 * kKiB, true};
inline constexpr Input kKubeConfig{"a kubeconfig", 4 * kMiB, true};
inline constexpr Input kSetting{"a --set value", 16 * kKiB};
inline constexpr Input kDataDescription{"a data description", 128 * kKiB};
inline constexpr Input kPrices{"a price table", kMiB, true};
inline constexpr Input kPredictionLine{"a line of predictions", kMiB};
inline constexpr Input kTextRow{"a line of a data file", 64 * kMiB};
inline constexpr Input kTextLine{"a line of text", kMiB};
inline constexpr Input kSubwords{"a dictionary of subwords", 64 * kMiB};
inline constexpr Input kTensorHeader{"the header of a safetensors file", 16 * kMiB};
inline constexpr Input kCollectives{"a result of collectives", 64 * kMiB, true};
inline constexpr Input kTraceHead{"the first line of a trace", 16 * kMiB};
inline constexpr Input kArchive{"a run's archive", 256 * kMiB};
inline constexpr Input kArchiveMember{"a member of a run's archive", 32 * kMiB};
// Of a run's folder. What writes them holds them to the same sizes.
inline constexpr Input kSpec{"a run's spec.json", 16 * kMiB, true};
inline constexpr Input kRecord{"a run's record", 64 * kMiB};
inline constexpr Input kProgress{"a run's progress.json", 16 * kMiB};
inline constexpr Input kLease{"a run's lease", kMiB};
inline constexpr Input kMarker{"a run's queue.json", 4 * kKiB};
inline constexpr Input kNotes{"a run's notes.json", 64 * kKiB};
inline constexpr Input kEventLine{"an event", kMiB};
inline constexpr Input kEventFile{"a rank's events", 256 * kMiB};
inline constexpr Input kStepFile{"a rank's steps", 16384 * kMiB};         // read in blocks
inline constexpr Input kTimelineFile{"a rank's timeline", 16384 * kMiB};  // read in blocks
inline constexpr Input kTrackerLine{"a recorded line", 4 * kMiB};
inline constexpr Input kUsageLine{"a line of what ranks use", 4 * kMiB};
inline constexpr Input kClientFile{"a rank's recorded lines", 256 * kMiB};
inline constexpr Input kCheckpointState{"a checkpoint's state.json", 16 * kMiB};
// Of a home.
inline constexpr Input kTextFacts{"the facts of prepared text", kMiB};
inline constexpr Input kVocabulary{"a vocabulary", 256 * kMiB};
inline constexpr Input kRunCounter{"the counter of runs", 4 * kKiB};
inline constexpr Input kOwner{"the address of a home's master", 64 * kKiB};
inline constexpr Input kToken{"a token", 4 * kKiB};
inline constexpr Input kClusters{"the list of clusters", kMiB};
inline constexpr Input kAnswers{"the last answers", 4 * kKiB};
inline constexpr Input kSummary{"a run's summary", 16 * kMiB};
inline constexpr Input kCacheMark{"the mark of a data cache", 64 * kKiB};
// From other programs and over the network.
inline constexpr Input kWorkerCatalog{"a worker's catalog", 4 * kMiB};
inline constexpr Input kWorkerAnswer{"a worker's answer", 16 * kMiB};
inline constexpr Input kCoreList{"a list of cores", 64 * kKiB};
inline constexpr Input kMessage{"a message of a rank", 64 * kMiB};
inline constexpr Input kJsonBody{"a JSON body", 8 * kMiB};
inline constexpr Input kForm{"a form", kMiB};
inline constexpr Input kMasterAnswer{"a master's answer", 64 * kMiB};
inline constexpr Input kKubernetesAnswer{"an answer of Kubernetes", 64 * kMiB};
}  // namespace inputs

// A value no deeper and no larger than its row says. UserError "WHAT is ..., at most ..." for anything else, for what
// is no JSON, for more than 2,000,000 values, and for objects of so many keys that looking them up would take seconds
// (some 20,000 in one).
Json parse_json(std::string_view text, const Input& input);
// Empty instead of an error.
std::optional<Json> try_parse_json(std::string_view text, const Input& input);

// The value, where it is a whole number of at most 10^17 either way: a sum of a few of them does not overflow. Empty
// for all else: JSON's numbers are also 1e308, which no integer holds.
std::optional<int64_t> integer_of(const Json& value);
// Of a member of an object; UserError when it is absent or none.
int64_t integer_member(const Json& object, const char* name);
// Of a member of an object; "" when it is absent or none, and where there is no object.
std::string text_member(const Json& object, const char* name);

// A whole file. IoError when the system refuses; UserError (path, size, limit) when it is too large or no plain file.
// Never waits for a pipe that somebody put in a file's place.
std::string read_file(const std::filesystem::path& path, const Input& input);
// Both; errors name the path.
Json read_json_file(const std::filesystem::path& path, const Input& input);
// write_json_file, for what is to be read again: UserError when it would be too large for that.
void write_json_file(const std::filesystem::path& path, const Json& value, const Input& input);

// UserError "SUBJECT has N bytes: WHAT has at most M".
[[noreturn]] void refuse_size(std::string_view subject, size_t bytes, const Input& input);

}  // namespace mlbench
