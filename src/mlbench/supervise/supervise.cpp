#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/system_error.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/spec/variables.h"
#include "mlbench/supervise/control.h"
#include "mlbench/supervise/core_lock.h"
#include "mlbench/supervise/culprit.h"
#include "mlbench/supervise/lease.h"
#include "mlbench/supervise/proc.h"
#include "mlbench/supervise/progress.h"
#include "mlbench/supervise/supervisor.h"
#include "mlbench/supervise/traces.h"

namespace mlbench::supervise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kTick{100};
constexpr seconds kLeaseInterval{1};
constexpr seconds kRecordInterval{2};
// A long run's spools take time to read; the supervisor may use this share of one core for it.
constexpr double kRecordShare = 0.01;
// After the first sign of trouble, the true cause has this long to show beside what it did to others.
constexpr seconds kGather{1};
// The same while a rank has closed its connection but not ended yet (a core dump takes a while).
constexpr seconds kGatherDying{5};
// On top of the communication timeout: what ranks get to notice by themselves before the supervisor acts.
constexpr seconds kGrace{3};
constexpr seconds kStopPatience{5};
constexpr seconds kFinalRecordPatience{10};
constexpr int64_t kReservedBytes = 1 << 20;

std::string utc_now() { return format_utc(std::chrono::system_clock::now()); }

std::string make_secret() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) throw_system_error("no random bytes", errno);
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

struct Outcome {
  record::RunState state = record::RunState::kFinished;
  std::optional<record::Failure> failure;
};

Outcome failed(std::string kind, std::string message) {
  record::Failure failure;
  failure.kind = std::move(kind);
  failure.message = std::move(message);
  return {record::RunState::kFailed, failure};
}

Outcome ended_on_request(EndRequest request) {
  if (request == EndRequest::kStop) return {record::RunState::kStopped, std::nullopt};
  return failed("launcher_lost", "the command that started this run disappeared; the run ended with it");
}

// One segment of a run, from the lease to the last record.
class Segment {
 public:
  Segment(const SupervisorOptions& options, exec::Executor& executor)
      : options_(options),
        executor_(executor),
        lease_(take_lease(options.run_dir)),
        control_(options.run_dir, options.attached),
        run_(spec::read_run_spec(options.run_dir / "spec.json")),
        core_path_(options.core_lock.empty() ? default_core_lock() : options.core_lock) {
    run_.run_dir = std::filesystem::absolute(options.run_dir);  // the home may have moved
    load_progress();
    for (const char* folder : {"logs", "spool", "checkpoints"}) {
      std::filesystem::create_directories(options_.run_dir / folder);
    }
    refresh_lease();
    if (!progress_.segments.empty()) {
      // From now on it is active again, for all who look.
      progress_.state = record::RunState::kQueued;
      save();
    }
  }

  int run() {
    Outcome outcome;
    try {
      outcome = queue_and_watch();
    } catch (const DiskFull& error) {
      outcome = failed("disk_full", error.what());
    } catch (const std::exception& error) {
      outcome = failed("supervisor_lost", std::string("the supervisor failed: ") + error.what());
      spdlog::error("{}", outcome.failure->message);
    }
    return finish(outcome);
  }

