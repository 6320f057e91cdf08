#pragma once

// The options with which runs are made, one row each. The command line, the fields of RunRequest over REST, their
// checks, the schema in api/openapi.json and, by it, the page are all made from these rows. A new option needs a
// member, a row, and the entry in the schema that the test `run_options_test` asks for. An executor's options have
// their rows in exec/NAME/options.h and no member. catalog/options/options.h has all rows in one list.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/numbers.h"

namespace mlbench {
struct Input;
}

namespace mlbench::spec {

// The options as they were given, numbers as text. Empty where nothing was given.
struct RunOptions {
  std::string name;
  std::vector<std::string> workers;
  std::string task, rules, variant;
  std::string task_text;  // the content of the task file `task`, where it cannot be read by that name
  std::string framework, backend, executor = "local";
  std::string data, data_dir;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string goal;                    // METRIC>=VALUE or METRIC<=VALUE (spec/goal_option.h)
  std::string seed, threads_per_worker, inter_op_threads, decoding_threads, max_bad, repeat;
  std::string max_steps, max_epochs, max_time;
  std::string checkpoint_every, comm_timeout;
  std::string compute;      // spec/compute.h
  std::string convolution;  // kConvolutions
  // How ranks communicate (spec/communication.h).
  std::string wire_dtype, netem, algorithm, links, socket_buffer, network_interface;
  // The executor's own options by name: texts (numbers, too), lists of texts, or true.
  Json engine = Json::object();
  // A custom run: the command of each rank, its folder, and its variables (spec/variables.h) beside the machine's.
  std::vector<std::string> command;
  std::string work_dir;
  std::vector<std::string> environment;
  bool light = false, to_the_end = false, synthetic = false, fixed_batch = false, gpu = false, explain = false;
  bool profile = false, no_wait = false, overlap = false, check_collectives = false;
  bool share_host = false;
  // A benchmark of collectives instead of a task: members of to_json(CollectivesSpec). Null: none.
  Json collectives;
  bool next_repeat = false;  // where NAME-K is taken, the run's name is the first free one of NAME-K.2, NAME-K.3, ...
  bool timeline = false;     // on the command line, --timeline FILE sets it
};

enum class OptionKind {
  kText,
  kTexts,     // a list; the range is that of its length
  kFlag,      //
  kCount,     // a whole number
  kCounts,    // a list of whole numbers, at least one
  kSeed,      // any number of 64 bits
  kReal,      //
  kCpus,      // whole threads, or a limit with at most three digits behind its point
  kSize,      // bytes, or with a unit
  kDuration,  // seconds, or with a unit
  kSteps,     // a number of steps, or RunOption::word
  kObject,    // in the form of a schema of its own
};

// The runs to which an option applies, beside commands that declare with it what they train (RunOption::declares).
// kTraining: all tasks but 0a and `collectives`, which only measure communication.
enum class AppliesTo { kAll, kTasks, kTraining, kCommands };

// A further flag of an option, which names a file of this host from which the value is made.
struct FileFlag {
  std::string_view flags, help;
  const Input* content;
  // Makes the option's value from the file's content. Throws UserError with the file and the line.
  std::string (*value)(const std::string& content, const std::string& file);
};

struct RunOption {
  using Member = std::variant<std::string RunOptions::*, std::vector<std::string> RunOptions::*, bool RunOptions::*,
                              Json RunOptions::*>;

  std::string_view name;   // the field of RunRequest
  std::string_view flags;  // of `mlbench run`, as CLI11 writes them; NAME, K: positional; empty: only over REST
  Member member = {};      // none: an executor's option, whose value is in RunOptions::engine
  OptionKind kind;
  AppliesTo applies = AppliesTo::kAll;
  bool declares = false;        // a command takes the option, too, which then declares what the command trains
  Range range = {};             // of the number; for kDuration in seconds
  std::string_view unit = {};   // of a number that is given without a unit
  std::string_view word = {};   // a word that may stand in place of a number
  std::string_view usual = {};  // the default, where it is one value
  std::string_view value = {};  // what help calls the value
  std::string_view group = {};
  std::string_view help = {};
  const Input* lines = nullptr;  // on the command line, "@FILE" in a list stands for the lines of such a file
  std::span<const std::string_view> choices = {};  // valid texts; empty: any text
  std::string_view bare = {};  // what the flag means without "=VALUE"; empty: the flag needs a value behind it
  // Runs that differ in the option are compared by the key named `compared` (report/study/comparison.h), which has the
  // option's own name for most options of executors. `not_compared` says why no key compares them.
  std::string_view compared = {}, not_compared = {};
  // Converts a text to the form in which it is kept. Throws UserError, with the option's `label`, for a wrong text.
  // Null: texts are kept as given.
  std::string (*form)(const std::string& text, const std::string& label) = nullptr;
  // For flags that name a file of this host: the value is the file's content (with `content`) or its absolute path.
  const Input* content = nullptr;
  bool path = false;
  const FileFlag* file_flag = nullptr;
  bool names_cluster = false;  // an executor's option that says on which cluster the ranks are
  bool of_network = false;     // says over what ranks communicate, so that `study ddl --network` may vary it

