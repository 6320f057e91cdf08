#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process_status.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/temporary_folders.h"
#include "mlbench/exec/horovod.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/net/link/link.h"
#include "mlbench/net/sockets.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/spec/variables.h"
#include "mlbench/supervise/control.h"
#include "mlbench/supervise/core_lock.h"
#include "mlbench/supervise/judge.h"
#include "mlbench/supervise/lease.h"
#include "mlbench/supervise/link_files.h"
#include "mlbench/supervise/orderly_stop.h"
#include "mlbench/supervise/progress.h"
#include "mlbench/supervise/requeue.h"
#include "mlbench/supervise/supervisor.h"
#include "mlbench/supervise/traces.h"
#include "mlbench/supervise/upkeep.h"

namespace mlbench::supervise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kTick{100};
constexpr milliseconds kOrderlyTick{10};  // ranks wait while they agree on their last step
constexpr seconds kStopPatience{5};
constexpr seconds kFinalRecordPatience{10};
// The pause before a run is requeued to a place that may be back soon.
constexpr seconds kRequeuePause{10};

std::string utc_now() { return format_utc(std::chrono::system_clock::now()); }

// Supervises a run from the lease to the last record: one segment, and those for which it is requeued.
class Supervisor {
 public:
  Supervisor(const SupervisorOptions& options, exec::Executor& executor)
      : options_(options),
        executor_(executor),
        lease_(take_lease(options.run_dir)),
        control_(options.run_dir, options.attached),
        run_(read_spec(options.run_dir)),
        upkeep_(run_, progress_, lease_, clock_),
        core_path_(options.core_lock.empty() ? default_core_lock() : options.core_lock),
        resume_step_(options.resume_step),
        requeue_(run_) {
    load_progress();
    create_run_folders(options_.run_dir);
    upkeep_.refresh_lease();
    if (!progress_.segments.empty()) {
      // From now on the run is active again for all observers.
      progress_.state = record::RunState::kQueued;
      upkeep_.save();
    }
  }

  int run() {
    for (;;) {
      const Outcome outcome = run_segment();
      end_segment(outcome);
      const Requeue::Verdict next = requeue_.next(outcome);
      if (!next.note.empty()) progress_.notes.push_back(next.note);
      if (!next.step) return finish(outcome);
      spdlog::error("{}: {}", run_.name, next.note);
      if (const auto request = prepare_segment(next)) return finish(ended_on_request(*request));
    }
  }

 private:
  // ---- the phases

  Outcome run_segment() {
    Outcome outcome;
    try {
      outcome = queue_and_watch();
    } catch (const DiskFull& error) {
      outcome = failed("disk_full", error.what());
    } catch (const std::exception& error) {
      outcome = failed("supervisor_lost", std::string("the supervisor failed: ") + error.what());
      spdlog::error("{}", outcome.failure->message);
    }
    return outcome;
  }

  // Releases what is left of the ranks, and ends the segment's time.
  void end_segment(const Outcome& outcome) {
    const auto usage = group_ ? std::optional(group_->usage()) : std::nullopt;
    group_.reset();
    cores_.reset();
    beside_.reset();
    server_.reset();
    links_.reset();
    remove_unfinished(checkpoints_dir(options_.run_dir));
    if (own_segment_) {
      segment().finished_at = utc_now();
      segment().failure = outcome.failure;
    }
    upkeep_.end_segment(usage);
  }

  // Forgets what holds only for the last segment's ranks. Returns a request to end that came meanwhile.
  std::optional<EndRequest> prepare_segment(const Requeue::Verdict& next) {
    resume_step_ = next.step;
    own_segment_ = false;
    progress_.state = record::RunState::kQueued;
    upkeep_.save();
    const auto until = steady_clock::now() + (next.wait ? kRequeuePause : seconds(0));
    while (steady_clock::now() < until) {
      if (const auto request = control_.poll()) return request;
      upkeep_.keep_lease_fresh();
      std::this_thread::sleep_for(kTick);
    }
    return std::nullopt;
  }

