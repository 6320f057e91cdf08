#include "mlbench/worker/session.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <stop_token>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/log.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/comm/kv_store.h"
#include "mlbench/net/sockets.h"
#include "mlbench/record/events.h"

namespace mlbench::worker {

namespace {

using record::EventKind;
using record::make_event;
namespace member = record::member;

constexpr std::chrono::milliseconds kHeartbeat{250};
constexpr std::chrono::milliseconds kWatchdogGrace{1000};
constexpr std::chrono::milliseconds kClockPatience{500};
constexpr int kClockBurst = 20;
constexpr std::chrono::seconds kNamePatience{30};

std::chrono::milliseconds seconds_to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

bool on_loopback(const std::string& address) {
  return address.empty() || address == "localhost" || address == "::1" || address.starts_with("127.");
}

std::string prefix_of(int64_t segment) { return "segment" + std::to_string(segment) + "/"; }

}  // namespace

bool supervised() {
  return environment_variable(variables::kRunId).has_value() && environment_variable(variables::kSecret).has_value();
}

SignalThread::SignalThread(std::function<void()> on_signal)
    : thread_([this, on_signal = std::move(on_signal)] {
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        int received = 0;
        sigwait(&signals, &received);
        if (!closing_) on_signal();
      }) {}

SignalThread::~SignalThread() {
  closing_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // sigwait returns for nothing else
}

Session::Session(const spec::RunSpec& run, int64_t segment, const net::LaunchInfo& launch, track::Recorder& recorder,
                 track::TimelineRecorder* timeline)
    : run_(run), segment_(segment), launch_(launch), recorder_(recorder), timeline_(timeline), signal_thread_([this] {
        end_now(static_cast<int>(ExitCode::kStopped), "stopped");
      }) {
  secret_ = environment_variable(variables::kSecret).value_or("");
  run_id_ = environment_variable(variables::kRunId).value_or(run.name);

  net::KvClientOptions options;
  options.address = launch.master_address.empty() ? "127.0.0.1" : launch.master_address;
  options.port = launch.master_port;
  options.rank = launch.rank;
  options.size = launch.size;
  options.run_id = run_id_;
  options.secret = secret_;
  if (timeline_ != nullptr) options.clock = &timeline_->clock();
  // Processes of one run may start far apart, so joining may take twice the time of a running collective.
  const auto join_timeout = 2 * seconds_to_ms(run.comm_timeout_s);
  options.connect_timeout = join_timeout;
  if (const auto patience = environment_variable(variables::kResumeSeconds)) {
    options.resume_patience = std::chrono::seconds(parse_count(*patience, variables::kResumeSeconds, {0, 3600}));
  }
  // The name of a pod is known some moments after it has started.
  if (!supervised())
    net::wait_for_address(options.address, std::min<std::chrono::milliseconds>(join_timeout, kNamePatience));
  if (!supervised() && launch.rank == 0) {
    server_ = std::make_unique<net::KvServer>(
        net::KvServerOptions{options.address, launch.master_port, launch.size, run_id_, secret_});
    if (launch.size > 1 && secret_.empty()) {
      spdlog::warn("{} is not set: whoever reaches port {} first may join as a rank; give all ranks the same one",
                   variables::kSecret, server_->port());
    }
    options.port = server_->port();
  }
  client_ = std::make_shared<net::KvClient>(options);
  client_->on_lost([this] {
    if (!finished_) end_now(static_cast<int>(ExitCode::kSupervisorLost), "supervisor_lost");
  });
  client_->on_word([this](const Json& word) { hear(word); });
  // All ranks wait for each other here, for a limited time, so that a missing rank is named.
  client_->set(prefix_of(segment_) + "joined/" + std::to_string(launch.rank), "1");
  for (int rank = 0; rank < launch.size; ++rank) {
    client_->get(prefix_of(segment_) + "joined/" + std::to_string(rank), join_timeout);
  }
  sample_clock(kClockBurst);
  pauses_ = Pauses(std::chrono::steady_clock::now());
  watch_thread_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) watch();
  });
}

Session::~Session() {
  finished_ = true;
  watch_thread_.request_stop();
}

