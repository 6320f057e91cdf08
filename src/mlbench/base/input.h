#pragma once

// What comes from outside: files that somebody else may have written, bodies, answers, lines of a script. One depth and
// one table of sizes hold for all input. Both are checked before anything is built from the bytes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"

namespace mlbench {

// How deep lists and objects may be nested in JSON, CBOR and TOML. Recursion never goes deeper.
inline constexpr size_t kDeepestNesting = 64;

// One kind of input, and the size that no valid input of this kind exceeds.
struct Input {
  std::string_view what;  // "a task file"
  size_t most_bytes;
  bool may_be_pipe = false;  // the user names it: /dev/stdin and <(command) are as good as a file
};

namespace inputs {
inline constexpr size_t kKiB = size_t{1} << 10, kMiB = size_t{1} << 20;

// What users give.
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
inline constexpr Input kStoredRow{"a key or a row of a database", 64 * kMiB};
inline constexpr Input kTextLine{"a line of text", kMiB};
inline constexpr Input kSubwords{"a dictionary of subwords", 64 * kMiB};
inline constexpr Input kTensorHeader{"the header of a safetensors file", 16 * kMiB};
inline constexpr Input kCollectives{"a result of collectives", 64 * kMiB, true};
inline constexpr Input kSettings{"a file of --set", 128 * kKiB, true};
inline constexpr Input kTargets{"a file of AlgoPerf's targets", kMiB, true};
inline constexpr Input kMeasurements{"a trial's measurements", 16 * kMiB};
inline constexpr Input kTraceHead{"the first line of a trace", 16 * kMiB};
inline constexpr Input kArchive{"a run's archive", 256 * kMiB};
inline constexpr Input kArchiveMember{"a member of a run's archive", 32 * kMiB};
// What lies in a run's folder. The programs that write these files keep them within the same sizes.
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
// What lies in a home.
inline constexpr Input kTextFacts{"the facts of prepared text", kMiB};
inline constexpr Input kVocabulary{"a vocabulary", 256 * kMiB};
inline constexpr Input kRunCounter{"the counter of runs", 4 * kKiB};
inline constexpr Input kOwner{"the address of a home's master", 64 * kKiB};
inline constexpr Input kToken{"a token", 4 * kKiB};
inline constexpr Input kClusters{"the list of clusters", kMiB};
inline constexpr Input kAnswers{"the last answers", 4 * kKiB};
inline constexpr Input kSummary{"a run's summary", 16 * kMiB};
inline constexpr Input kCacheMark{"the mark of a data cache", 64 * kKiB};
// What other programs say, and what comes over the network.
inline constexpr Input kWorkerCatalog{"a worker's catalog", 4 * kMiB};
inline constexpr Input kWorkerAnswer{"a worker's answer", 16 * kMiB};
inline constexpr Input kCoreList{"a list of cores", 64 * kKiB};
inline constexpr Input kMessage{"a message of a rank", 64 * kMiB};
inline constexpr Input kJsonBody{"a JSON body", 8 * kMiB};
inline constexpr Input kForm{"a form", kMiB};
inline constexpr Input kMasterAnswer{"a master's answer", 64 * kMiB};
inline constexpr Input kKubernetesAnswer{"an answer of Kubernetes", 64 * kMiB};
inline constexpr Input kObjectList{"a list of objects", 16 * kMiB};
inline constexpr Input kCredentialsFile{"a file of AWS's credentials or settings", kMiB};
inline constexpr Input kIdentityAnswer{"an answer of an identity endpoint", 64 * kKiB};
}  // namespace inputs

// The value of a JSON text that is no deeper and no larger than the row `input` says. Throws UserError "WHAT is ..., at
// most ..." for any other text, for what is not JSON, for more than 2,000,000 values, and for an object of so many keys
// that looking them up would take seconds (some 20,000).
Json parse_json(std::string_view text, const Input& input);
// Parses a text as parse_json() does, but returns nothing where parse_json() throws.
std::optional<Json> try_parse_json(std::string_view text, const Input& input);

// The value, if it is a whole number between -10^17 and 10^17, so that a sum of a few does not overflow. Empty for
// everything else: a number of JSON may also be 1e308, which no integer holds.
std::optional<int64_t> integer_of(const Json& value);
// The member `name` of an object, as integer_of() reads it. Throws UserError when there is none.
int64_t integer_member(const Json& object, const char* name);
// The member `name` of an object, if it is a text; else, and where `object` is no object, "".
std::string text_member(const Json& object, const char* name);

// Reads a whole file. Throws IoError when the system refuses; throws UserError (path, size, limit) when the file is too
// large or not a plain file. The call never waits for a pipe that somebody put in the file's place.
std::string read_file(const std::filesystem::path& path, const Input& input);
// Reads a file as read_file() does and parses it as parse_json() does. Errors name the path.
Json read_json_file(const std::filesystem::path& path, const Input& input);
// Writes a file to be read again, as write_json_file() of json.h does. Throws UserError when the text is too large.
void write_json_file(const std::filesystem::path& path, const Json& value, const Input& input);

// Throws UserError "SUBJECT has N bytes: WHAT has at most M".
[[noreturn]] void refuse_size(std::string_view subject, size_t bytes, const Input& input);

}  // namespace mlbench