  static Lease take_lease(const std::filesystem::path& run_dir) {
    auto lease = Lease::take(run_dir);
    if (!lease)
      throw UserError("run " + run_dir.filename().string() + " is active: another supervisor owns " + run_dir.string());
    return std::move(*lease);
  }

  static spec::RunSpec read_spec(const std::filesystem::path& run_dir) {
    spec::RunSpec run = spec::read_run_spec(spec_path(run_dir));
    run.run_dir = std::filesystem::absolute(run_dir);  // the home may have been moved
    return run;
  }

  void load_progress() {
    if (auto earlier = read_progress(options_.run_dir)) progress_ = std::move(*earlier);
    if (progress_.segments.empty()) return;
    if (progress_.state == record::RunState::kFinished) {
      throw UserError("run " + run_.name + " is finished: a finished run cannot be resumed");
    }
    if (!options_.resume_step) {
      throw UserError("run " + run_.name + " was started already: continue it with `mlbench resume " + run_.name + "`");
    }
    progress_.failure.reset();
    progress_.finished_at.clear();
  }

  Outcome queue_and_watch() {
    reserve_room(options_.run_dir);
    if (const auto request = wait_for_cores()) return ended_on_request(*request);
    begin_segment();
    net::KvServerOptions server_options;
    server_options.size = static_cast<int>(run_.workers);
    server_options.run_id = std::to_string(run_.id);
    server_options.secret = random_hex(16);
    if (!executor_.on_this_host()) {
      links_.emplace(link_options(run_, progress_.segments.back().index));
      rendezvous_ = executor_.rendezvous(plain_request());
      server_options.bind_address = rendezvous_.bind;
      server_options.take_link = [this](net::ProvedConnection link) { links_->take(std::move(link)); };
    }
    server_.emplace(server_options);
    try {
      if (auto outcome = start_ranks(make_request(server_options))) return *outcome;
    } catch (const DiskFull&) {
      throw;
    } catch (const IoError& error) {
      return failed("start_failed", error.what());
    } catch (const UserError& error) {
      return failed("start_failed", error.what());
    }
    upkeep_.remember(group_->pids());
    upkeep_.refresh_lease();
    upkeep_.save();
    const Outcome outcome = watch();
    if (group_->running()) {
      group_->stop(kStopPatience);
      for (const exec::Observation& seen : group_->poll(milliseconds(0))) note_end(seen);
    }
    note_warnings(*group_);
    return outcome;
  }

  std::optional<EndRequest> wait_for_cores() {
    if (!executor_.on_this_host() && !names_this_host(run_)) return std::nullopt;
    CoreQueue queue(core_path_, run_.share_host ? spec::cores_needed(run_) : 0);
    cores_ = queue.take(milliseconds(0));
    if (cores_) return keep_to_cores();
    if (options_.no_wait) {
      beside_ = show_beside(core_path_);
      progress_.oversubscribed = true;
      progress_.notes.emplace_back("started beside another run that holds the cores (--no-wait)");
      return std::nullopt;
    }

    const std::string holder = describe_holder(core_path_);
    upkeep_.enter_queue(fmt::format("waits for the cores: another run holds {}{}", core_path_.string(),
                                    holder.empty() ? "" : " (" + holder + ")"));
    while (!cores_) {
      if (const auto request = control_.poll()) return request;
      cores_ = queue.take(2 * kTick);
      upkeep_.keep_lease_fresh();
    }
    upkeep_.leave_queue("for the cores");
    return keep_to_cores();
  }

  // A run that shares the host binds this thread to its cores before it starts ranks, so that all that they start is
  // bound.
  std::optional<EndRequest> keep_to_cores() {
    if (!cores_->cores().empty() && !bind_thread(cores_->cores())) {
      progress_.notes.push_back(
          fmt::format("the system does not keep the run to its cores {}", fmt::join(cores_->cores(), ", ")));
    }
    return std::nullopt;
  }

