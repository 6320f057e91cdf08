#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "mlbench/base/environment.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/process.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/evaluate_claim.h"
#include "mlbench/cli/verbs/evaluate_predictions.h"
#include "mlbench/cli/verbs/evaluate_translations.h"
#include "mlbench/cli/verbs/option_flags.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/home/runs.h"
#include "mlbench/plan/plan.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/spec/split.h"
#include "mlbench/supervise/core_lock.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

enum class Kind { kCheckpoint, kWeights, kPredictions };
constexpr std::array<const char*, 3> kKindNames = {"checkpoint", "weights", "predictions"};

constexpr Range kAverageRange{1, 1000};

struct EvaluateOptions {
  std::string input;
  std::string average;   // how many checkpoints to average; "": the input alone
  spec::RunOptions run;  // task, rules, variant, overrides, data, data_dir, synthetic, framework, threads, no_wait
  TranslationFlags translations;
};

// `path`, or the folder of the run in the home where `input` can only be a run's name.
fs::path run_folder_of(const Context& context, const fs::path& path, const std::string& input) {
  const bool is_path = fs::exists(path) || input.find('/') != std::string::npos;
  return is_path ? path : runs_dir(context.home()) / input;
}

bool is_custom_run(const fs::path& run_dir) {
  return fs::exists(spec_path(run_dir)) && !spec::uses_worker(home::read_spec(run_dir));
}

// The newest checkpoint where `path` is a run's folder or `input` a run's name; else `path` as it is.
fs::path newest_checkpoint(const Context& context, const fs::path& path, const std::string& input) {
  const fs::path run_dir = run_folder_of(context, path, input);
  const std::vector<int64_t> steps = checkpoint_steps(run_dir);
  return steps.empty() ? path : checkpoints_dir(run_dir) / checkpoint_name(steps.back());
}

Kind kind_of(const fs::path& input) {
  if (fs::is_directory(input)) {
    if (fs::exists(input / kTensorFile)) return Kind::kCheckpoint;
    std::vector<std::string> steps;
    for (const int64_t step : checkpoint_steps(input)) {
      steps.push_back((checkpoints_dir(input) / checkpoint_name(step)).string());
    }
    throw UserError(fmt::format("{} is no checkpoint: it has no model.safetensors{}", input.string(),
                                steps.empty() ? "" : fmt::format("; it is a run with {}", fmt::join(steps, ", "))));
  }
  if (!fs::exists(input)) {
    throw UserError(
        fmt::format("there is no {}: give a checkpoint folder (RUN/checkpoints/step-N), a .safetensors "
                    "file, or predictions as JSON lines",
                    input.string()));
  }
  return input.extension() == ".safetensors" ? Kind::kWeights : Kind::kPredictions;
}

// ---- what to evaluate by --------------------------------------------------------------------------------------------

// Takes the number of shards and threads from the checkpoint, so that an evaluation gives the training run's own
// figures. A fact that is missing or wrong is left to the worker, which checks the whole checkpoint.
void take_training_facts(spec::RunSpec& run, const fs::path& checkpoint, const spec::RunOptions& given) {
  const Json scalars = [&] {
    try {
      return read_json_file(checkpoint / kStateFile, inputs::kCheckpointState).value("scalars", Json::object());
    } catch (const std::exception&) {
      return Json::object();
    }
  }();
  const auto take = [&](const char* name, int64_t& value, spec::RunOption::Member member) {
    const auto found = scalars.find(name);
    if (found == scalars.end() || !found->is_number_integer()) return;
    if (spec::run_option(member).range.contains(found->get<double>())) found->get_to(value);
  };
  take("train/workers", run.workers, &spec::RunOptions::workers);
  if (given.threads_per_worker.empty()) {
    take("train/threads_per_worker", run.threads_per_worker, &spec::RunOptions::threads_per_worker);
  }
}

// Throws UserError "FLAG WHY" where a choice beside --task is given.
void refuse_choices(const spec::RunOptions& given, const std::string& why) {
  const std::pair<const char*, bool> choices[] = {{"--rules", !given.rules.empty()},
                                                  {"--variant", !given.variant.empty()},
                                                  {"--set", !given.overrides.empty()},
                                                  {"--goal", !given.goal.empty()},
                                                  {"--data", !given.data.empty()}};
  for (const auto& [flag, set] : choices) {
    if (set) throw UserError(fmt::format("{} {}", flag, why));
  }
}

