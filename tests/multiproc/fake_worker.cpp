// A rank that does nothing but what a supervisor sees of one: joins the rendezvous, heartbeats, "communicates" once per
// step through the key-value store, appends to its spool, exits as a worker does. Told by the environment:
//   FAKE_STEPS=n       steps to do (default 20)
//   FAKE_STEP_MS=n     how long one takes (default 10)
//   FAKE_CHECKPOINT=n  rank 0 writes one each n steps (default: none); ranks that resume want theirs
//   FAKE_TRAINS=1      says that it trains, and so stops in order when it is asked; rank 0 writes a checkpoint then
//   FAKE_FAULT=RANK:STEP:WHAT[:NUMBER]
//       exit:CODE      ends with that code           kill:SIGNAL   sends itself the signal
//       error          reports an error of its own, ends with code 4 (disk_full: that error)
//       hang           stops before it communicates, heartbeats go on
//       no_join        never joins (STEP is ignored)
//       ignore_term    goes on, deaf to SIGTERM
//       silent         gives no answer when it is asked to stop
//       full           cannot write the checkpoint when it stops: an error of its own
//       outlive        goes on (without communication) when the supervisor is lost
//       wrong:COUNT    of a benchmark of collectives: so many wrong elements in the row of that step
// In a benchmark of collectives rank 0 has a row for each step.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/record/collectives.h"
#include "mlbench/record/events.h"
#include "mlbench/record/step_format.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench {
namespace {

using namespace std::chrono_literals;

int64_t number_from_environment(const char* name, int64_t otherwise) {
  const auto text = environment_variable(name);
  return text ? std::stoll(*text) : otherwise;
}

struct Fault {
  int64_t step = -1;
  std::string what;
  int number = 0;
};

Fault fault_of(int rank) {
  std::istringstream text(environment_variable("FAKE_FAULT").value_or("-1:-1:none"));
  int who = -1;
  char colon = 0;
  Fault fault;
  text >> who >> colon >> fault.step >> colon;
  std::getline(text, fault.what, ':');
  text >> fault.number;
  return who == rank ? fault : Fault();
}

class Spool {
 public:
  Spool(const std::filesystem::path& run_dir, const spec::RunSpec& run, int64_t segment, int rank)
      : steps_(steps_path(run_dir, segment, rank), std::ios::binary), events_(events_path(run_dir, segment, rank)) {
    record::SpoolHeader header;
    header.run_id = static_cast<uint64_t>(run.id);
    header.identity = run.identity;
    header.segment = static_cast<uint32_t>(segment);
    header.rank = static_cast<uint32_t>(rank);
    header.start_wall_us =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    write(record::encode_header(header));
  }

  void step(uint64_t number, std::chrono::nanoseconds took) {
    record::StepRecord record;
    record.sequence = records_++;
    record.first_step = number;
    record.count = 1;
    record.samples = 100;
    record.end_ns = since_start();
    record.kinds_ns[static_cast<size_t>(record::StepKind::kBackward)] = took.count();
    std::string bytes;
    record::append_record(bytes, record);
    write(bytes);
  }

  void event(Json event) {
    const std::lock_guard lock(mutex_);
    event["sequence"] = sequence_++;
    event["end_ns"] = since_start();
    events_ << event.dump() << std::endl;
  }

 private:
  void write(const std::string& bytes) { steps_ << bytes << std::flush; }
  int64_t since_start() const { return (std::chrono::steady_clock::now() - start_).count(); }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::ofstream steps_, events_;
  std::mutex mutex_;
  int64_t sequence_ = 0;  // of events
  uint64_t records_ = 0;
};

// As train/stop_point.h, which is of the other plane.
class StopPoint {
 public:
  bool reached(int64_t step) {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return !answer_ || step < *answer_ || stop_after_; });
    begun_ = step + 1;
    return stop_after_ && step >= *stop_after_;
  }
  void hear(const Json& word) {
    const std::lock_guard lock(mutex_);
    if (word.contains("stop_after")) {
      stop_after_ = word["stop_after"].get<int64_t>();
    } else if (!answer_) {
      answer_ = begun_;
    }
    told_.notify_all();
  }
  std::optional<int64_t> answer() {
    const std::lock_guard lock(mutex_);
    return answer_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  int64_t begun_ = 0;
  std::optional<int64_t> answer_, stop_after_;
};

