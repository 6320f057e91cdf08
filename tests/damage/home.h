#pragma once

// A home with runs that nobody watches any more, for tests that then damage their files.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/runs.h"
#include "mlbench/record/step_format.h"
#include "mlbench/record/tracker_lines.h"
#include "mlbench/spec/task.h"

namespace mlbench::test {

inline std::string repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void put(const std::filesystem::path& file, std::string_view content) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

// What a script and a rank would have recorded.
inline std::string good_tracker_lines() {
  return R"({"sequence": 1, "time": 1767225600, "step": 10, "epoch": 0, "values": {"train_loss": 0.5}})"
         "\n"
         R"({"sequence": 2, "time": 1767225601, "step": 20, "epoch": 1, "values": {"val_global_Prec@1": 81}})"
         "\n";
}
inline std::string good_events() {
  return R"({"event": "begin", "sequence": 0, "end_ns": 1, "step": 0, "parameters": 10})"
         "\n"
         R"({"event": "evaluation", "sequence": 1, "end_ns": 9, "step": 2, "split": "test", "metrics": {"Prec@1": 80}})"
         "\n";
}
inline std::string good_steps(const std::string& identity) {
  record::SpoolHeader header;
  header.identity = identity;
  std::string bytes = record::encode_header(header);
  for (uint64_t i = 0; i < 2; ++i) {
    record::StepRecord record;
    record.sequence = record.first_step = i;
    record.count = 1;
    record.samples = 10;
    record.loss_sum = 5;
    record.end_ns = record.kinds_ns[0] = 1'000'000;
    record::append_record(bytes, record);
  }
  return bytes;
}

// A run whose supervisor was lost: `command` makes it a custom one.
inline std::filesystem::path make_lost_run(const std::filesystem::path& home, const std::string& name,
                                           const std::vector<std::string>& command) {
  spec::RunSpec run;
  run.name = name;
  run.cache_dir = home / "cache";
  if (command.empty()) {
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
  } else {
    spec::set_command(run, {command});
  }
  const std::string identity = home::create_run(home, run, std::nullopt).identity;
  const std::filesystem::path folder = home / "runs" / name;
  Json record = Json::parse(content_of(folder / "run.json"));
  record["state"] = "running";
  record["created_at"] = "2026-01-01T00:00:00.000000Z";
  put(folder / "run.json", record.dump(2));
  if (command.empty()) {
    put(steps_path(folder, 1, 0), good_steps(identity));
    put(events_path(folder, 1, 0), good_events());
  } else {
    put(tracker_lines_path(folder, 0), good_tracker_lines());
  }
  return folder;
}

// A second run of the same content, with an id of its own.
inline std::filesystem::path copy_run(const std::filesystem::path& run, const std::string& name) {
  static int64_t id = 1000;
  ++id;
  const std::filesystem::path copy = run.parent_path() / name;
  std::filesystem::copy(run, copy, std::filesystem::copy_options::recursive);
  for (const char* file : {"spec.json", "run.json"}) {
    Json json = Json::parse(content_of(copy / file));
    json["name"] = name;
    json["id"] = id;
    put(copy / file, json.dump(2));
  }
  return copy;
}

struct ChildEnd {
  int status = -1;  // of waitpid
  bool in_time = true;
  int64_t peak_rss_bytes = 0;
  std::string output;

  bool crashed() const { return in_time && !WIFEXITED(status); }
  int code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
};

// Runs body() in a process of its own, which writes its output to `log`. It is ended when it takes `patience` of a
// core's time, or ten times as long on a busy machine.
template <typename Body>
ChildEnd run_child(const std::filesystem::path& log, std::chrono::seconds patience, const Body& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const auto seconds = static_cast<rlim_t>(patience.count());
    const rlimit limit{seconds, seconds + 1};
    setrlimit(RLIMIT_CPU, &limit);
    if (std::freopen(log.c_str(), "w", stdout) == nullptr || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(99);
    _exit(body());
  }
  ChildEnd end;
  rusage usage{};
  const auto deadline = std::chrono::steady_clock::now() + 10 * patience;
  while (wait4(child, &end.status, WNOHANG, &usage) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      end.in_time = false;
      kill(child, SIGKILL);
      wait4(child, &end.status, 0, &usage);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  end.peak_rss_bytes = int64_t{usage.ru_maxrss} * 1024;
  end.output = content_of(log);
  return end;
}

inline ChildEnd run_program(const std::filesystem::path& log, std::chrono::seconds patience,
                            std::vector<std::string> arguments) {
  return run_child(log, patience, [&] {
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    execv(words[0], words.data());
    return 98;
  });
}

}  // namespace mlbench::test