  void begin_segment() {
    record::Segment segment;
    segment.index = progress_.segments.empty() ? 1 : progress_.segments.back().index + 1;
    segment.start_step = resume_step_.value_or(0);
    segment.exit_codes.resize(static_cast<size_t>(run_.workers));
    own_host_ = {host_name(), capture_host(100), capture_environment()};
    progress_.placement = nullptr;
    progress_.allocation = nullptr;
    progress_.hosts = executor_.on_this_host() ? Json::array({own_host_.host}) : Json::array();
    progress_.environment = own_host_.environment;
    progress_.segments.push_back(std::move(segment));
    own_segment_ = true;
    stamp_start();
    // Written before any rank can write under the segment's number: whoever resumes the run must not use it again.
    write_progress(options_.run_dir, progress_);
  }

  // The segment's time counts from now on.
  void stamp_start() {
    const auto now = std::chrono::system_clock::now();
    segment().started_at = format_utc(now);
    if (progress_.segments.size() > 1) segment().lost_s = lost_seconds(run_, progress_.segments.end()[-2], now);
    if (progress_.started_at.empty()) progress_.started_at = segment().started_at;
    progress_.state = record::RunState::kRunning;
    upkeep_.begin_segment();
  }

  // Undoes stamp_start(): the ranks wait in the queue of an engine.
  void take_back_start() {
    if (progress_.started_at == segment().started_at) progress_.started_at.clear();
    segment().started_at.clear();
    upkeep_.withdraw_segment();
  }

  // Starts the ranks and waits until all run (`group_`); returns an outcome where the run ends before. Time in a queue
  // is unlimited: it counts neither as the run's nor toward a limit.
  std::optional<Outcome> start_ranks(const exec::LaunchRequest& request) {
    const std::unique_ptr<exec::Start> start = executor_.start(request);
    const std::string place =
        executor_.on_this_host() ? "for the container engine" : "in the queue of " + executor_.name();
    for (;;) {
      const exec::StartStatus status = start->poll(kTick);
      const bool queued = status.state == exec::StartState::kQueued;
      const std::string note = fmt::format("waits {}{}", place, status.words.empty() ? "" : ": " + status.words);
      if (queued && !upkeep_.is_queued()) {
        take_back_start();
        upkeep_.enter_queue(note);
      } else if (queued && progress_.notes.back() != note) {
        progress_.notes.back() = note;
        upkeep_.count_queue();
        upkeep_.save();
      } else if (!queued && upkeep_.is_queued()) {
        upkeep_.leave_queue(place);
        if (status.state != exec::StartState::kFailed) stamp_start();
        upkeep_.save();
      }
      // Notes are not added while queued, since the last note is then the queue's.
      if (!queued && note_warnings(*start)) upkeep_.save();
      if (status.state == exec::StartState::kFailed) return failed("start_failed", status.words, status.rank);
      if (status.state == exec::StartState::kStarted) break;
      if (const auto end = control_.poll()) return ended_on_request(*end);
      upkeep_.keep_lease_fresh();
      if (queued && upkeep_.record_is_due()) {
        upkeep_.count_queue();
        upkeep_.update_record();
      }
    }
    group_ = start->take();
    const std::vector<exec::Placement> placement = group_->placement();
    progress_.placement = exec::to_json(placement);
    progress_.allocation = group_->allocation();
    progress_.hosts = exec::hosts_of(placement, group_->captures(), own_host_);
    return std::nullopt;
  }

  exec::LaunchRequest plain_request() const {
    return launch_request(run_, executor_, options_.worker, progress_.segments.back().index, resume_step_,
                          run_.oversubscribed || progress_.oversubscribed);
  }

