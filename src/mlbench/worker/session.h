#pragma once

// The life of a rank among the others: rendezvous, heartbeats, the watchdog over its collectives, and every way to end.
//
// - Four times a second, a heartbeat tells the supervisor what the rank is doing (comm::OperationBoard), how many steps
//   it has done, and how long it did not run just before. A report of a failure tells the last, too.
// - For a timeline, the session compares the rank's clock with the clock of the rendezvous: once with each heartbeat,
//   and 20 times at the beginning and at the end, as the shortest of many round trips tells most.
// - The watchdog ends a rank whose operation lasts longer than the communication timeout plus 1 s, since some back ends
//   cannot time out themselves: the last events go to the spool, the supervisor is told, and the exit code is 3.
// - When the supervisor's end of the connection closes, the spool is flushed, and the exit code is 6. With
//   MLBENCH_RESUME_S, which is set for ranks on other hosts, the rank first tries for that many seconds to connect
//   again.
// - On SIGTERM or SIGINT, the spool is flushed, and the exit code is 130.
// - When the supervisor asks a rank that trains to stop in order, the rank stops after a step on which all ranks agree
//   (train/stop_point.h). Heartbeats say whether the rank trains, and hold its answer.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "mlbench/comm/communicator.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/net/launch.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/track/recorder.h"
#include "mlbench/track/timeline_recorder.h"
#include "mlbench/train/stop_point.h"
#include "mlbench/worker/pauses.h"

namespace mlbench::worker {

// A thread that waits for SIGTERM or SIGINT, and then calls `on_signal`. Precondition: both signals are blocked in
// every thread of the process.
class SignalThread {
 public:
  explicit SignalThread(std::function<void()> on_signal);
  ~SignalThread();

 private:
  std::atomic<bool> closing_{false};
  std::jthread thread_;
};

// Whether a supervisor started this rank, which the run's id and its secret in the environment show.
bool supervised();

class Session {
 public:
  // Joins the rendezvous, and blocks until all ranks are there. Rank 0 serves the rendezvous, too, when there is no
  // supervisor. Throws CommError, naming the missing ranks. `timeline` is null where the run has none. The references
  // must outlive the session.
  Session(const spec::RunSpec& run, int64_t segment, const net::LaunchInfo& launch, track::Recorder& recorder,
          track::TimelineRecorder* timeline);
  ~Session();

  comm::CommOptions comm_options() const;
  // The board for the rank's communicator, which heartbeats and the watchdog read.
  const std::shared_ptr<comm::OperationBoard>& board() const { return board_; }
  std::atomic<int64_t>& progress() { return progress_; }  // steps done, for heartbeats
  train::StopPoint& stop_point() { return stop_point_; }

  // Writes the failure event to the spool, and tells the supervisor.
  void report_failure(const std::string& kind, const std::string& message);
  // From now on, it is no error when the supervisor or a peer goes away.
  void finish();

 private:
  void watch();  // one round of the heartbeat and watchdog thread
  void send_heartbeat(const comm::OperationBoard::Entry& entry);
  void hear(const Json& word);  // of the supervisor
  double recent_pause_s();
  void sample_clock(int times);  // for the timeline, if there is one
  // Flushes the spool, and ends the process without destructors, from any thread.
  [[noreturn]] void end_now(int exit_code, const std::string& reason);

  const spec::RunSpec& run_;
  int64_t segment_;
  net::LaunchInfo launch_;
  track::Recorder& recorder_;
  track::TimelineRecorder* const timeline_;
  std::string run_id_;
  std::string secret_;  // "": the rank was started by hand without a secret
  std::shared_ptr<comm::OperationBoard> board_ = std::make_shared<comm::OperationBoard>();
  std::atomic<int64_t> progress_{0};
  train::StopPoint stop_point_;
  std::atomic<bool> finished_{false};
  std::atomic<bool> ending_{false};
  std::mutex pauses_mutex_;
  Pauses pauses_{std::chrono::steady_clock::now()};
  std::unique_ptr<net::KvServer> server_;
  std::shared_ptr<net::KvClient> client_;
  std::jthread watch_thread_;
  SignalThread signal_thread_;
};

}  // namespace mlbench::worker