struct Arguments {
  std::filesystem::path run_dir;
  int64_t segment = 1;
  int64_t start_step = 0;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--run-dir") arguments.run_dir = argv[i + 1];
    if (name == "--segment") arguments.segment = std::stoll(argv[i + 1]);
    if (name == "--resume-step") arguments.start_step = std::stoll(argv[i + 1]);
  }
  return arguments;
}

std::filesystem::path checkpoint_of(const Arguments& arguments, int64_t step) {
  return arguments.run_dir / "checkpoints" / fmt::format("step-{:09}", step);
}

void write_checkpoint(const Arguments& arguments, int64_t step) {
  const std::filesystem::path made = arguments.run_dir / "checkpoints" / ".tmp-fake";
  std::filesystem::create_directories(made);
  write_file_atomically(made / "model.safetensors", std::string(2'000'000, static_cast<char>('a' + step % 26)));
  write_file_atomically(made / "state.json", std::to_string(step));
  replace_directory(made, checkpoint_of(arguments, step));
}

int run(const Arguments& arguments) {
  const auto rank = static_cast<int>(number_from_environment("RANK", -1));
  const auto size = static_cast<int>(number_from_environment("WORLD_SIZE", -1));
  const auto run = spec::run_spec_from_json(read_json_file(arguments.run_dir / "spec.json"));
  const Fault fault = fault_of(rank);
  std::cerr << "fake worker, rank " << rank << " of " << size << std::endl;
  if (arguments.start_step > 0 && environment_variable("FAKE_CHECKPOINT")) {
    const auto checkpoint = checkpoint_of(arguments, arguments.start_step);
    if (read_file(checkpoint / "state.json") != std::to_string(arguments.start_step) ||
        read_file(checkpoint / "model.safetensors").size() != 2'000'000) {
      throw UserError(checkpoint.string() + " is none");
    }
    std::cerr << "goes on from step " << arguments.start_step << std::endl;
  }
  if (fault.what == "no_join") pause();
  if (fault.what == "ignore_term") signal(SIGTERM, SIG_IGN);

  Spool spool(arguments.run_dir, run, arguments.segment, rank);
  net::KvClientOptions options;
  options.address = environment_variable("MASTER_ADDR").value();
  options.port = static_cast<int>(number_from_environment("MASTER_PORT", 0));
  options.rank = rank;
  options.size = size;
  options.run_id = environment_variable("MLBENCH_RUN_ID").value();
  options.secret = environment_variable("MLBENCH_SECRET").value();
  options.resume_patience = std::chrono::seconds(number_from_environment("MLBENCH_RESUME_S", 0));
  net::KvClient client(options);
  std::atomic<bool> finished = false;
  client.on_lost([&] {
    if (finished || fault.what == "outlive") return;
    spool.event({{"event", "failure"}, {"kind", "supervisor_lost"}, {"step", 0}});
    _exit(static_cast<int>(ExitCode::kSupervisorLost));
  });

  std::atomic<int64_t> sequence = 0, step = arguments.start_step;
  std::atomic<bool> in_progress = false;
  const bool trains = environment_variable("FAKE_TRAINS").has_value();
  StopPoint stop_point;
  const auto heartbeat = [&] {
    Json status = {{"operation", sequence > 0 ? "all_reduce" : ""},
                   {"sequence", sequence.load()},
                   {"in_progress", in_progress.load()},
                   {"since_s", 0.0},
                   {"step", step.load()},
                   {"trains", trains}};
    if (const auto answer = stop_point.answer(); answer && fault.what != "silent") status["stop_after"] = *answer;
    client.heartbeat(status);
  };
  client.on_word([&](const Json& word) {
    stop_point.hear(word);
    heartbeat();
  });
  std::jthread heartbeats([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      heartbeat();
      std::this_thread::sleep_for(200ms);
    }
  });

  const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(run.comm_timeout_s * 1000));
  const auto report_failure = [&](const std::string& kind, const std::string& message) {
    const Json failure = {{"event", "failure"},
                          {"kind", kind},
                          {"operation", "all_reduce"},
                          {"sequence", sequence.load()},
                          {"message", message}};
    spool.event(failure);
    client.report(failure);
  };
  const auto meet = [&](const std::string& what) {
    const std::string prefix = fmt::format("{}/{}/", arguments.segment, what);
    client.set(prefix + std::to_string(rank), "");
    for (int other = 0; other < size; ++other) client.get(prefix + std::to_string(other), timeout);
  };

  spool.event({{"event", "begin"},
               {"parameters", 10},
               {"effective", Json::object()},
               {"comm_stack", "fake"},
               {"start_step", arguments.start_step},
               {"versions", {{"fake_library", "1.2"}}},
               {"step", 0}});
  const auto write_row = [&](int64_t wrong) {
    record::CollectiveRow row;
    row.operation = "all_reduce";
    row.dtype = "float32";
    row.reduction = "sum";
    row.count = step + 1;
    row.size_bytes = 4 * row.count;
    record::CollectiveForm& form = row.in_place.emplace();
    form.time_us = 10;
    form.alg_bw = 1;
    form.bus_bw = 1;
    form.wrong = wrong;
    spool.event(record::make_event(record::EventKind::kCollective, {record::member::kRow(record::to_json(row))}));
  };
  const int64_t steps = number_from_environment("FAKE_STEPS", 20);
  const int64_t checkpoint_every = number_from_environment("FAKE_CHECKPOINT", steps + 1);
  const std::chrono::milliseconds step_time(number_from_environment("FAKE_STEP_MS", 10));
  try {
    while (step < steps) {
      if (stop_point.reached(step)) {
        if (rank == 0 && fault.what == "full") {
          report_failure("disk_full", "cannot write the checkpoint: No space left on device");
          return static_cast<int>(ExitCode::kIoError);
        }
        if (rank == 0) write_checkpoint(arguments, step);
        meet("stop");
        spool.event({{"event", "end"}, {"reason", "stopped"}, {"step", step.load()}});
        finished = true;
        return 0;
      }
      const auto begin = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(step_time);
      if (step == fault.step) {
        if (fault.what == "exit") _exit(fault.number);
        if (fault.what == "kill") raise(fault.number);
        if (fault.what == "error" || fault.what == "disk_full") {
          report_failure(fault.what == "error" ? "io_error" : "disk_full",
                         "cannot write the spool: No space left on device");
          return static_cast<int>(ExitCode::kIoError);
        }
        if (fault.what == "hang") pause();
      }
      in_progress = true;
      ++sequence;
      meet("step/" + std::to_string(step));
      in_progress = false;
      spool.step(static_cast<uint64_t>(step), std::chrono::steady_clock::now() - begin);
      if (spec::collectives_of(run) != nullptr && rank == 0)
        write_row(fault.what == "wrong" && step == fault.step ? fault.number : 0);
      ++step;
      if (rank == 0 && step % checkpoint_every == 0) write_checkpoint(arguments, step);
    }
  } catch (const CommTimeout&) {
    report_failure("comm_timeout",
                   fmt::format("all_reduce #{} took longer than {} s", sequence.load(), run.comm_timeout_s));
    return static_cast<int>(ExitCode::kCommError);
  } catch (const CommError&) {
    while (fault.what == "outlive") pause();
    throw;
  }
  spool.event({{"event", "end"},
               {"reason", "max_steps"},
               {"weights_sha256", std::string(64, 'a')},
               {"samples", 100 * steps},
               {"step", steps}});
  finished = true;
  return 0;
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  mlbench::keep_files_private();
  try {
    return mlbench::run(mlbench::parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "fake worker: " << error.what() << std::endl;
    return static_cast<int>(mlbench::exit_code_of(error));
  }
}