  bool of_executor() const { return member == Member(); }
};
using RunOptionRows = std::span<const RunOption>;

// The rows of all members of RunOptions, in the order of help.
RunOptionRows run_options();
// The row of a member.
const RunOption& run_option(RunOption::Member member);

// The name of an option for messages: "--max-steps", or the field's name where there is no flag.
std::string label_of(const RunOption& option);

// Whether the runs that are asked for train, so that they neither start a command nor only measure communication.
bool asks_for_training(const RunOptions& options);

// Whether such runs measure throughput alone: they have no goal and no evaluation.
inline bool measures_throughput(const RunOptions& options) { return options.fixed_batch || !options.compute.empty(); }

// The options for the executor: counts as numbers, texts in the form of their row. catalog/control checks which of them
// an executor takes. Throws UserError naming the option.
Json engine_of(const RunOptions& options, RunOptionRows rows);

// Checks that every value is in its range, that every option applies to the runs, and that one request does not make
// too many runs. Throws UserError with what was given and what is valid. Does not check whether names (of frameworks,
// data sets, ...) exist.
void check_run_options(const RunOptions& options, RunOptionRows rows);

// What -c says. A whole number is a number of threads. Any other, such as 2.5, limits the container to so many CPUs,
// with as many threads as whole CPUs, but at least one.
struct CpuShare {
  int64_t threads = 1;
  double limit = 0;  // CPUs; 0: no limit
};
// There are `otherwise` threads where -c was not given. Throws UserError as check_run_options() does.
CpuShare cpus_of(const RunOptions& options, int64_t otherwise);

// The value of an option as a number, in seconds or bytes where it has a unit; `otherwise` where it was not given.
// These throw UserError as check_run_options() does.
int64_t count_of(const RunOptions& options, std::string RunOptions::*member, int64_t otherwise);
uint64_t seed_of(const RunOptions& options, uint64_t otherwise);
double real_of(const RunOptions& options, std::string RunOptions::*member, double otherwise);
double seconds_of(const RunOptions& options, std::string RunOptions::*member, double otherwise);
int64_t bytes_of(const RunOptions& options, std::string RunOptions::*member, int64_t otherwise);
// The worker counts. Throws UserError where there is none, where one comes twice, and for a wrong number.
std::vector<int64_t> workers_of(const RunOptions& options);

// The options as a request to a master (schema RunRequest in api/openapi.json), and back. run_options_from_json()
// throws UserError for an unknown field, or a value of another type.
Json to_json(const RunOptions& options);
RunOptions run_options_from_json(const Json& request, RunOptionRows rows);

// The properties of RunRequest without their descriptions: type, minimum, maximum, default, enum, "x-unit", and
// "x-applies-to" ("tasks", "training" or "commands") for options that do not apply to all runs.
Json run_request_properties(RunOptionRows rows);

// The most runs that one request may make: worker counts times repeats.
inline constexpr int64_t kMostRunsPerRequest = 1000;
inline constexpr int64_t kMostWorkers = 10'000;
inline constexpr Range kThreadCounts{1, 1024};  // of a worker
// The order of sums in convolutions. Winograd's is taken where it was measured to be faster (auto), nowhere (direct),
// or wherever it is possible (winograd).
inline constexpr std::string_view kConvolutions[] = {"auto", "direct", "winograd"};
inline constexpr Range kCpusOfARank{0.1, 1024};
inline constexpr Range kListRange{0, 1000};

}  // namespace mlbench::spec