  exec::LaunchRequest make_request(const net::KvServerOptions& server) {
    exec::LaunchRequest request = plain_request();
    if (!options_.guard.empty()) request.guard = options_.guard;
    if (!spec::engine_text(run_.engine, "image").empty()) {  // a folder must exist to be shared with a container
      for (const exec::SharedFolder& folder : request.folders) {
        if (folder.writable) std::filesystem::create_directories(folder.path);
      }
    }
    for (auto& [name, value] : spec::variable_values(run_)) request.environment[name] = std::move(value);
    request.environment[variables::kRunId] = server.run_id;
    request.note_job = [this](const Json& job) {  // for whoever finds the run without its supervisor
      progress_.allocation = job;
      write_progress(options_.run_dir, progress_);
    };
    if (spec::uses_worker(run_)) {
      request.environment["MASTER_ADDR"] = links_ ? rendezvous_.address : server.bind_address;
      request.environment["MASTER_PORT"] = std::to_string(server_->port());
      request.environment[variables::kSecret] = server.secret;
    } else if (executor_.on_this_host()) {
      // The rendezvous above is this program's own; a script makes one of its own, where rank 0 is. On other hosts:
      // exec/linked.h.
      request.environment["MASTER_ADDR"] = server.bind_address;
      request.environment["MASTER_PORT"] = std::to_string(net::free_port());
      exec::add_horovod(request);
    }
    if (executor_.on_this_host()) {
      request.inherited = cores_ ? cores_->descriptors() : std::vector<int>{beside_.get()};
      return request;
    }
    request.environment[variables::kResumeSeconds] = std::to_string(net::kLinkPatience.count());
    request.links.server = &*links_;
    request.links.rendezvous = net::endpoint_text(rendezvous_.address, server_->port());
    request.links.secret = server.secret;
    request.links.folder = run_.run_dir;
    request.links.given = files_to_resume(run_, resume_step_);
    return request;
  }

  Outcome watch() {
    JudgeOptions options = judge_options(run_, progress_.segments.back().index, options_.start_timeout);
    options.verdict_time = group_->verdict_time();
    Judge judge(std::move(options), steady_clock::now());
    for (;;) {
      for (const exec::Observation& seen : group_->poll(kTick)) {
        note_end(seen);
        judge.see(seen, steady_clock::now());
      }
      tick();
      if (const auto error = links_ ? links_->write_error() : nullptr) std::rethrow_exception(error);
      if (const auto request = control_.poll()) return end_as_asked(*request);
      if (auto outcome = judge.judge(look(), steady_clock::now())) {
        if (outcome->failure && outcome->failure->rank >= 0) {
          outcome->failure->log_tail = log_tail(run_, segment().index, outcome->failure->rank);
        }
        return std::move(*outcome);
      }
    }
  }

  // Ends the ranks as asked: where all of them train, after a checkpoint, if they are quick enough; else at once.
  Outcome end_as_asked(EndRequest request) {
    if (request != EndRequest::kStop || !OrderlyStop::possible(server_->ranks())) return ended_on_request(request);
    server_->tell(OrderlyStop::question());
    OrderlyStop stop(steady_clock::now());
    std::string given_up;
    while (group_->running() && (given_up = stop.given_up(steady_clock::now())).empty()) {
      for (const exec::Observation& seen : group_->poll(kOrderlyTick)) {
        note_end(seen);
        const auto* exit = std::get_if<exec::RankExit>(&seen);
        if (exit != nullptr) stop.see(*exit, server_->ranks()[index(exit->rank)]);
      }
      tick();
      const auto again = control_.poll();
      if (again && *again != EndRequest::kStop) break;
      if (const auto word = stop.answer_to(server_->ranks())) server_->tell(*word);
    }
    if (!given_up.empty()) progress_.notes.push_back("stopped without a checkpoint of its last step: " + given_up);
    const bool in_order = std::ranges::count(segment().exit_codes, 0) == run_.workers;
    return in_order && ended_by_itself(run_, segment().index) ? Outcome{} : ended_on_request(request);
  }