 private:
  static Lease take_lease(const std::filesystem::path& run_dir) {
    auto lease = Lease::take(run_dir);
    if (!lease)
      throw UserError("run " + run_dir.filename().string() + " is active: another supervisor owns " + run_dir.string());
    return std::move(*lease);
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

  // ---- the phases
  // ----------------------------------------------------------------------------------------------------

  Outcome queue_and_watch() {
    reserve_room();
    if (const auto request = wait_for_cores()) return ended_on_request(*request);
    begin_segment();
    net::KvServerOptions server_options;
    server_options.size = static_cast<int>(run_.workers);
    server_options.run_id = std::to_string(run_.id);
    server_options.secret = make_secret();
    server_.emplace(server_options);
    try {
      group_ = executor_.start(make_request(server_options));
    } catch (const DiskFull&) {
      throw;
    } catch (const IoError& error) {
      return failed("start_failed", error.what());
    } catch (const UserError& error) {
      return failed("start_failed", error.what());
    }
    remember_identities();
    refresh_lease();
    save();
    const Outcome outcome = watch();
    if (group_->running()) {
      group_->stop(kStopPatience);
      for (const exec::RankExit& exit : group_->poll(milliseconds(0)))
        segment().exit_codes[index(exit.rank)] = exit.end.code;
    }
    return outcome;
  }

  std::optional<EndRequest> wait_for_cores() {
    core_lock_ = take_core_lock(core_path_, milliseconds(0));
    if (core_lock_) return std::nullopt;
    if (options_.no_wait) {
      beside_ = show_beside(core_path_);
      progress_.oversubscribed = true;
      progress_.notes.emplace_back("started beside another run that holds the cores (--no-wait)");
      return std::nullopt;
    }

    const auto begin = steady_clock::now();
    progress_.state = record::RunState::kQueued;
    const std::string holder = describe_holder(core_path_);
    progress_.notes.push_back(fmt::format("waits for the cores: another run holds {}{}", core_path_.string(),
                                          holder.empty() ? "" : " (" + holder + ")"));
    save();
    while (!core_lock_) {
      if (const auto request = control_.poll()) return request;
      core_lock_ = take_core_lock(core_path_, 2 * kTick);
      keep_lease_fresh();
    }
    progress_.notes.back() = fmt::format("waited {:.1f} s for the cores", to_seconds(steady_clock::now() - begin));
    return std::nullopt;
  }

  void begin_segment() {
    record::SegmentInfo segment;
    segment.index = progress_.segments.empty() ? 1 : progress_.segments.back().index + 1;
    segment.start_step = options_.resume_step.value_or(0);
    segment.exit_codes.resize(static_cast<size_t>(run_.workers));
    progress_.hosts = Json::array({capture_host(100)});
    progress_.environment = capture_environment();
    const auto now = std::chrono::system_clock::now();
    segment.started_at = format_utc(now);
    if (!progress_.segments.empty()) segment.lost_s = lost_seconds(now);
    if (progress_.started_at.empty()) progress_.started_at = segment.started_at;
    progress_.segments.push_back(std::move(segment));
    progress_.state = record::RunState::kRunning;
    wall_before_ = progress_.wall_s;
    started_ = woke_ = last_tick_ = steady_clock::now();
    ends_.resize(static_cast<size_t>(run_.workers));
    // Before any rank can write under the segment's number: whoever resumes after us is not to use it again.
    write_progress(options_.run_dir, progress_);
  }

  // A full disk leaves no room to say so: this is kept for the last record.
  void reserve_room() const {
    const std::filesystem::path file = reserve_file();
    const FileDescriptor fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) throw_system_error("cannot write " + file.string(), errno);
    if (const int error = posix_fallocate(fd.get(), 0, kReservedBytes); error == ENOSPC || error == EDQUOT) {
      throw_system_error("cannot write " + file.string(), error);
    }
  }

  std::filesystem::path reserve_file() const { return options_.run_dir / "control" / "reserve"; }

  double lost_seconds(std::chrono::system_clock::time_point now) const {
    const record::SegmentInfo& previous = progress_.segments.back();
    auto last = last_trace(run_, previous.index);
    if (!last && !previous.finished_at.empty()) last = parse_utc(previous.finished_at);
    return last ? std::max(0.0, to_seconds(now - *last)) : 0;
  }

  exec::LaunchRequest make_request(const net::KvServerOptions& server) const {
    exec::LaunchRequest request = launch_request(run_, options_.worker, progress_.segments.back().index,
                                                 options_.resume_step, run_.oversubscribed || progress_.oversubscribed);
    if (!options_.guard.empty()) request.guard = options_.guard;
    for (auto& [name, value] : spec::variable_values(run_)) request.environment[name] = std::move(value);
    request.environment["MASTER_ADDR"] = server.bind_address;
    request.environment["MASTER_PORT"] = std::to_string(server_->port());
    request.environment["MLBENCH_RUN_ID"] = server.run_id;
    if (spec::is_custom(run_)) {
      // The rendezvous above is this program's own; a script makes its own at this port.
      request.environment["MASTER_PORT"] = std::to_string(net::free_port());
    } else {
      request.environment["MLBENCH_SECRET"] = server.secret;
    }
    request.inherited = {core_lock_ ? core_lock_->fd() : beside_.get()};
    return request;
  }

