#include "mlbench/spec/run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/text.h"
#include "mlbench/base/utf8.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/communication.h"
#include "mlbench/spec/fields.h"
#include "mlbench/spec/former_names.h"
#include "mlbench/spec/run_option_members.h"

namespace mlbench::spec {

namespace {

constexpr Range kWorkerCounts{1, kMostWorkers};
constexpr Range kRepeatRange{1, kMostRunsPerRequest};
constexpr Range kStepRange{1, 1e12};
constexpr Range kEpochLimits{1e-6, 1e6};      // a millionth of an epoch is rounded up to one step
constexpr Range kTimeRange{0.001, 31536000};  // a year
constexpr Range kTimeoutRange{0.001, 86400};
constexpr Range kWordRange{0, 100'000};
constexpr Range kBadImages{0, 100'000};

constexpr const char *kWhat = "What to run", *kData = "Data", *kLimits = "When to stop", *kHow = "How to run",
                     *kCommunication = "How ranks communicate";

using Kind = OptionKind;
using Options = RunOptions;
constexpr auto kTasks = AppliesTo::kTasks, kTraining = AppliesTo::kTraining, kCommands = AppliesTo::kCommands;

// clang-format off
constexpr RunOption kRows[] = {
    {.name = "name", .flags = "NAME", .member = &Options::name, .kind = Kind::kText,
     .help = "the runs are called NAME-K (repeats: NAME-K.2, ...)", .not_compared = "names say nothing of a run"},
    {.name = "workers", .flags = "K", .member = &Options::workers, .kind = Kind::kCounts, .range = kWorkerCounts,
     .help = "worker counts, e.g. 1 2 4", .compared = "workers"},

    {.name = "task", .flags = "--task", .member = &Options::task, .kind = Kind::kText, .applies = kTasks,
     .declares = true, .value = "TASK", .group = kWhat,
     .help = "a name of 'mlbench list tasks', or a task file (.toml); with a command, what it trains",
     .compared = "task"},
    {.name = "task_text", .flags = "", .member = &Options::task_text, .kind = Kind::kText, .applies = kTraining,
     .declares = true, .compared = "task"},
    {.name = "rules", .flags = "--rules", .member = &Options::rules, .kind = Kind::kText, .applies = kTraining,
     .declares = true, .value = "RULES", .group = kWhat, .help = "rule set of the task (default: the newest)",
     .compared = "task"},
    {.name = "variant", .flags = "--variant", .member = &Options::variant, .kind = Kind::kText, .applies = kTraining,
     .declares = true, .value = "VARIANT", .group = kWhat, .help = "official variant of the task (default: its first)",
     .compared = "task"},
    {.name = "framework", .flags = "--framework", .member = &Options::framework, .kind = Kind::kText,
     .applies = kTraining, .value = "NAME", .group = kWhat, .help = "see 'mlbench list frameworks'",
     .compared = "framework"},
    {.name = "backend", .flags = "--backend", .member = &Options::backend, .kind = Kind::kText, .value = "NAME",
     .group = kWhat, .help = "communication backend, see 'mlbench list backends'", .compared = "backend"},
    {.name = "executor", .flags = "--executor", .member = &Options::executor, .kind = Kind::kText, .usual = "local",
     .value = "NAME", .group = kWhat, .help = "see 'mlbench list executors'", .compared = "executor"},
    {.name = "set", .flags = "--set", .member = &Options::overrides, .kind = Kind::kTexts, .applies = kTraining,
     .range = kListRange, .value = "KEY=VALUE", .group = kWhat,
     .help = "override a key of the task; the run becomes open (repeatable; @FILE: one of its lines each)",
     .lines = &inputs::kSettings, .compared = "overrides"},
    {.name = "command", .flags = "", .member = &Options::command, .kind = Kind::kTexts, .applies = kCommands,
     .range = kWordRange, .compared = "task"},
    {.name = "collectives", .flags = "", .member = &Options::collectives, .kind = Kind::kObject, .applies = kTasks,
     .compared = "task"},

    {.name = "data", .flags = "--data", .member = &Options::data, .kind = Kind::kText, .applies = kTraining,
     .declares = true, .value = "NAME", .group = kData, .help = "another data set, see 'mlbench list data'",
     .compared = "data"},
    {.name = "data_dir", .flags = "--data-dir", .member = &Options::data_dir, .kind = Kind::kText, .applies = kTraining,
     .value = "DIR", .group = kData, .help = "where data sets lie (default: MLBENCH_DATA_DIR)", .compared = "storage"},
    {.name = "synthetic", .flags = "--synthetic", .member = &Options::synthetic, .kind = Kind::kFlag,
     .applies = kTraining, .group = kData, .help = "made data instead of the real set", .compared = "data"},
    {.name = "fixed_batch", .flags = "--fixed-batch", .member = &Options::fixed_batch, .kind = Kind::kFlag,
     .applies = kTraining, .group = kData, .help = "one batch, made once and used in each step: measures throughput only",
     .compared = "division"},
    {.name = "compute", .flags = "--compute", .member = &Options::compute, .kind = Kind::kText, .applies = kTraining,
     .value = "emulated=STEP", .group = kHow,
     .help = "each step waits this time, as in emulated=150ms, in place of computing: measures throughput only",
     .compared = "compute"},
    {.name = "convolution", .flags = "--convolution", .member = &Options::convolution, .kind = Kind::kText,
     .applies = kTraining, .usual = "auto", .value = "ORDER", .group = kHow,
     .help = "of the framework (native): auto, direct, or winograd, wherever a convolution can have Winograd's order",
     .choices = kConvolutions, .compared = "framework"},

    {.name = "light", .flags = "-l,--light", .member = &Options::light, .kind = Kind::kFlag, .applies = kTraining,
     .declares = true, .group = kLimits, .help = "the task's light goal", .compared = "goal"},
    {.name = "goal", .flags = "--goal", .member = &Options::goal, .kind = Kind::kText, .applies = kTraining,
     .declares = true, .value = "METRIC>=VALUE", .group = kLimits,
     .help = "another goal, METRIC>=VALUE or METRIC<=VALUE, of a metric that the task evaluates; the run becomes open",
     .compared = "goal"},
    {.name = "to_the_end", .flags = "--to-the-end", .member = &Options::to_the_end, .kind = Kind::kFlag,
     .applies = kTraining, .group = kLimits,
     .help = "go on past the goal, whose time is kept, to the last epoch or a limit",
     .not_compared = "times are those up to the goal"},
    {.name = "max_steps", .flags = "--max-steps", .member = &Options::max_steps, .kind = Kind::kCount,
     .applies = kTraining, .range = kStepRange, .unit = "steps", .value = "N", .group = kLimits,
     .help = "stop after this many steps", .not_compared = "a limit"},
    {.name = "max_epochs", .flags = "--max-epochs", .member = &Options::max_epochs, .kind = Kind::kReal,
     .applies = kTraining, .range = kEpochLimits, .unit = "epochs", .value = "X", .group = kLimits,
     .help = "stop after this many epochs", .not_compared = "a limit"},
    {.name = "max_time", .flags = "--max-time", .member = &Options::max_time, .kind = Kind::kDuration,
     .applies = kTraining, .range = kTimeRange, .unit = "s", .word = "official", .value = "TIME", .group = kLimits,
     .help = "stop after this time from the first batch: 90s, 5m, 2h, or 'official', the task's",
     .not_compared = "a limit"},

    {.name = "seed", .flags = "--seed", .member = &Options::seed, .kind = Kind::kSeed, .usual = "42", .value = "N",
     .group = kHow, .help = "repeat r runs with N + r - 1", .not_compared = "repeats differ in it"},
    {.name = "repeat", .flags = "--repeat", .member = &Options::repeat, .kind = Kind::kCount, .range = kRepeatRange,
     .usual = "1", .value = "N", .group = kHow, .help = "run each worker count N times",
     .not_compared = "repeats differ in it"},
    {.name = "threads_per_worker", .flags = "-c,--threads-per-worker,--num-cpus",
     .member = &Options::threads_per_worker, .kind = Kind::kCpus, .range = kCpusOfARank, .value = "N", .group = kHow,
     .help = "default: cores / largest K, at least 1; 2.5 limits each container to 2.5 CPUs, with 2 threads",
     .compared = "threads_per_worker"},
    {.name = "inter_op_threads", .flags = "--inter-op-threads", .member = &Options::inter_op_threads,
     .kind = Kind::kCount, .applies = kTraining, .range = kThreadCounts, .usual = "1", .value = "N", .group = kHow,
     .help = "the framework's pool for operations beside each other (torch, tensorflow); the steps of torch launch none there",
     .compared = "inter_op_threads"},
    {.name = "decoding_threads", .flags = "--decoding-threads", .member = &Options::decoding_threads,
     .kind = Kind::kCount, .applies = kTraining, .range = kThreadCounts, .value = "N", .group = kHow,
     .help = "of each worker, for images that lie encoded on disk (default: cores that do not compute, at least 1)",
     .compared = "threads_per_worker"},
    {.name = "max_bad", .flags = "--max-bad", .member = &Options::max_bad, .kind = Kind::kCount, .applies = kTraining,
     .range = kBadImages, .unit = "images", .usual = "0", .value = "N", .group = kData,
     .help = "how many images may be impossible to decode; the next ones stand in for them", .compared = "data"},
    {.name = "checkpoint_every", .flags = "--checkpoint-every", .member = &Options::checkpoint_every,
     .kind = Kind::kSteps, .applies = kTraining, .range = kStepRange, .unit = "steps", .word = "epoch",
     .value = "STEPS|epoch", .group = kHow, .help = "default: one checkpoint at the end", .compared = "checkpoints"},
    {.name = "comm_timeout", .flags = "--comm-timeout", .member = &Options::comm_timeout, .kind = Kind::kDuration,
     .applies = kTasks, .range = kTimeoutRange, .unit = "s", .usual = "30s", .value = "TIME", .group = kHow,
     .help = "how long an operation may wait for a peer", .not_compared = "a limit"},
    {.name = "algorithm", .flags = "--algorithm", .member = &Options::algorithm, .kind = Kind::kText,
     .applies = kTasks, .usual = "auto", .value = "NAME", .group = kCommunication,
     .help = "of all_reduce: auto, ring, halving_doubling, bcube; or library: all collectives as the library has them; "
             "which depends on the back end",
     .choices = kAlgorithms, .compared = "backend"},
    {.name = "links", .flags = "--links", .member = &Options::links, .kind = Kind::kCount, .applies = kTasks,
     .range = kLinkCounts, .usual = "1", .value = "N", .group = kCommunication,
     .help = "connections between two ranks, over which large messages are spread", .compared = "backend",
     .of_network = true},
    {.name = "socket_buffer", .flags = "--socket-buffer", .member = &Options::socket_buffer, .kind = Kind::kSize,
     .applies = kTasks, .range = kSocketBuffers, .unit = "bytes", .value = "SIZE", .group = kCommunication,
     .help = "send and receive buffer of each connection: 4M (default: the system's choice)", .compared = "backend",
     .of_network = true},
    {.name = "interface", .flags = "--interface", .member = &Options::network_interface, .kind = Kind::kText,
     .applies = kTasks, .value = "NAME|ADDRESS", .group = kCommunication,
     .help = "network interface, or its address, that ranks use (default: loopback, or that to the supervisor)",
     .compared = "backend", .of_network = true},
    {.name = "wire_dtype", .flags = "--wire-dtype", .member = &Options::wire_dtype, .kind = Kind::kText,
     .applies = kTasks, .value = "TYPE", .group = kCommunication,
     .help = "float32 travels as float16 or bfloat16; the run becomes open", .choices = kWireTypes,
     .compared = "backend"},
    {.name = "netem", .flags = "--netem", .member = &Options::netem, .kind = Kind::kText, .applies = kTasks,
     .value = "LINKS", .group = kCommunication,
     .help = "a made network, labelled: 'latency=0.2ms,bandwidth=1Gbit;0>1:latency=1ms'; the run becomes open",
     .compared = "backend"},
    {.name = "check_collectives", .flags = "--check-collectives", .member = &Options::check_collectives,
     .kind = Kind::kFlag, .applies = kTasks, .group = kCommunication,
     .help = "name ranks that do not call the same operation, instead of hanging (slower)", .compared = "backend"},
    {.name = "work_dir", .flags = "--work-dir", .member = &Options::work_dir, .kind = Kind::kText,
     .applies = kCommands, .value = "DIR", .group = kHow,
     .help = "where a command behind -- starts (default: here; with --image its own)",
     .not_compared = "belongs to the command, which says what it reads there"},
    {.name = "env", .flags = "--env", .member = &Options::environment, .kind = Kind::kTexts, .applies = kCommands,
     .range = kListRange, .value = "NAME[=VALUE|=@FILE]", .group = kHow,
     .help = "variable of a command behind --; a secret as NAME (its value here) or NAME=@FILE (repeatable)",
     .not_compared = "may be secrets, which no record holds"},
    {.name = "gpu", .flags = "-g,--gpu", .member = &Options::gpu, .kind = Kind::kFlag, .group = kHow,
     .help = "on NVIDIA GPUs of the hosts, one per worker", .compared = "device"},
    {.name = "overlap", .flags = "--overlap", .member = &Options::overlap, .kind = Kind::kFlag, .applies = kTraining,
     .group = kHow, .help = "exchange gradients while they are computed: --set optimizer.overlap=true",
     .compared = "backend"},
    {.name = "explain", .flags = "--explain", .member = &Options::explain, .kind = Kind::kFlag, .applies = kTraining,
     .group = kHow, .help = "at the end, say which kernels the framework took (native)", .not_compared = "it costs no step anything"},
    {.name = "profile", .flags = "--profile", .member = &Options::profile, .kind = Kind::kFlag, .applies = kTraining,
     .group = kHow, .help = "at the end, say what each operation of a step cost (native; takes about 1 %)",
     .compared = "recording"},
    {.name = "timeline", .flags = "", .member = &Options::timeline, .kind = Kind::kFlag, .applies = kTasks,
     .compared = "recording"},
    {.name = "no_wait", .flags = "--no-wait", .member = &Options::no_wait, .kind = Kind::kFlag, .group = kHow,
     .help = "start at once even when another run holds the cores (labelled oversubscribed)",
     .compared = "oversubscribed"},
    {.name = "share_host", .flags = "--share-host", .member = &Options::share_host, .kind = Kind::kFlag, .group = kHow,
     .help = "on cores of its own (-c, default 1) beside other runs that do the same (labelled shared host)",
     .compared = "shared_host"},
    {.name = "next_repeat", .flags = "", .member = &Options::next_repeat, .kind = Kind::kFlag,
     .not_compared = "names say nothing of a run"},
};
// clang-format on

bool is_given(const RunOption& option, const RunOptions& options) {
  if (option.of_executor()) return options.engine.contains(option.name);
  bool given = false;
  visit_member(
      option, options, [&](const std::string& text) { given = !text.empty(); },
      [&](const std::vector<std::string>& list) { given = !list.empty(); }, [&](bool flag) { given = flag; },
      [&](const Json& object) { given = !object.is_null(); });
  return given;
}

double parse_cpus(const std::string& text, const RunOption& option) {
  const double cpus = parse_real(text, label_of(option), option.range);
  if (std::abs(std::round(cpus * 1000) - cpus * 1000) > 1e-6) {
    throw UserError(fmt::format("{} '{}' has more than three digits behind its point: give thousandths, as in 2.125",
                                label_of(option), shortened(text)));
  }
  return cpus;
}

// Throws UserError where `text` is no UTF-8: a run's files are JSON, which cannot hold other bytes.
void check_is_utf8(const RunOption& option, const std::string& text) {
  if (is_utf8(text)) return;
  throw UserError(fmt::format("{} '{}' is no UTF-8, and the files of a run hold no other text", label_of(option),
                              printable(text, 80)));
}

void check_text(const RunOption& option, const std::string& text) {
  const std::string label = label_of(option);
  check_is_utf8(option, text);
  if (!option.word.empty() && text == option.word) return;
  switch (option.kind) {
    case Kind::kCount:
      parse_count(text, label, option.range);
      break;
    case Kind::kSeed:
      parse_seed(text, label);
      break;
    case Kind::kReal:
      parse_real(text, label, option.range);
      break;
    case Kind::kCpus:
      parse_cpus(text, option);
      break;
    case Kind::kDuration:
      parse_duration(text, label, option.range);
      break;
    case Kind::kSize:
      if (!option.range.contains(static_cast<double>(parse_size(text, label)))) {
        throw UserError(fmt::format("{} '{}' is not a size from {} to {}", label, shortened(text),
                                    size_text(static_cast<int64_t>(option.range.least)),
                                    size_text(static_cast<int64_t>(option.range.most))));
      }
      break;
    case Kind::kText:
      if (!option.choices.empty()) check_choice(label, text, texts_of(option.choices));
      break;
    case Kind::kSteps:
      try {
        parse_count(text, label, option.range);
      } catch (const UserError&) {
        throw UserError(fmt::format("{} '{}' is neither a number of steps {} nor '{}'", label, shortened(text),
                                    to_text(option.range), option.word));
      }
      break;
    default:
      break;
  }
}

void check_list(const RunOption& option, const std::vector<std::string>& values) {
  for (const std::string& value : values) check_is_utf8(option, value);
  if (option.kind == Kind::kTexts && !option.range.contains(static_cast<double>(values.size()))) {
    throw UserError(
        fmt::format("{} has {} values; expected at most {}", label_of(option), values.size(), option.range.most));
  }
}

}  // namespace

RunOptionRows run_options() { return kRows; }

const RunOption& run_option(RunOption::Member member) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const RunOption& option) { return option.member == member; });
  MLBENCH_CHECK(row != std::end(kRows), "every member of RunOptions has a row");
  return *row;
}