  int finish(const Outcome& outcome) {
    progress_.state = outcome.state;
    progress_.failure = outcome.failure;
    if (progress_.failure) explain_full_disk(*progress_.failure);
    release_room(options_.run_dir);
    progress_.finished_at = own_segment_ ? segment().finished_at : utc_now();
    const auto deadline = steady_clock::now() + kFinalRecordPatience;
    while (!upkeep_.save()) {
      if (steady_clock::now() >= deadline) {
        spdlog::error("the record of {} is not complete: its last part could not be written", run_.name);
        return static_cast<int>(ExitCode::kIoError);
      }
      std::this_thread::sleep_for(milliseconds(500));
    }
    return static_cast<int>(exit_code_of(outcome.state));
  }

  void explain_full_disk(record::Failure& failure) {
    if (failure.kind == "disk_full") {
      failure.message += fmt::format("; free space there, then: mlbench resume {}", run_.name);
      return;
    }
    if (!disk_is_full(options_.run_dir)) return;
    progress_.notes.push_back(
        fmt::format("the disk that holds {} was full when the run ended: free space, then: mlbench "
                    "resume {}",
                    options_.run_dir.string(), run_.name));
  }

  // ---- what is seen of the ranks

  void note_end(const exec::Observation& seen) {
    const auto* exit = std::get_if<exec::RankExit>(&seen);
    if (exit != nullptr && !exit->lost) segment().exit_codes[index(exit->rank)] = exit->end.code;
  }

  RunView look() {
    std::vector<net::RankStatus> statuses = server_->ranks();
    const auto pids = group_->pids();
    const auto places = group_->placement();
    RunView view;
    for (size_t rank = 0; rank < statuses.size(); ++rank) {
      const auto process = pids[rank] ? process_status(*pids[rank]) : std::nullopt;
      // Uses the executor's names of hosts, as the record does: a pod has another name for itself.
      statuses[rank].host = places[rank].host;
      view.ranks.push_back({std::move(statuses[rank]), process ? process->state : '?'});
    }
    view.running = group_->running();
    return view;
  }

  // ---- upkeep

  void tick() {
    upkeep_.keep_lease_fresh();
    if (!upkeep_.record_is_due()) return;
    watch_neighbours();
    note_warnings(*group_);
    upkeep_.update_record(group_->usage());
  }

  void watch_neighbours() {
    if (progress_.oversubscribed || !cores_ || !somebody_beside(core_path_)) return;
    progress_.oversubscribed = true;
    progress_.notes.emplace_back("another run was started beside this one (--no-wait): the cores were shared");
  }

  // Adds the notes of the engine (exec::Start or exec::RankGroup) to the progress; returns whether there were any.
  template <typename Ranks>
  bool note_warnings(Ranks& ranks) {
    const std::vector<std::string> notes = ranks.notes();
    progress_.notes.insert(progress_.notes.end(), notes.begin(), notes.end());
    return !notes.empty();
  }

  record::Segment& segment() { return progress_.segments.back(); }
  static size_t index(int rank) { return static_cast<size_t>(rank); }

  const SupervisorOptions& options_;
  exec::Executor& executor_;
  const SystemClock clock_;
  Lease lease_;
  Control control_;
  spec::RunSpec run_;
  record::RunProgress progress_;
  Upkeep upkeep_;
  std::filesystem::path core_path_;
  std::optional<HeldCores> cores_;        // cores of this host
  FileDescriptor beside_;                 // with --no-wait, in place of `cores_`
  std::optional<net::LinkServer> links_;  // links to ranks on other hosts
  exec::Rendezvous rendezvous_;           // the rendezvous of ranks on other hosts
  std::optional<net::KvServer> server_;
  std::unique_ptr<exec::RankGroup> group_;
  exec::HostCapture own_host_;          // the host of this process
  bool own_segment_ = false;            // whether this process began the last segment
  std::optional<int64_t> resume_step_;  // checkpoint that the segment starts from
  Requeue requeue_;
};

}  // namespace

int supervise(const SupervisorOptions& options, exec::Executor& executor) {
  // An attached supervisor shares the terminal with the command, which tells the user what happens.
  if (options.attached && !environment_variable(variables::kLog)) spdlog::set_level(spdlog::level::err);
  return Supervisor(options, executor).run();
}

}  // namespace mlbench::supervise
