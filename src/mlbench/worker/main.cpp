// mlbench-worker: one rank of one run.

#include <signal.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/signals.h"
#include "mlbench/base/system_error.h"
#include "mlbench/catalog/worker/catalog.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/models/model.h"
#include "mlbench/net/launch.h"
#include "mlbench/optim/factory.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/train/stored_model.h"
#include "mlbench/train/train.h"
#include "mlbench/worker/session.h"

namespace mlbench::worker {
namespace {

struct Options {
  std::string run_dir;
  std::string spec_file;
  int64_t segment = 1;
  std::optional<int64_t> resume_step;
  std::string evaluate;
  bool catalog = false;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app(
      "One rank of one run; `mlbench run` starts it. By hand: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
      "(or another launcher's variables) say who it is.",
      "mlbench-worker");
  app.add_flag("--catalog", options.catalog, "print what this worker can do as JSON, and exit");
  app.add_option("--run-dir", options.run_dir, "folder of the run");
  app.add_option(
      "--spec", options.spec_file,
      "frozen run specification (default: spec.json of the run folder), as `mlbench run ... --dry-run --json` "
      "prints it");
  app.add_option("--segment", options.segment, "number of this start of the run, from 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  app.add_option("--resume-step", options.resume_step, "checkpoint to start from")->check(CLI::NonNegativeNumber);
  app.add_option("--evaluate", options.evaluate,
                 "evaluate this checkpoint folder or .safetensors file by --spec, print the metrics as JSON, and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    std::exit(app.exit(done));
  } catch (const CLI::ParseError& error) {
    throw UserError(std::string(error.what()) + "; see mlbench-worker --help");
  }
  if (!options.evaluate.empty() && options.spec_file.empty())
    throw UserError("--evaluate needs --spec FILE; see mlbench-worker --help");
  if (!options.catalog && options.evaluate.empty() && options.run_dir.empty())
    throw UserError("--run-dir DIR is missing; see mlbench-worker --help");
  return options;
}

dataset::PreparedDataset prepare_data(const spec::RunSpec& run) {
  const auto& description = dataset::find_description(run.data_name);
  const dataset::Progress log = [](const std::string& line) { spdlog::info("{}", line); };
  if (run.synthetic) return dataset::make_synthetic(description, run.seed, run.cache_dir, log);
  return dataset::prepare(description, run.data_dirs, run.cache_dir, log);
}

int64_t elapsed_before(const spec::RunSpec& run, int64_t segment) {
  std::vector<record::RankSpool> earlier;
  int64_t evaluation_ns = 0;
  for (int64_t index = 1; index < segment; ++index) {
    earlier.push_back(record::read_spool(run.run_dir, index, 0));
    for (const Json& event : earlier.back().events) {
      if (event.value("event", "") == "evaluation") evaluation_ns += event.value("duration_ns", int64_t{0});
    }
  }
  return record::derive_clocks(earlier).train_ns + evaluation_ns;
}

// Without a supervisor rank 0 writes the record itself.
void write_own_record(const spec::RunSpec& run, int64_t segment, const std::string& started_at, int exit_code,
                      double wall_s) {
  record::RunProgress progress;
  progress.state = exit_code == 0 ? record::RunState::kFinished : record::RunState::kFailed;
  progress.started_at = started_at;
  progress.finished_at = format_utc(SystemClock().wall_now());
  progress.wall_s = wall_s;
  record::SegmentInfo info;
  info.index = segment;
  info.started_at = started_at;
  info.finished_at = progress.finished_at;
  info.exit_codes.assign(static_cast<size_t>(run.workers), std::nullopt);
  info.exit_codes[0] = exit_code;
  progress.segments.push_back(info);
  progress.hosts.push_back(capture_host(0));
  progress.environment = capture_environment();
  progress.notes.emplace_back("started without a supervisor: only rank 0's exit code is known");
  write_json_file(std::filesystem::path(run.run_dir) / "run.json", record::build_record(run, progress),
                  inputs::kRecord);
}

// One for each thread of this rank, of those that the supervisor keeps for the run; empty where it keeps none or too
// few.
std::vector<int> cores_of(const spec::RunSpec& run, int local_rank) {
  const auto kept = environment_variable("MLBENCH_CORES");
  if (!kept) return {};
  const Json cores = try_parse_json(*kept, inputs::kCoreList).value_or(nullptr);
  if (!cores.is_array() || !std::ranges::all_of(cores, [](const Json& core) { return core.is_number_unsigned(); })) {
    throw UserError("MLBENCH_CORES is '" + *kept + "', but lists the numbers of cores, as in [0,1]");
  }
  if (std::ssize(cores) < run.workers * run.threads_per_worker) return {};
  const auto first = cores.begin() + local_rank * run.threads_per_worker;
  return {first, first + run.threads_per_worker};
}

std::unique_ptr<framework::Framework> make_framework(const spec::RunSpec& run, int rank, int local_rank) {
  framework::FrameworkOptions options;
  options.model = models::describe_model(run.task.task);
  options.loss = run.task.task.loss;
  options.threads = static_cast<int>(run.threads_per_worker);
  options.cores = cores_of(run, local_rank);
  options.seed = run.seed;
  options.rank = rank;
  options.local_rank = local_rank;
  options.precision = run.precision;
  options.device = run.device;
  return catalog::make_framework(run.framework, options);
}

void train_run(const spec::RunSpec& run, const Options& options, const net::LaunchInfo& launch, Session& session,
               track::Recorder& recorder, const Clock& clock) {
  const TimePoint start = clock.now();
  const dataset::PreparedDataset data = prepare_data(run);
  Json identity = data.record();
  // Official is what the task names: a sample of it or another set of the same shape is not.
  if (run.data_name != run.task.task.data.name) identity["official"] = false;
  recorder.event(
      {{"event", "prepared"}, {"prepare_s", to_seconds(clock.now() - start)}, {"data", std::move(identity)}});

  const auto comm = catalog::make_backend(run.backend, session.comm_options());
  const auto framework = make_framework(run, launch.rank, launch.local_rank);
  if (run.profile != "off" && framework->costs().empty()) {
    throw UserError("framework '" + run.framework + "' cannot tell its operations" +
                    " apart here: --profile and --explain are for --framework onednn, but not its logistic regression");
  }
  const auto optimizer = optim::make_optimizer(run.task.task.optimizer, framework->layout(), *comm);

  train::TrainContext context{run,
                              *comm,
                              *framework,
                              *optimizer,
                              data,
                              recorder,
                              clock,
                              options.resume_step,
                              elapsed_before(run, options.segment),
                              &session.progress()};
  const train::TrainResult result = train::train(context);
  session.finish();
  spdlog::info("done after {} steps ({}), weights {}", result.steps, train::name_of(result.reason),
               result.weights_sha256.substr(0, 12));
}

// LibTorch appends where in its sources it noticed the error; the log keeps that, the record the message alone.
std::string without_backtrace(const std::string& message) {
  return message.substr(0, message.find("\nException raised from"));
}

int run_rank(const Options& options) {
  const net::LaunchInfo launch = net::detect_launch(environment_variable);
  set_up_logging("rank " + std::to_string(launch.rank));
  spdlog::info("rank {} of {} (from {})", launch.rank, launch.size, launch.source);

  const std::filesystem::path run_dir = std::filesystem::absolute(options.run_dir);
  spec::RunSpec run =
      spec::read_run_spec(options.spec_file.empty() ? run_dir / "spec.json" : std::filesystem::path(options.spec_file));
  run.run_dir = run_dir;
  if (launch.size != run.workers) {
    throw UserError("the run has " + std::to_string(run.workers) + " workers, but the environment (" + launch.source +
                    ") says " + std::to_string(launch.size));
  }
  if (launch.size > 1 && launch.master_port == 0) {
    throw UserError("MASTER_PORT is not set: with more than one rank, set MASTER_ADDR and MASTER_PORT");
  }
  std::filesystem::create_directories(run_dir / "spool");

  const SystemClock clock;
  const TimePoint start = clock.now();
  const std::string started_at = format_utc(clock.wall_now());
  track::Recorder recorder(
      {.run_dir = run_dir, .run_id = static_cast<uint64_t>(run.id), .segment = options.segment, .rank = launch.rank},
      clock);
  std::optional<Session> session;
  int exit_code = 0;
  const auto failed = [&](const std::string& kind, const std::exception& error) {
    spdlog::error("{}", error.what());
    const std::string message = without_backtrace(error.what());
    if (session) {
      session->report_failure(kind, message);
    } else {
      recorder.event({{"event", "failure"}, {"kind", kind}, {"operation", "rendezvous"}, {"message", message}});
    }
    exit_code = static_cast<int>(exit_code_of(error));
  };
  try {
    session.emplace(run, options.segment, launch, recorder);
    train_run(run, options, launch, *session, recorder, clock);
  } catch (const CommTimeout& error) {
    failed("comm_timeout", error);
  } catch (const CommError& error) {
    failed("comm_error", error);
  } catch (const DiskFull& error) {
    failed("disk_full", error);
  } catch (const IoError& error) {
    failed("io_error", error);
  } catch (const std::exception& error) {
    failed("rank_error", error);
  }
  if (session) session->finish();
  recorder.close();
  if (!supervised() && launch.rank == 0) {
    write_own_record(run, options.segment, started_at, exit_code, to_seconds(clock.now() - start));
  }
  return exit_code;
}

// One JSON object on standard output: the answer, or {"error": TEXT} with the exit code that belongs to it.
int evaluate(const Options& options) {
  set_up_logging("evaluate");
  Json answer;
  int exit_code = 0;
  try {
    const spec::RunSpec run = spec::read_run_spec(options.spec_file);
    answer =
        train::evaluate_stored(options.evaluate, run, *make_framework(run, 0, 0), [&] { return prepare_data(run); });
  } catch (const std::exception& error) {
    answer = {{"error", without_backtrace(error.what())}};
    exit_code = static_cast<int>(exit_code_of(error));
  }
  std::puts(answer.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  return exit_code;
}

}  // namespace
}  // namespace mlbench::worker

int main(int argc, char** argv) {
  // Before any thread exists, so that all of them leave these signals to the session's own thread.
  mlbench::hold_end_signals();
  mlbench::keep_files_private();
  signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error to report, not a reason to die
  signal(SIGPIPE, SIG_IGN);
  try {
    const mlbench::worker::Options options = mlbench::worker::parse(argc, argv);
    if (options.catalog || !options.evaluate.empty()) mlbench::release_end_signals();
    if (options.catalog) {
      std::puts(mlbench::catalog::describe().dump(2).c_str());
      return 0;
    }
    return options.evaluate.empty() ? mlbench::worker::run_rank(options) : mlbench::worker::evaluate(options);
  } catch (const std::exception& error) {
    spdlog::error("mlbench-worker: {}", error.what());
    return static_cast<int>(mlbench::exit_code_of(error));
  }
}
