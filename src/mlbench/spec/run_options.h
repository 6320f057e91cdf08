#pragma once

// What can be asked for when runs are made: one row per option. The command line, the fields of RunRequest over REST,
// their checks, the schema in api/openapi.json and, by it, the page are all made of these rows. A new option is a
// member, a row, and the schema's entry that the test `run_options_test` asks for. Options of executors have their rows
// beside them (exec/NAME/options.h) and no member; catalog/options/options.h has all rows in one list.

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

// As given, numbers as text; empty where nothing was given.
struct RunOptions {
  std::string name;
  std::vector<std::string> workers;
  std::string task, rules, variant;
  std::string task_text;  // the content of the task file `task`, where it cannot be read by that name
  std::string framework, backend, executor = "local";
  std::string data, data_dir;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string seed, threads_per_worker, inter_op_threads, repeat;
  std::string max_steps, max_epochs, max_time;
  std::string checkpoint_every, comm_timeout;
  // How ranks communicate (spec/communication.h).
  std::string wire_dtype, netem, algorithm, links, socket_buffer, network_interface;
  // What the executor is told beside, by the names of its options: texts (numbers, too), lists of them, true.
  Json engine = Json::object();
  // A custom run: what each rank starts, in which folder, with which variables (spec/variables.h) beside those of the
  // machine.
  std::vector<std::string> command;
  std::string work_dir;
  std::vector<std::string> environment;
  bool light = false, to_the_end = false, synthetic = false, fixed_batch = false, gpu = false, explain = false;
  bool profile = false, no_wait = false, overlap = false, check_collectives = false;
  bool share_host = false;
  // A benchmark of collectives, instead of a task: what it measures, as to_json(CollectivesSpec). Null: none.
  Json collectives;
  bool next_repeat = false;  // where NAME-K is taken: the first of NAME-K.2, NAME-K.3, ... that is free
  bool timeline = false;     // the command line has it from the file that it is to be written to
};

enum class OptionKind {
  kText,
  kTexts,     // the range is that of their number
  kFlag,      //
  kCount,     // whole
  kCounts,    // a list of them, at least one
  kSeed,      // any 64 bits
  kReal,      //
  kCpus,      // whole threads, or a limit with at most three digits behind its point
  kSize,      // bytes, or with a unit
  kDuration,  // seconds, or with a unit
  kSteps,     // a count of steps, or the word
  kObject,    // as its own schema has it
};

// Training: tasks but those that measure communication alone, 0a and `collectives`.
enum class AppliesTo { kAll, kTasks, kTraining, kCommands };

// A flag that gives an option by a file of this host.
struct FileFlag {
  std::string_view flags, help;
  const Input* content;
  // The option's value. UserError with the file and the line.
  std::string (*value)(const std::string& content, const std::string& file);
};

struct RunOption {
  using Member = std::variant<std::string RunOptions::*, std::vector<std::string> RunOptions::*, bool RunOptions::*,
                              Json RunOptions::*>;

  std::string_view name;   // the field of RunRequest
  std::string_view flags;  // of `mlbench run`, as CLI11 writes them; NAME, K: positional; empty: over REST alone
  Member member = {};      // none: an executor's, whose value is in RunOptions::engine
  OptionKind kind;
  AppliesTo applies = AppliesTo::kAll;
  Range range = {};             // of numbers; of seconds
  std::string_view unit = {};   // of a number that is given without one
  std::string_view word = {};   // taken in place of a number
  std::string_view usual = {};  // the default, where it is one value
  std::string_view value = {};  // what help calls a value
  std::string_view group = {};
  std::string_view help = {};
  std::span<const std::string_view> choices = {};  // for texts; none: any
  std::string_view bare = {};  // what the flag means without "=VALUE"; empty: it needs one behind it
  // What keeps runs apart that differ in it (report/study/comparison.h): a key of that name, which of an option of the
  // engine is its own; or why none does.
  std::string_view compared = {}, not_compared = {};
  // Of texts: as they are kept. UserError for what is wrong, with the option's `label`. Null: as they are given.
  std::string (*form)(const std::string& text, const std::string& label) = nullptr;
  // Of flags that name a file of this host: the option is its content, or its absolute path.
  const Input* content = nullptr;
  bool path = false;
  const FileFlag* file_flag = nullptr;
  bool names_cluster = false;  // of an executor: it says which cluster the ranks are on

  bool of_executor() const { return member == Member(); }
};
using RunOptionRows = std::span<const RunOption>;

// Those of all executors, in the order of help.
RunOptionRows run_options();
const RunOption& run_option(RunOption::Member member);

// "--max-steps"; the field's name where there is no flag. For messages.
std::string label_of(const RunOption& option);

// Whether the runs that are asked for train: they neither start a command nor measure communication alone.
bool asks_for_training(const RunOptions& options);

// What the executor is told: numbers as such, texts in their forms (catalog/control says which of them an executor
// takes). UserError naming the option.
Json engine_of(const RunOptions& options, RunOptionRows rows);

// Every value in its range, nothing beside what it applies to, not more runs than one request may make. UserError with
// what was given, and what can be. Whether names (of frameworks, data sets, ...) exist is not looked at.
void check_run_options(const RunOptions& options, RunOptionRows rows);

// What -c says: a whole number is one of threads; any other, 2.5, is the limit of a container, with as many threads as
// it has whole CPUs, at least one.
struct CpuShare {
  int64_t threads = 1;
  double limit = 0;  // 0: none
};
// `otherwise` threads where nothing is given. UserError as check_run_options.
CpuShare cpus_of(const RunOptions& options, int64_t otherwise);

// The number given, or `otherwise`. UserError as check_run_options.
int64_t count_of(const RunOptions& options, std::string RunOptions::*member, int64_t otherwise);
uint64_t seed_of(const RunOptions& options, uint64_t otherwise);
double real_of(const RunOptions& options, std::string RunOptions::*member, double otherwise);
double seconds_of(const RunOptions& options, std::string RunOptions::*member, double otherwise);
int64_t bytes_of(const RunOptions& options, std::string RunOptions::*member, int64_t otherwise);
// The worker counts: at least one, none twice.
std::vector<int64_t> workers_of(const RunOptions& options);

// The options as a request to a master (schema RunRequest in api/openapi.json), and back. UserError for an unknown
// field, or a value of another type.
Json to_json(const RunOptions& options);
RunOptions run_options_from_json(const Json& request, RunOptionRows rows);

// The properties of RunRequest, less their descriptions: type, minimum, maximum, default, enum; "x-unit", and
// "x-applies-to" ("tasks", "training" or "commands") of what does not apply to all.
Json run_request_properties(RunOptionRows rows);

// Most runs that one request makes: worker counts times repeats.
inline constexpr int64_t kMostRunsPerRequest = 1000;
inline constexpr int64_t kMostWorkers = 10'000;
inline constexpr Range kThreadCounts{1, 1024};  // of a worker
inline constexpr Range kCpusOfARank{0.1, 1024};
inline constexpr Range kListRange{0, 1000};

}  // namespace mlbench::spec