// The specification for the evaluation of `input`: that of --task, or of the run whose checkpoint `input` is.
spec::RunSpec plan_evaluation(const Context& context, const EvaluateOptions& options, const fs::path& input,
                              Kind kind) {
  const spec::RunOptions& given = options.run;
  const fs::path run_dir = input.parent_path().parent_path();
  spec::RunSpec run;
  if (given.task.empty() && kind == Kind::kCheckpoint && fs::exists(spec_path(run_dir))) {
    refuse_choices(given, "is a choice of a task: give --task TASK, too");
    run = home::read_spec(run_dir);
    run.data_dirs = plan::data_dirs(given.data_dir, context.home());
    run.cache_dir = cache_dir_of(context.home());
    run.synthetic = run.synthetic || given.synthetic;
  } else {
    run = plan::plan_task(given, context.home());
  }
  if (!given.framework.empty()) run.framework = given.framework;
  const auto cores = static_cast<int64_t>(std::min<double>(available_cores(), spec::kThreadCounts.most));
  run.cpus = 0;  // no container is started
  run.threads_per_worker = given.threads_per_worker.empty()
                               ? cores
                               : parse_count(given.threads_per_worker, "--threads-per-worker", spec::kThreadCounts);
  if (kind == Kind::kCheckpoint) take_training_facts(run, input, given);
  if (!run.synthetic) dataset::locate(dataset::find_description(run.data_name), run.data_dirs);
  return run;
}

// ---- models, by the worker ------------------------------------------------------------------------------------------

std::optional<supervise::HeldCores> wait_for_cores(bool no_wait) {
  if (no_wait) return std::nullopt;
  supervise::CoreQueue queue(supervise::default_core_lock(), 0);
  auto cores = queue.take(std::chrono::milliseconds(0));
  if (!cores) say("waiting for the cores (a run holds them); --no-wait starts at once");
  while (!cores) cores = queue.take(std::chrono::seconds(60));
  return cores;
}