std::string label_of(const RunOption& option) {
  if (option.kind == Kind::kCounts) return "worker count";
  const size_t start = option.flags.find("--");
  if (start == std::string_view::npos) return std::string(option.name);
  return std::string(option.flags.substr(start, option.flags.find(',', start) - start));
}

bool asks_for_training(const RunOptions& options) {
  return options.command.empty() && options.task != kTask0a && options.collectives.is_null();
}

Json engine_of(const RunOptions& options, RunOptionRows rows) {
  Json engine = Json::object();
  for (const RunOption& option : rows) {
    const auto given = options.engine.find(option.name);
    if (!option.of_executor() || given == options.engine.end()) continue;
    Json& told = engine[std::string(option.name)] = *given;
    if (option.kind == Kind::kCount) told = parse_count(given->get<std::string>(), label_of(option), option.range);
    if (option.form != nullptr) told = option.form(given->get<std::string>(), label_of(option));
  }
  return engine;
}

void check_run_options(const RunOptions& options, RunOptionRows rows) {
  const bool custom = !options.command.empty();
  const bool measures = !custom && !asks_for_training(options);
  if (!options.collectives.is_null() && !options.task.empty()) {
    throw UserError("collectives is given and task, too: a run measures the one or does the other, so leave out one");
  }
  if (options.share_host && (measures || options.gpu)) {
    throw UserError(fmt::format("--share-host: {}; leave it out",
                                options.gpu ? "a run with --gpu has the GPUs of its host to itself"
                                            : "what a benchmark of collectives measures is time, which other runs "
                                              "on its host would change"));
  }
  for (const RunOption& option : rows) {
    if (!is_given(option, options)) continue;
    if (custom && !option.declares && (option.applies == kTasks || option.applies == kTraining)) {
      throw UserError(fmt::format("{} is an option of tasks: give it to your command, behind --", label_of(option)));
    }
    if (custom && option.declares && options.task.empty()) {
      throw UserError(
          fmt::format("{} belongs to a task: say which one the command trains, with --task TASK", label_of(option)));
    }
    if (!custom && option.applies == kCommands) {
      throw UserError(fmt::format("{} is an option of a command: give one behind --", label_of(option)));
    }
    if (measures && option.applies == kTraining) {
      throw UserError(fmt::format("{} is an option of tasks that train, and {} trains nothing: leave it out",
                                  label_of(option), options.task.empty() ? "a benchmark of collectives" : "task 0a"));
    }
    if (option.of_executor()) {
      const Json& value = options.engine.at(std::string(option.name));
      if (value.is_string()) check_text(option, value.get<std::string>());
      if (value.is_array()) check_list(option, value.get<std::vector<std::string>>());
      continue;
    }
    visit_member(
        option, options, [&](const std::string& text) { check_text(option, text); },
        [&](const std::vector<std::string>& values) { check_list(option, values); }, [](bool) {}, [](const Json&) {});
  }
  refuse_former_framework(options.framework);
  const int64_t counts = std::ssize(workers_of(options));
  const int64_t repeats = count_of(options, &Options::repeat, 1);
  if (counts * repeats > kMostRunsPerRequest) {
    throw UserError(fmt::format("{} worker counts with {} repeats are {} runs; one request makes at most {}", counts,
                                repeats, counts * repeats, kMostRunsPerRequest));
  }
  const uint64_t seed = seed_of(options, 0);
  if (seed > std::numeric_limits<uint64_t>::max() - static_cast<uint64_t>(repeats - 1)) {
    throw UserError(fmt::format("--seed {} with --repeat {}: the last one's seed would be above {}", seed, repeats,
                                std::numeric_limits<uint64_t>::max()));
  }
}

