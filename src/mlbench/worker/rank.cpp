#include "mlbench/worker/rank.h"

#include <filesystem>
#include <memory>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/json.h"
#include "mlbench/base/log.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/collectives/run.h"
#include "mlbench/comm/wrap/timeline.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/net/launch.h"
#include "mlbench/optim/factory.h"
#include "mlbench/record/build_record.h"
#include "mlbench/record/events.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/track/step_clock.h"
#include "mlbench/track/timeline_recorder.h"
#include "mlbench/train/train.h"
#include "mlbench/worker/failure.h"
#include "mlbench/worker/ingredients.h"
#include "mlbench/worker/session.h"

namespace mlbench::worker {

namespace {

// The train and evaluation time of the segments before this one, in nanoseconds.
int64_t elapsed_before(const spec::RunSpec& run, int64_t segment) {
  std::vector<record::RankSpool> earlier;
  for (int64_t index = 1; index < segment; ++index) earlier.push_back(record::read_spool(run.run_dir, index, 0));
  return record::elapsed_ns(earlier);
}

// Writes the run's record, which rank 0 does where there is no supervisor.
void write_own_record(const spec::RunSpec& run, int64_t segment, const std::string& started_at, int exit_code,
                      double wall_s) {
  record::RunProgress progress;
  progress.state = exit_code == 0 ? record::RunState::kFinished : record::RunState::kFailed;
  progress.started_at = started_at;
  progress.finished_at = format_utc(SystemClock().wall_now());
  progress.wall_s = wall_s;
  record::Segment info;
  info.index = segment;
  info.started_at = started_at;
  info.finished_at = progress.finished_at;
  info.exit_codes.assign(static_cast<size_t>(run.workers), std::nullopt);
  info.exit_codes[0] = exit_code;
  progress.segments.push_back(info);
  progress.hosts.push_back(capture_host(0));
  progress.environment = capture_environment();
  progress.notes.emplace_back("started without a supervisor: only rank 0's exit code is known");
  write_json_file(record_path(run.run_dir), record::to_json(record::build_record(run, progress)), inputs::kRecord);
}

// The instruments with which a rank measures.
struct Instruments {
  const Clock& clock;
  track::Recorder& recorder;
  track::TimelineRecorder* timeline;  // null: the run has none
  track::StepClock preparation;       // the time until the first step
};

// Records the operations of communication in the timeline while the result lives. Null where there is no timeline.
std::unique_ptr<comm::OperationSpans> watch_operations(comm::Communicator& comm, track::TimelineRecorder* timeline) {
  if (timeline == nullptr) return nullptr;
  return std::make_unique<comm::OperationSpans>(comm.board(), *timeline);
}

void train_run(const catalog::WorkerProgram& program, const spec::RunSpec& run, const RankOptions& options,
               const net::LaunchInfo& launch, Session& session, Instruments& with) {
  // These are checked here rather than after an hour of preparing.
  catalog::find_framework(program, run.framework);
  metrics::check_metrics(run.task.task);
  const TimePoint start = with.clock.now();
  const dataset::PreparedDataset data = prepare_data(run);
  Json identity = data.record();
  // Only the data set that the task names is official: a sample of it, or another set of the same shape, is not.
  if (run.data_name != run.task.task.data.name) identity["official"] = false;
  with.recorder.event(record::make_event(
      record::EventKind::kPrepared,
      {record::member::kPrepareS(to_seconds(with.clock.now() - start)), record::member::kData(std::move(identity))}));
  with.preparation.skip(record::SpanKind::kPrepare, "data");

  const auto comm = catalog::make_backend(run.backend, session.comm_options(), session.board(), run.communication);
  with.preparation.skip(record::SpanKind::kPrepare, "connect");
  const auto spans = watch_operations(*comm, with.timeline);
  const optim::CommunicationPlace place =
      place_of_communication(run, launch.local_rank, launch.local_size, catalog::backend_spins(run.backend));
  const int decoding = decoding_threads(run, data, launch.local_size);
  const auto framework = make_framework(program, run, launch.rank, launch.local_rank,
                                        [&comm](size_t bytes) { return comm->allocate(bytes); });
  if (run.profile != "off" && framework->costs().empty()) {
    throw UserError("framework '" + run.framework + "' cannot tell its operations" +
                    " apart here: --profile and --explain are for --framework native, but not its logistic regression");
  }
  const auto optimizer = optim::make_optimizer(run.task.task.optimizer, framework->layout(), *comm,
                                               {run.seed, place, framework->separate_memory()});

  train::TrainContext context{run,
                              *comm,
                              *framework,
                              *optimizer,
                              data,
                              with.recorder,
                              with.clock,
                              options.resume_step,
                              elapsed_before(run, options.segment),
                              &session.progress(),
                              options.wrap_loader,
                              cores_beside_computing(run, launch.local_rank),
                              with.timeline,
                              decoding,
                              nullptr,
                              &session.stop_point()};
  with.preparation.skip(record::SpanKind::kPrepare, "framework");
  const train::TrainResult result = train::train(context);
  session.finish();
  spdlog::info("done after {} steps ({}), weights {}", result.steps, train::name_of(result.reason),
               result.weights_sha256.substr(0, 12));
}

void measure_collectives(const spec::RunSpec& run, const spec::CollectivesSpec& measured, Session& session,
                         Instruments& with) {
  const auto comm = catalog::make_backend(run.backend, session.comm_options(), session.board(), run.communication);
  with.preparation.skip(record::SpanKind::kPrepare, "connect");
  const auto spans = watch_operations(*comm, with.timeline);
  with.recorder.event(
      record::make_event(record::EventKind::kBegin,
                         {record::member::kEffective(Json{{"variables", catalog::backend_variables(run.backend)},
                                                          {"collectives_by", comm->collectives_by()}}),
                          record::member::kVersions(comm->versions()), record::member::kCommStack(comm->description()),
                          record::member::kPeakRss(peak_rss_bytes())}));
  int64_t rows = 0;
  collectives::Sink sink;
  sink.row = [&](const record::CollectiveRow& row) {
    with.recorder.event(
        record::make_event(record::EventKind::kCollective, {record::member::kRow(record::to_json(row))}));
    session.progress().store(++rows, std::memory_order_relaxed);
  };
  sink.pairs = [&](const record::PairMatrix& pairs) {
    with.recorder.event(
        record::make_event(record::EventKind::kPairs, {record::member::kMatrix(record::to_json(pairs))}));
  };
  if (run.device == "cuda") {
    const auto memory = catalog::make_gpu_memory(run.backend, session.comm_options());
    collectives::run(measured, *comm, *memory, with.clock, sink);
  } else {
    collectives::run(measured, *comm, with.clock, sink);
  }
  with.recorder.event(record::make_event(
      record::EventKind::kEnd,
      {record::member::kStep(rows), record::member::kReason("done"), record::member::kPeakRss(peak_rss_bytes())}));
  session.finish();
}

// Reads what this rank is to do, and checks it against the environment. Throws UserError where they disagree.
spec::RunSpec read_run(const RankOptions& options, const net::LaunchInfo& launch) {
  const std::filesystem::path run_dir = std::filesystem::absolute(options.run_dir);
  spec::RunSpec run =
      spec::read_run_spec(options.spec_file.empty() ? spec_path(run_dir) : std::filesystem::path(options.spec_file));
  run.run_dir = run_dir;
  if (launch.size != run.workers) {
    throw UserError("the run has " + std::to_string(run.workers) + " workers, but the environment (" + launch.source +
                    ") says " + std::to_string(launch.size));
  }
  if (launch.size > 1 && launch.master_port == 0) {
    throw UserError("MASTER_PORT is not set: with more than one rank, set MASTER_ADDR and MASTER_PORT");
  }
  return run;
}

}  // namespace

int run_rank(const catalog::WorkerProgram& program, const RankOptions& options) {
  const net::LaunchInfo launch = net::detect_launch(environment_variable);
  set_up_logging("rank " + std::to_string(launch.rank));
  spdlog::info("rank {} of {} (from {})", launch.rank, launch.size, launch.source);
  const spec::RunSpec run = read_run(options, launch);

  const SystemClock system_clock;
  const Clock& clock = options.clock != nullptr ? *options.clock : system_clock;
  const TimePoint start = clock.now();
  const std::string started_at = format_utc(clock.wall_now());
  const track::RecorderOptions spool{.run_dir = run.run_dir,
                                     .run_id = static_cast<uint64_t>(run.id),
                                     .identity = run.identity,
                                     .segment = options.segment,
                                     .rank = launch.rank};
  track::Recorder recorder(spool, clock);
  std::optional<track::TimelineRecorder> timeline;
  if (run.timeline) timeline.emplace(spool, clock);
  track::TimelineRecorder* const wanted = timeline ? &*timeline : nullptr;
  Instruments instruments{clock, recorder, wanted, track::StepClock(clock, wanted)};
  std::optional<Session> session;
  int exit_code = 0;
  try {
    session.emplace(run, options.segment, launch, recorder, wanted);
    instruments.preparation.skip(record::SpanKind::kPrepare, "join");
    if (const spec::CollectivesSpec* measured = spec::collectives_of(run)) {
      measure_collectives(run, *measured, *session, instruments);
    } else {
      train_run(program, run, options, launch, *session, instruments);
    }
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    const std::string kind = kind_of(error), message = message_of(error);
    if (session) {
      session->report_failure(kind, message);
    } else {
      recorder.event(record::make_event(
          record::EventKind::kFailure,
          {record::member::kKind(kind), record::member::kOperation("rendezvous"), record::member::kMessage(message)}));
    }
    exit_code = static_cast<int>(exit_code_of(error));
  }
  if (session) session->finish();
  recorder.close();
  if (timeline) timeline->close();
  if (!supervised() && launch.rank == 0) {
    write_own_record(run, options.segment, started_at, exit_code, to_seconds(clock.now() - start));
  }
  return exit_code;
}

}  // namespace mlbench::worker