// Runs the worker and returns its standard output and its end. Its standard error is this process's. Ctrl-C ends both.
std::pair<std::string, ProcessEnd> run_worker(const fs::path& worker, const fs::path& model, int64_t average,
                                              const spec::RunSpec& run) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw_system_error("cannot make a pipe", errno);
  FileDescriptor in_read(in[0]), in_write(in[1]), out_write(out[1]);
  const FileDescriptor out_read(out[0]);
  ProcessOptions options;
  options.arguments = {worker.string(),         "--evaluate", model.string(), "--average",
                       std::to_string(average), "--spec",     "/dev/stdin"};
  options.standard_input = in_read.get();
  options.standard_output = out_write.get();
  options.new_group = false;
  options.die_with_parent = true;
  ChildProcess child = ChildProcess::start(options);
  in_read.reset();
  out_write.reset();
  try {
    write_all(in_write.get(), spec::to_json(run).dump(), "the specification");
  } catch (const IoError&) {
    // The worker has ended already; its exit code and messages say more.
  }
  in_write.reset();
  std::string text;
  for (std::array<char, 4096> buffer;;) {
    const ssize_t n = read(out_read.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_system_error("cannot read from " + worker.string(), errno);
    if (n == 0) break;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  for (;;) {
    if (const auto end = child.wait(std::chrono::seconds(60))) return {text, *end};
  }
}

Json evaluate_model(const Context& context, const fs::path& model, int64_t average, const spec::RunSpec& run,
                    bool no_wait) {
  require_worker(context, run.framework);
  const fs::path worker = context.worker_with(run.framework);
  fs::create_directories(run.cache_dir);
  const auto cores = wait_for_cores(no_wait);
  const auto [text, end] = run_worker(worker, model, average, run);
  Json answer = try_parse_json(text, inputs::kWorkerAnswer).value_or(nullptr);
  if (!answer.is_object()) {
    throw std::runtime_error(
        fmt::format("{} --evaluate gave no answer and ended with exit code {}", worker.string(), end.code));
  }
  const std::string error = answer.value("error", "");
  if (end.code == static_cast<int>(ExitCode::kUserError)) throw UserError(error);
  if (end.code == static_cast<int>(ExitCode::kIoError)) throw IoError(error);
  if (end.code != 0) throw std::runtime_error(fmt::format("{} --evaluate failed: {}", worker.string(), error));
  std::vector<std::string> notes;
  if (answer["trained_for"].is_string() && answer["trained_for"] != run.task.hash) {
    notes.push_back(fmt::format("the checkpoint was trained by another task, rule set or variant (hash {})",
                                answer["trained_for"].get<std::string>().substr(0, 12)));
  }
  if (answer["averaged"].is_array()) {
    notes.push_back(fmt::format("the mean of the checkpoints of steps {}",
                                fmt::join(answer["averaged"].get<std::vector<int64_t>>(), ", ")));
  }
  if (answer["unused"].is_array() && !answer["unused"].empty()) {
    notes.push_back(fmt::format("not used: {}", fmt::join(answer["unused"].get<std::vector<std::string>>(), ", ")));
  }
  answer["notes"] = notes;
  return answer;
}

// ---- the answer -----------------------------------------------------------------------------------------------------

Json goal_json(const spec::GoalSpec& goal, const Json& values) {
  if (goal.metric.empty()) return nullptr;
  Json json = {
      {"metric", goal.metric}, {"split", goal.split}, {"target", goal.target},   {"light_target", goal.light_target},
      {"value", nullptr},      {"reached", nullptr},  {"light_reached", nullptr}};
  const Json value = values.value(goal.metric, Json());
  if (goal.split != spec::kTestSplit || !value.is_number()) return json;
  json["value"] = value;
  json["reached"] = spec::goal_met(goal, false, value.get<double>());
  json["light_reached"] = spec::goal_met(goal, true, value.get<double>());
  return json;
}

std::string answer_text(const Json& answer, bool higher_is_better) {
  std::string task = answer["task"].get<std::string>();
  for (const char* choice : {"rules", "variant"}) {
    if (answer[choice].is_string()) task += " " + answer[choice].get<std::string>();
  }
  const Json& data = answer["data"];
  std::string out = fmt::format("{} of {}: {} test samples of {}{}\n", answer["kind"].get<std::string>(), task,
                                report::format_count(answer["samples"].get<int64_t>()), data["name"].get<std::string>(),
                                data["synthetic"].get<bool>()  ? ", synthetic"
                                : data["official"].get<bool>() ? ""
                                                               : ", not the official records");
  size_t width = 4;
  for (const auto& [name, value] : answer["metrics"].items()) width = std::max(width, name.size());
  for (const auto& [name, value] : answer["metrics"].items()) {
    out += fmt::format("  {:<{}}  {}\n", name, width,
                       value.is_number() ? report::format_metric(value.get<double>()) : std::string(report::kNone));
  }
  if (const Json& goal = answer["goal"]; goal.is_object()) {
    const auto verdict = [](const Json& reached) {
      return reached.is_null() ? "unknown" : reached.get<bool>() ? "reached" : "not reached";
    };
    const char* sign = higher_is_better ? ">=" : "<=";
    out += fmt::format("  {:<{}}  {} {} {:g} {}, light goal {} {:g} {}\n", "goal", width,
                       goal["metric"].get<std::string>(), sign, goal["target"].get<double>(), verdict(goal["reached"]),
                       sign, goal["light_target"].get<double>(), verdict(goal["light_reached"]));
  }
  for (const Json& note : answer["notes"]) out += fmt::format("note: {}\n", note.get<std::string>());
  return out;
}

ExitCode evaluate(const Context& context, const EvaluateOptions& options) {
  if (options.input.empty()) {
    throw UserError(
        "there is nothing to evaluate: give a checkpoint folder, a .safetensors file or predictions with --task TASK, "
        "or --translations FILE --references FILE");
  }
  const fs::path input = fs::absolute(options.input).lexically_normal();
  fs::path path = input.has_filename() ? input : input.parent_path();  // without a trailing slash
  const int64_t average = options.average.empty() ? 1 : parse_count(options.average, "--average", kAverageRange);
  if (const fs::path run_dir = run_folder_of(context, path, options.input); is_custom_run(run_dir)) {
    const std::string why = "is what the run's command declares, or does not: leave it out";
    refuse_choices(options.run, why);
    if (!options.run.task.empty()) throw UserError("--task " + why);
    return evaluate_claim(context, run_dir, options.run);
  }
  if (!options.average.empty()) path = newest_checkpoint(context, path, options.input);
  const Kind kind = kind_of(path);
  if (!options.average.empty() && kind != Kind::kCheckpoint) {
    throw UserError(fmt::format("--average {} is for a run or one of its checkpoints; {} is a file", options.average,
                                path.string()));
  }
  const spec::RunSpec run = plan_evaluation(context, options, path, kind);
  const spec::TaskSpec& task = run.task.task;
  const Json found = kind == Kind::kPredictions ? evaluate_predictions(path, run)
                                                : evaluate_model(context, path, average, run, options.run.no_wait);
  Json overrides = Json::array();
  for (const spec::Override& one : run.overrides) overrides.push_back({{"key", one.key}, {"value", one.value}});
  Json notes = found["notes"];
  if (task.goal.split != spec::kTestSplit) {
    notes.push_back("the goal watches the training split: an evaluation does not tell whether it is met");
  }
  const Json answer = {{"kind", kKindNames[static_cast<size_t>(kind)]},
                       {"path", path.string()},
                       {"task", task.name},
                       {"rules", text_or_null(task.rules)},
                       {"variant", text_or_null(task.variant)},
                       {"overrides", overrides},
                       {"task_hash", run.task.hash},
                       {"data", found["data"]},
                       {"split", spec::kTestSplit},
                       {"samples", found["samples"]},
                       {"metrics", found["metrics"]},
                       {"goal", goal_json(task.goal, found["metrics"])},
                       {"step", found["step"]},
                       {"weights_sha256", found["weights_sha256"]},
                       {"notes", notes}};
  if (context.json) {
    print_json(answer);
  } else {
    print(answer_text(answer, task.goal.higher_is_better));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_evaluate(CLI::App& app, Program& program) {
  CLI::App* verb =
      add_verb(app, program, "evaluate",
               "Metrics of a stored model or of predictions, by the rules of a task; BLEU and chrF of translations");
  auto options = std::make_shared<EvaluateOptions>();
  spec::RunOptions& run = options->run;
  verb->add_option("INPUT", options->input,
                   "a checkpoint folder (RUN/checkpoints/step-N), a .safetensors file, predictions as JSON lines, or a "
                   "run whose command declares a task");
  verb->add_option("--average", options->average,
                   "evaluate the mean of the last N checkpoints: INPUT is a run, or the last one of them")
      ->type_name("N");
  add_run_option(*verb, run, &spec::RunOptions::task,
                 "a name of 'mlbench list tasks', or a task file (default: the checkpoint's run's)");
  for (const auto member : {&spec::RunOptions::rules, &spec::RunOptions::variant}) add_run_option(*verb, run, member);
  add_run_option(*verb, run, &spec::RunOptions::overrides, "override a key of the task (repeatable)");
  add_run_option(*verb, run, &spec::RunOptions::goal, "another goal, METRIC>=VALUE or METRIC<=VALUE");
  for (const auto member : {&spec::RunOptions::data, &spec::RunOptions::data_dir}) add_run_option(*verb, run, member);
  add_run_option(*verb, run, &spec::RunOptions::synthetic);
  add_run_option(*verb, run, &spec::RunOptions::framework);
  add_run_option(*verb, run, &spec::RunOptions::threads_per_worker, "default: the checkpoint's, or all cores");
  add_run_option(*verb, run, &spec::RunOptions::no_wait, "start at once even when a run holds the cores");
  add_translation_options(*verb, options->translations);
  act(*verb, program, [options, verb](const Context& context) {
    const bool texts = are_translations(*verb, options->translations);
    return texts ? evaluate_translations(context, options->translations) : evaluate(context, *options);
  });
}

}  // namespace mlbench::cli