CpuShare cpus_of(const RunOptions& options, int64_t otherwise) {
  if (options.threads_per_worker.empty()) return {otherwise, 0};
  const double cpus = parse_cpus(options.threads_per_worker, run_option(&Options::threads_per_worker));
  const double whole = std::floor(cpus);
  return {std::max<int64_t>(1, static_cast<int64_t>(whole)), whole == cpus ? 0 : cpus};
}

int64_t count_of(const RunOptions& options, std::string RunOptions::*member, int64_t otherwise) {
  const RunOption& option = run_option(member);
  return (options.*member).empty() ? otherwise : parse_count(options.*member, label_of(option), option.range);
}

uint64_t seed_of(const RunOptions& options, uint64_t otherwise) {
  return options.seed.empty() ? otherwise : parse_seed(options.seed, label_of(run_option(&Options::seed)));
}

double real_of(const RunOptions& options, std::string RunOptions::*member, double otherwise) {
  const RunOption& option = run_option(member);
  return (options.*member).empty() ? otherwise : parse_real(options.*member, label_of(option), option.range);
}

double seconds_of(const RunOptions& options, std::string RunOptions::*member, double otherwise) {
  const RunOption& option = run_option(member);
  return (options.*member).empty() ? otherwise : parse_duration(options.*member, label_of(option), option.range);
}

int64_t bytes_of(const RunOptions& options, std::string RunOptions::*member, int64_t otherwise) {
  return (options.*member).empty() ? otherwise : parse_size(options.*member, label_of(run_option(member)));
}

std::vector<int64_t> workers_of(const RunOptions& options) {
  if (options.workers.empty()) throw UserError("no worker count: give at least one, e.g. 'mlbench run NAME 1 2'");
  if (std::ssize(options.workers) > kMostRunsPerRequest) {
    throw UserError(fmt::format("{} worker counts; one request makes at most {} runs", options.workers.size(),
                                kMostRunsPerRequest));
  }
  const RunOption& option = run_option(&Options::workers);
  std::vector<int64_t> counts;
  for (const std::string& text : options.workers) {
    const int64_t count = parse_count(text, label_of(option), option.range);
    if (std::find(counts.begin(), counts.end(), count) != counts.end()) {
      throw UserError(fmt::format("worker count {} is given twice: for repeats use --repeat N", count));
    }
    counts.push_back(count);
  }
  return counts;
}

}  // namespace mlbench::spec
