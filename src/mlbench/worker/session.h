#pragma once

// How a rank lives among the others: rendezvous, heartbeats, the watchdog over its collectives, and every way to end.
//
// - Four times a second a heartbeat tells what the rank is doing (comm::OperationBoard) and how many steps it has done.
// - For a timeline it compares the rank's clock with that of the rendezvous: with each heartbeat once, at the beginning
//   and at the end 20 times, as the shortest of many round trips tells most.
// - The watchdog ends a rank whose operation lasts longer than the communication timeout plus 1 s (a back end that
//   cannot time out by itself): last event to the spool, word to the supervisor, exit 3.
// - The supervisor's end of the connection closes: spool flushed, exit 6. With MLBENCH_RESUME_S, which is set for ranks
//   of other hosts, the connection is tried again for so many seconds before that.
// - SIGTERM or SIGINT: spool flushed, exit 130.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "mlbench/comm/communicator.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/net/launch.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/track/recorder.h"
#include "mlbench/track/timeline_recorder.h"

namespace mlbench::worker {

// Waits for SIGTERM and SIGINT on a thread of its own; both must be blocked in every thread of the process.
class SignalThread {
 public:
  explicit SignalThread(std::function<void()> on_signal);
  ~SignalThread();

 private:
  std::atomic<bool> closing_{false};
  std::jthread thread_;
};

// Whether a supervisor started this rank (it leaves the run's id and its secret in the environment).
bool supervised();

class Session {
 public:
  // Joins the rendezvous (serves it, too, when started without a supervisor and rank is 0); blocks until all ranks are
  // there. CommError naming the missing ranks. `timeline`: null where the run has none.
  Session(const spec::RunSpec& run, int64_t segment, const net::LaunchInfo& launch, track::Recorder& recorder,
          track::TimelineRecorder* timeline);
  ~Session();

  comm::CommOptions comm_options() const;
  // What heartbeats and the watchdog read: for the rank's communicator.
  const std::shared_ptr<comm::OperationBoard>& board() const { return board_; }
  std::atomic<int64_t>& progress() { return progress_; }

  // Writes the failure event and tells the supervisor.
  void report_failure(const std::string& kind, const std::string& message);
  // From here on, a vanishing supervisor or peer is no error.
  void finish();

 private:
  void watch();  // heartbeat and watchdog thread
  void sample_clock(int times);
  [[noreturn]] void end_now(int exit_code, const std::string& reason);

  const spec::RunSpec& run_;
  int64_t segment_;
  net::LaunchInfo launch_;
  track::Recorder& recorder_;
  track::TimelineRecorder* const timeline_;
  std::string run_id_;
  std::string secret_;  // "": started by hand without one
  std::shared_ptr<comm::OperationBoard> board_ = std::make_shared<comm::OperationBoard>();
  std::atomic<int64_t> progress_{0};
  std::atomic<bool> finished_{false};
  std::atomic<bool> ending_{false};
  std::unique_ptr<net::KvServer> server_;
  std::shared_ptr<net::KvClient> client_;
  std::jthread watch_thread_;
  SignalThread signal_thread_;
};

}  // namespace mlbench::worker