  Outcome watch() {
    for (;;) {
      for (const exec::RankExit& exit : group_->poll(kTick)) note_end(exit);
      tick();
      if (const auto request = control_.poll()) return ended_on_request(*request);
      if (auto failure = judge()) {
        if (failure->rank >= 0) failure->log_tail = log_tail(log_of(static_cast<int>(failure->rank)));
        return {record::RunState::kFailed, std::move(failure)};
      }
      if (!group_->running()) return {};
    }
  }

  int finish(const Outcome& outcome) {
    group_.reset();
    core_lock_.reset();
    beside_.reset();
    server_.reset();
    progress_.state = outcome.state;
    progress_.failure = outcome.failure;
    if (progress_.failure) explain_full_disk(*progress_.failure);
    std::error_code ignored;
    std::filesystem::remove(reserve_file(), ignored);
    progress_.finished_at = utc_now();
    if (started_) {
      segment().finished_at = progress_.finished_at;
      progress_.wall_s = wall_before_ + to_seconds(steady_clock::now() - *started_);
    }
    const auto deadline = steady_clock::now() + kFinalRecordPatience;
    while (!save()) {
      if (steady_clock::now() >= deadline) {
        spdlog::error("the record of {} is not complete: its last part could not be written", run_.name);
        return static_cast<int>(ExitCode::kIoError);
      }
      std::this_thread::sleep_for(milliseconds(500));
    }
    switch (outcome.state) {
      case record::RunState::kFinished:
        return static_cast<int>(ExitCode::kOk);
      case record::RunState::kStopped:
        return static_cast<int>(ExitCode::kStopped);
      default:
        return static_cast<int>(ExitCode::kRunFailed);
    }
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
  // -------------------------------------------------------------------------------------

  void note_end(const exec::RankExit& exit) {
    ends_[index(exit.rank)] = Seen{exit.end, ends_seen_++, steady_clock::now(), std::nullopt};
    segment().exit_codes[index(exit.rank)] = exit.end.code;
  }

  std::vector<RankFacts> facts() const {
    const auto now = steady_clock::now();
    const std::vector<net::RankStatus> statuses = server_->ranks();
    const auto pids = group_->pids();
    std::vector<RankFacts> facts(ends_.size());
    for (size_t rank = 0; rank < facts.size(); ++rank) {
      const net::RankStatus& status = statuses[rank];
      RankFacts& fact = facts[rank];
      fact.host = status.host.empty() ? host_name() : status.host;
      if (ends_[rank]) {
        fact.end = ends_[rank]->end;
        fact.end_order = ends_[rank]->order;
      }
      fact.joined = status.joined;
      if (status.heartbeat.is_object()) fact.heartbeat = status.heartbeat;
      fact.report = status.report;
      // Ranks begin to beat when all have joined; and a supervisor that was stopped itself has heard nobody.
      if (all_joined_) fact.heartbeat_age_s = to_seconds(now - std::max({status.last_heartbeat, *all_joined_, woke_}));
      if (pids[rank]) {
        if (const auto process = process_status(*pids[rank])) fact.process_state = process->state;
      }
    }
    return facts;
  }

  // The failure, once there is one and its cause had time to show.
  std::optional<record::Failure> judge() {
    const auto now = steady_clock::now();
    const std::vector<RankFacts> ranks = facts();
    if (auto death = group_->launcher_death()) return failed("start_failed", *death).failure;
    if (spec::is_custom(run_)) return judge_custom(ranks);
    if (!all_joined_ && std::all_of(ranks.begin(), ranks.end(), [](const RankFacts& rank) { return rank.joined; })) {
      all_joined_ = now;
    }
    const bool trouble = std::any_of(ranks.begin(), ranks.end(), [](const RankFacts& rank) {
      return (rank.end && rank.end->code != 0) || reported_failure(rank);
    });
    if (trouble) {
      if (!trouble_) trouble_ = now;
      const auto patience = somebody_is_dying() ? kGatherDying : kGather;
      if (now - *trouble_ >= patience || !group_->running()) return name_culprit(ranks);
      return std::nullopt;
    }
    if (!all_joined_) return never_joined(ranks);
    if (auto failure = left_early(ranks)) return failure;
    const double limit_s = run_.comm_timeout_s + to_seconds(kGrace);
    const bool silence = std::any_of(ranks.begin(), ranks.end(), [&](const RankFacts& rank) {
      return !rank.end && rank.heartbeat_age_s && *rank.heartbeat_age_s > limit_s;
    });
    if (silence) return name_culprit(ranks);
    return std::nullopt;
  }

  // Commands of others have no heartbeat: only how they end can be seen. Their exit codes mean what they like.
  std::optional<record::Failure> judge_custom(const std::vector<RankFacts>& ranks) const {
    const RankFacts* first = nullptr;
    for (const RankFacts& rank : ranks) {
      if (rank.end && rank.end->code != 0 && (first == nullptr || rank.end_order < first->end_order)) first = &rank;
    }
    if (first == nullptr) return std::nullopt;
    record::Failure failure;
    failure.kind = first->end->signal ? "rank_died" : "rank_error";
    failure.rank = first - ranks.data();
    failure.host = first->host;
    failure.message = fmt::format("rank {} on {} {}", failure.rank, failure.host,
                                  first->end->signal ? "was killed by " + signal_name(*first->end->signal)
                                                     : fmt::format("exited with code {}", first->end->code));
    return failure;
  }

  bool somebody_is_dying() const {
    const std::vector<net::RankStatus> statuses = server_->ranks();
    for (size_t rank = 0; rank < statuses.size(); ++rank) {
      if (!ends_[rank] && statuses[rank].joined && !statuses[rank].connected) return true;
    }
    return false;
  }

  std::optional<record::Failure> never_joined(const std::vector<RankFacts>& ranks) const {
    std::vector<size_t> missing;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (!ranks[rank].joined) missing.push_back(rank);
    }
    const bool gone =
        std::all_of(missing.begin(), missing.end(), [&](size_t rank) { return ranks[rank].end.has_value(); });
    if (!gone && steady_clock::now() - *started_ < options_.start_timeout) return std::nullopt;
    record::Failure failure;
    failure.kind = "start_failed";
    failure.rank = static_cast<int64_t>(missing.front());
    failure.host = ranks[missing.front()].host;
    failure.message =
        fmt::format("{} {} on {} {}", missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "), failure.host,
                    gone ? std::string("ended without joining the rendezvous")
                         : fmt::format("did not join the rendezvous within {} s", options_.start_timeout.count()));
    return failure;
  }