comm::CommOptions Session::comm_options() const {
  comm::CommOptions options;
  options.rank = launch_.rank;
  options.size = launch_.size;
  options.local_rank = launch_.local_rank;
  options.store = comm::make_kv_store(client_, prefix_of(segment_) + "comm/");
  options.timeout = seconds_to_ms(run_.comm_timeout_s);
  options.secret = secret_;
  options.run = run_id_ + "/" + prefix_of(segment_);
  options.passive_wait = run_.oversubscribed;
  const std::string& asked = run_.communication.network_interface;
  options.bind_address = asked.empty() ? launch_.interface : asked;
  if (options.bind_address.empty() && !on_loopback(launch_.master_address)) {
    options.bind_address = net::address_towards(launch_.master_address);
  }
  options.algorithm = run_.communication.algorithm;
  options.links = static_cast<int>(run_.communication.links);
  options.socket_buffer_bytes = run_.communication.socket_buffer_bytes;
  return options;
}

void Session::sample_clock(int times) {
  if (timeline_ == nullptr) return;
  try {
    for (int i = 0; i < times; ++i) {
      const net::ServerTime time = client_->server_time(kClockPatience);
      timeline_->clock_sample({time.sent_ns, time.server_ns, time.received_ns});
    }
  } catch (const CommError&) {
    // The answer came too late, or the connection is lost, which on_lost handles.
  }
}

double Session::recent_pause_s() {
  const std::lock_guard lock(pauses_mutex_);
  return pauses_.recent_s(std::chrono::steady_clock::now());
}

void Session::send_heartbeat(const comm::OperationBoard::Entry& entry) {
  const auto in_operation = entry.in_progress ? std::chrono::steady_clock::now() - entry.since : Nanoseconds{0};
  Json status = {{"operation", entry.operation},     {"sequence", entry.sequence},
                 {"in_progress", entry.in_progress}, {"since_s", to_seconds(in_operation)},
                 {"step", progress_.load()},         {"paused_s", recent_pause_s()},
                 {"trains", stop_point_.stands()}};
  if (const auto answer = stop_point_.answer()) status["stop_after"] = *answer;
  try {
    client_->heartbeat(status);
  } catch (const CommError&) {
    // The connection is lost, which on_lost handles.
  }
}

void Session::hear(const Json& word) {
  if (const auto step = integer_of(word.value("stop_after", Json()))) {
    stop_point_.set(*step);
  } else {
    stop_point_.ask();
    send_heartbeat(board_->read());  // the answer; the next heartbeats repeat it
  }
}

void Session::watch() {
  {
    const std::lock_guard lock(pauses_mutex_);
    pauses_.round(std::chrono::steady_clock::now());
  }
  const auto entry = board_->read();
  const auto in_operation = entry.in_progress ? std::chrono::steady_clock::now() - entry.since : Nanoseconds{0};
  send_heartbeat(entry);
  sample_clock(1);
  const auto limit = seconds_to_ms(run_.comm_timeout_s) + kWatchdogGrace;
  if (in_operation > limit && !finished_) {
    report_failure("comm_timeout", std::string(entry.operation) + " #" + std::to_string(entry.sequence) + " of rank " +
                                       std::to_string(launch_.rank) + " has not ended within " +
                                       std::to_string(run_.comm_timeout_s) + " s");
    end_now(static_cast<int>(ExitCode::kCommError), "comm_timeout");
  }
  std::this_thread::sleep_for(kHeartbeat);
}

void Session::end_now(int exit_code, const std::string& reason) {
  if (!ending_.exchange(true)) {
    recorder_.last_word(make_event(EventKind::kEnd, {member::kStep(progress_.load()), member::kReason(reason)}));
    recorder_.flush();
    if (timeline_ != nullptr) timeline_->flush();
    spdlog::error("rank {} ends: {}", launch_.rank, reason);
    // Other threads are inside collectives that may never return: no destructors.
    _exit(exit_code);
  }
  for (;;) pause();
}

void Session::report_failure(const std::string& kind, const std::string& message) {
  const auto entry = board_->read();
  const double paused_s = recent_pause_s();
  Json event = make_event(EventKind::kFailure, {member::kKind(kind), member::kStep(progress_.load()),
                                                member::kOperation(std::string(entry.operation)),
                                                member::kSequenceNumber(entry.sequence), member::kMessage(message)});
  recorder_.last_word(event);
  recorder_.flush();
  event["sequence"] = entry.sequence;
  event["paused_s"] = paused_s;
  event["message"] = reason_of(peer_words::kMessage, message);  // the whole message is in the log and the spool
  try {
    client_->report(event);
  } catch (const CommError& error) {
    spdlog::warn("cannot tell the supervisor: {}", error.what());
  }
}

void Session::finish() {
  if (!finished_.exchange(true)) sample_clock(kClockBurst);
}

}  // namespace mlbench::worker
