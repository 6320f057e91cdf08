#include "mlbench/spec/run_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/spec/compute.h"
#include "mlbench/spec/declaration.h"
#include "mlbench/spec/fields.h"
#include "mlbench/spec/former_names.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/task_hash.h"

namespace mlbench::spec {

namespace {

constexpr int64_t kVersion = 1;
constexpr std::array<std::string_view, 5> kDivisions = {"closed", "open", "own", "throughput", "custom"};
constexpr std::array<std::string_view, 3> kProfiles = {"off", "explain", "time"};
constexpr const char* kCustom = "custom";
constexpr const char* kBenchmark = "collectives";
constexpr double kMostId = 1e15;

template <typename V, typename C>
void describe_command(V& v, C& command) {
  v.field("command", command.words);
  v.field("work_dir", command.work_dir);
  v.field("environment", command.environment);
}

void describe_workload(FieldWriter& writer, const Workload& workload) {
  if (const auto* command = std::get_if<Command>(&workload)) describe_command(writer, *command);
}

// Reads a command, if there is one; the task's canonical form tells the other kinds of workload apart.
void describe_workload(FieldReader& reader, Workload& workload) {
  Command command;
  describe_command(reader, command);
  if (!command.words.empty()) workload = std::move(command);
}

template <typename V, typename Spec>
void describe_run(V& v, Spec& spec) {
  const auto range_of = [](RunOption::Member member) {
    return Rule{.required = true, .range = run_option(member).range};
  };
  const auto limit_of = [](RunOption::Member member) {  // 0: none
    return Rule{.required = true, .range = Range{0, run_option(member).range.most}};
  };

  v.field("id", spec.id, {.required = true, .range = Range{0, kMostId}});
  v.field("identity", spec.identity, kRequired);
  v.field("name", spec.name, kRequired);
  v.field("repeat", spec.repeat, range_of(&RunOptions::repeat));
  v.field("created_at", spec.created_at, kRequired);
  v.free_table("asked", spec.asked);
  v.table("task", [&] {
    v.any("canonical", spec.task.canonical);
    v.field("hash", spec.task.hash, kRequired);
    v.field("open", spec.task.open, kRequired);
  });
  v.list("overrides", spec.overrides, [&](auto& setting) {
    v.field("key", setting.key, kRequired);
    v.field("value", setting.value, kRequired);
  });
  v.field("division", spec.division, {.required = true, .choices = kDivisions});
  describe_workload(v, spec.workload);
  v.field("framework", spec.framework, kRequired);
  v.field("backend", spec.backend, kRequired);
  v.field("executor", spec.executor, kRequired);
  v.free_table("engine", spec.engine);
  v.field("workers", spec.workers, range_of(&RunOptions::workers));
  v.field("threads_per_worker", spec.threads_per_worker, {.required = true, .range = kThreadCounts});
  v.field("cpus", spec.cpus, {.range = Range{0, kCpusOfARank.most}});
  v.field("inter_op_threads", spec.inter_op_threads, range_of(&RunOptions::inter_op_threads));
  v.field("decoding_threads", spec.decoding_threads, {.range = Range{0, kThreadCounts.most}});
  v.field("max_bad", spec.max_bad, {.range = run_option(&RunOptions::max_bad).range});
  v.field("oversubscribed", spec.oversubscribed, kRequired);
  v.field("share_host", spec.share_host, kRequired);
  v.field("seed", spec.seed, kRequired);
  v.table("limits", [&] {
    v.field("max_steps", spec.limits.max_steps, limit_of(&RunOptions::max_steps));
    v.field("max_epochs", spec.limits.max_epochs, limit_of(&RunOptions::max_epochs));
    v.field("max_time_s", spec.limits.max_time_s, limit_of(&RunOptions::max_time));
    v.field("light", spec.limits.light, kRequired);
    v.field("to_the_end", spec.limits.to_the_end, kRequired);
  });
  v.table("checkpoint", [&] {
    v.field("every_steps", spec.checkpoint.every_steps, limit_of(&RunOptions::checkpoint_every));
    v.field("every_epoch", spec.checkpoint.every_epoch, kRequired);
    v.field("at_end", spec.checkpoint.at_end, kRequired);
  });
  v.field("comm_timeout_s", spec.comm_timeout_s, range_of(&RunOptions::comm_timeout));
  v.table("communication", [&] {  // absent for a command
    auto& one = spec.communication;
    v.field("wire_dtype", one.wire_dtype);
    v.field("check", one.check);
    v.field("netem", one.netem);
    v.field("algorithm", one.algorithm, {.choices = kAlgorithms});
    v.field("links", one.links, {.range = kLinkCounts});
    v.field("socket_buffer_bytes", one.socket_buffer_bytes, {.range = Range{0, kSocketBuffers.most}});
    v.field("interface", one.network_interface);
  });
  v.field("data_name", spec.data_name, kRequired);
  v.field("data_dirs", spec.data_dirs, kRequired);
  v.field("cache_dir", spec.cache_dir, kRequired);
  v.field("synthetic", spec.synthetic, kRequired);
  v.field("fixed_batch", spec.fixed_batch, kRequired);
  v.field("emulated_step_s", spec.emulated_step_s, {.range = Range{0, kEmulatedSteps.most}});
  v.field("run_dir", spec.run_dir, kRequired);
  v.field("precision", spec.precision, {.required = true, .choices = kPrecisions});
  v.field("device", spec.device, {.required = true, .choices = kDevices});
  v.field("convolution", spec.convolution, {.choices = kConvolutions});
  v.field("profile", spec.profile, {.required = true, .choices = kProfiles});
  v.field("timeline", spec.timeline, kRequired);
}

// The options that are not empty: earlier versions wrote every option of every executor.
Json told(const Json& engine) {
  Json options = Json::object();
  for (const auto& [name, value] : engine.items()) {
    const bool empty = value.is_object() ? told(value).empty()
                                         : value.is_null() || value == Json("") || value == Json(0) ||
                                               value == Json(false) || value == Json::array();
    if (!empty) options[name] = value;
  }
  return options;
}

// Throws UserError where `identity` is no such number: it becomes a part of paths.
void check_identity(const RunSpec& spec, const std::string& file) {
  const auto digit = [](unsigned char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (spec.identity.empty() || (spec.identity.size() == 32 && std::ranges::all_of(spec.identity, digit))) return;
  throw UserError(fmt::format("{}: identity is '{}'; expected 32 hexadecimal digits", file, shortened(spec.identity)));
}

// Reads the task from its canonical form. Throws UserError where two members of a file contradict each other about it.
void read_task_of(RunSpec& spec, const std::string& file) {
  const auto changed = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {}: the file was changed after the run was made", file, what));
  };
  try {
    spec.task.task = task_from_json(spec.task.canonical);
  } catch (const UserError& error) {
    throw UserError(file + ": " + error.what());
  }
  spec.task.open = !std::ranges::all_of(spec.overrides, outside_hash);
  if (!spec.task.open && hash_of(spec.task.canonical) != spec.task.hash) {
    changed(fmt::format("task.hash is {}, but that of its task is {}", spec.task.hash.substr(0, 12),
                        hash_of(spec.task.canonical).substr(0, 12)));
  }
  if (trains(spec) && spec.precision != spec.task.task.precision) {
    changed(fmt::format("precision is {}, but its task's is {}", spec.precision, spec.task.task.precision));
  }
}

}  // namespace

std::string division_of(const RunSpec& spec) {
  if (measures_throughput(spec)) return "throughput";
  if (!is_official(spec.task.hash)) return "own";
  const auto& official = spec.task.task.workers;
  const bool closed = !spec.task.open && !opens(spec.communication) &&
                      std::find(official.begin(), official.end(), spec.workers) != official.end();
  return closed ? "closed" : "open";
}

void set_task(RunSpec& spec, FrozenTask task, std::vector<Override> overrides) {
  spec.task = std::move(task);
  spec.workload = Training{};
  spec.overrides = std::move(overrides);
  spec.precision = spec.task.task.precision;
  spec.division = division_of(spec);
}

void set_command(RunSpec& spec, Command command) {
  MLBENCH_CHECK(!command.words.empty() && !command.words.front().empty(), "a command has a program");
  spec.task = FrozenTask{};
  spec.task.task.name = kCustom;
  spec.task.canonical = {{"command", command.words}};
  spec.task.hash = sha256_hex(canonical_json(spec.task.canonical));
  spec.overrides.clear();
  spec.division = spec.framework = spec.data_name = kCustom;
  spec.workload = std::move(command);
}

void set_collectives(RunSpec& spec, CollectivesSpec collectives) {
  const bool official = deviations_from_task_0a(collectives).empty();
  spec.task = FrozenTask{};
  spec.task.task.name = official ? kTask0a : kBenchmark;
  if (official) spec.task.task.workers.assign(std::begin(kTask0aWorkers), std::end(kTask0aWorkers));
  spec.task.canonical = {{kBenchmark, to_json(collectives)}};
  spec.task.hash = sha256_hex(canonical_json(spec.task.canonical));
  spec.overrides.clear();
  const bool closed = !opens(spec.communication) && std::ranges::count(kTask0aWorkers, spec.workers) > 0;
  spec.division = !official ? "own" : closed ? "closed" : "open";
  spec.framework = spec.data_name = "none";
  spec.workload = std::move(collectives);
}

double cpus_per_worker(const RunSpec& spec) {
  return std::max(spec.cpus, static_cast<double>(spec.threads_per_worker));
}

std::string cpus_text(const RunSpec& spec) {
  return counted(spec.threads_per_worker, "thread") + (spec.cpus > 0 ? fmt::format(" with {} CPUs", spec.cpus) : "");
}

int64_t cores_needed(const RunSpec& spec) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(spec.workers) * cpus_per_worker(spec)));
}