  // A rank that ended with code 0 in the middle of its work: at once when all have ended, else when it left the others
  // waiting for longer than they wait for each other.
  std::optional<record::Failure> left_early(const std::vector<RankFacts>& ranks) {
    const auto limit = std::chrono::duration<double>(run_.comm_timeout_s) + kGrace;
    const int64_t segment_index = progress_.segments.back().index;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (!ends_[rank]) continue;
      if (group_->running() && steady_clock::now() - ends_[rank]->when < limit) continue;
      if (!ends_[rank]->complete) ends_[rank]->complete = work_ended(run_, segment_index, static_cast<int64_t>(rank));
      if (*ends_[rank]->complete) continue;
      record::Failure failure;
      failure.kind = "rank_error";
      failure.rank = static_cast<int64_t>(rank);
      failure.host = ranks[rank].host;
      failure.operation = ranks[rank].heartbeat.value("operation", "");
      failure.sequence = integer_of(ranks[rank].heartbeat.value("sequence", Json())).value_or(-1);
      failure.message =
          fmt::format("rank {} on {} ended with exit code 0 before its work was done", rank, failure.host);
      return failure;
    }
    return std::nullopt;
  }

  // ---- upkeep
  // --------------------------------------------------------------------------------------------------------

  void tick() {
    const auto now = steady_clock::now();
    if (now - last_tick_ > kGrace) woke_ = now;
    last_tick_ = now;
    keep_lease_fresh();
    if (now < next_record_) return;
    progress_.wall_s = wall_before_ + to_seconds(now - *started_);
    measure_utilisation(now);
    watch_neighbours();
    save();
    const auto cost = steady_clock::now() - now;
    next_record_ = now + std::max<steady_clock::duration>(
                             kRecordInterval, std::chrono::duration_cast<steady_clock::duration>(cost / kRecordShare));
  }

  void keep_lease_fresh() {
    if (steady_clock::now() >= next_lease_) refresh_lease();
  }

  void refresh_lease() {
    next_lease_ = steady_clock::now() + kLeaseInterval;
    try {
      lease_.refresh(identities_);
    } catch (const IoError& error) {
      complain(error.what());  // the lock itself still says that the run is alive
    }
  }

  void remember_identities() {
    for (const auto& pid : group_->pids()) {
      if (!pid) continue;
      if (const auto process = process_status(*pid)) identities_.push_back({*pid, process->start_time});
    }
  }

  void watch_neighbours() {
    if (progress_.oversubscribed || !core_lock_ || !somebody_beside(core_path_)) return;
    progress_.oversubscribed = true;
    progress_.notes.emplace_back("another run was started beside this one (--no-wait): the cores were shared");
  }

  // Share of the host's cores that the ranks of this segment used so far.
  void measure_utilisation(steady_clock::time_point now) {
    double cpu_s = 0;
    for (const auto& pid : group_->pids()) {
      const auto process = pid ? process_status(*pid) : std::nullopt;
      if (!process) return;  // one is gone: the last complete figure stays
      cpu_s += process->cpu_s;
    }
    progress_.utilisation = {{"cpu", cpu_s / (to_seconds(now - *started_) * available_cores())}, {"gpu", nullptr}};
  }

  // Progress first: whoever finds it complete beside an older record can finish the job.
  bool save() {
    try {
      write_progress(options_.run_dir, progress_);
      write_json_file(options_.run_dir / "run.json", record::build_record(run_, progress_), inputs::kRecord);
      return true;
    } catch (const std::exception& error) {
      complain(fmt::format("cannot write the record of {} (the run goes on, and it is tried again): {}", run_.name,
                           error.what()));
      return false;
    }
  }

  void complain(const std::string& message) {
    if (message != complaint_) spdlog::error("{}", message);
    complaint_ = message;
  }

  record::SegmentInfo& segment() { return progress_.segments.back(); }
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  std::filesystem::path log_of(int rank) const {
    return exec::rank_log_path(options_.run_dir / "logs", progress_.segments.back().index, rank);
  }

  struct Seen {
    ProcessEnd end;
    int64_t order;
    steady_clock::time_point when;
    std::optional<bool> complete;  // whether its spool holds the event `end`; asked at most once
  };

  const SupervisorOptions& options_;
  exec::Executor& executor_;
  Lease lease_;
  Control control_;
  spec::RunSpec run_;
  record::RunProgress progress_;
  std::filesystem::path core_path_;
  std::optional<FileLock> core_lock_;
  FileDescriptor beside_;  // instead of the core lock, with --no-wait
  std::optional<net::KvServer> server_;
  std::unique_ptr<exec::RankGroup> group_;
  std::vector<ProcessIdentity> identities_;
  std::vector<std::optional<Seen>> ends_;  // by the ranks' own doing
  int64_t ends_seen_ = 0;
  double wall_before_ = 0;  // of earlier segments
  std::optional<steady_clock::time_point> started_, all_joined_, trouble_;
  steady_clock::time_point woke_{}, last_tick_{}, next_record_{}, next_lease_{};
  std::string complaint_;
};

}  // namespace

int supervise(const SupervisorOptions& options, exec::Executor& executor) {
  // An attached supervisor shares the terminal with the command, which tells the user what happens.
  if (options.attached && !environment_variable("MLBENCH_LOG")) spdlog::set_level(spdlog::level::err);
  return Segment(options, executor).run();
}

}  // namespace mlbench::supervise