Json to_json(const RunSpec& spec) {
  Json fields;
  FieldWriter writer(fields);
  describe_run(writer, spec);
  if (!uses_worker(spec)) fields.erase("communication");
  Json json = {{"spec_version", kVersion}};
  json.update(fields);
  return json;
}

RunSpec run_spec_from_json(const Json& json, const std::string& file) {
  const auto locate = [&](const std::string&, Part) { return file; };
  if (!json.is_object()) throw UserError(file + ": expected an object, got " + describe_value(json));
  const Json version = json.value("spec_version", Json());
  if (version != kVersion) {
    throw UserError(
        fmt::format("{}: spec_version is {}; this program reads {}", file, describe_value(version), kVersion));
  }
  RunSpec spec;
  FieldReader reader(json, locate, FieldReader::Unknown::kIgnore);
  describe_run(reader, spec);
  reader.finish();
  spec.framework = present_framework(spec.framework);
  spec.engine = told(spec.engine);
  check_identity(spec, file);
  if (!uses_worker(spec)) {
    spec.division = kCustom;
    if (declares_task(spec)) {
      read_task_of(spec, file);
    } else {
      spec.task.task.name = kCustom;
    }
    return spec;
  }
  if (spec.task.canonical.is_object() && spec.task.canonical.contains(kBenchmark)) {
    const std::string hash = spec.task.hash;
    set_collectives(spec, collectives_from_json(spec.task.canonical[kBenchmark], file));
    if (spec.task.hash == hash) return spec;
    throw UserError(
        fmt::format("{}: task.hash is {}, but that of what it measures is {}: the file was changed after the "
                    "run was made",
                    file, hash.substr(0, 12), spec.task.hash.substr(0, 12)));
  }
  read_task_of(spec, file);
  spec.division = division_of(spec);
  return spec;
}

RunSpec read_run_spec(const std::filesystem::path& file) {
  return run_spec_from_json(read_json_file(file, inputs::kSpec), file);
}

}  // namespace mlbench::spec
