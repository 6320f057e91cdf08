#include "mlbench/exec/mpirun/programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "mlbench/base/build_info.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"
#include "mlbench/exec/question.h"

namespace mlbench::exec::mpirun {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kAskPatience{30}, kCopyPatience{900}, kLinkerPatience{20};
constexpr milliseconds kTick{20};
constexpr size_t kIdDigits = 12;

// The shell's program of question_about(). Its arguments are the folder of the build, then pairs of a path and its
// SHA-256.
constexpr const char* kAsk =
    "folder=$1; shift; all=installed; "
    "while [ $# -gt 0 ]; do "
    "[ \"$(sha256sum <\"$1\" 2>/dev/null)\" = \"$2  -\" ] || all=; shift 2; done; "
    "echo $all; if [ -e \"$folder/complete\" ]; then echo copied; fi";

// The shell's program of installation_of(). Its arguments are the folder of the build, and the program whose start is
// tried; "": none.
constexpr const char* kInstall =
    "umask 077; parent=${1%/*}; "
    "mkdir -p \"$parent\" && [ -O \"$parent\" ] && chmod go-w \"$parent\" || "
    "{ echo \"$parent is another user's\" >&2; exit 1; }; "
    "exec 9>\"$parent/programs.lock\" && flock 9 || exit 1; "
    "[ ! -e \"$1/complete\" ] || exit 0; "
    "rm -rf \"$1\" && mkdir \"$1\" && tar -x -C \"$1\" && { [ -z \"$2\" ] || \"$1/$2\" --help >/dev/null; } && : "
    ">\"$1/complete\"";

std::vector<fs::path> all_of(const Programs& programs) {
  std::vector<fs::path> all = {programs.guard};
  if (!programs.worker.empty()) all.push_back(programs.worker);
  return all;
}

// The libraries of a dynamic program, as its loader finds them, that lie below the program's own folder, links
// resolved. All others are the system's.
std::vector<fs::path> own_libraries(const fs::path& program, const fs::path& folder) {
  ProcessOptions options;
  options.arguments = {program.string()};
  options.environment = {{"LD_TRACE_LOADED_OBJECTS", "1"}};
  const ProcessOutput said = run_process(options, kLinkerPatience);
  std::vector<fs::path> libraries;
  std::istringstream lines(said.standard_output);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find("=> "), end = line.rfind(" (");
    if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
    fs::path library = line.substr(begin + 3, end - begin - 3);
    if (library.string().starts_with(folder.string() + "/")) libraries.push_back(std::move(library));
  }
  return libraries;
}

// The libraries in a folder; none where there is no such folder.
std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::vector<fs::path> libraries;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".so") || name.find(".so.") != std::string::npos) libraries.push_back(entry.path());
  }
  return libraries;
}

// Makes links to the programs and their libraries in a folder, laid out as beside the programs, for tar to follow.
void lay_out(const Programs& programs, const fs::path& folder) {
  for (const fs::path& program : all_of(programs)) fs::create_symlink(program, folder / program.filename());
  if (programs.worker.empty()) return;
  const fs::path beside = fs::canonical(programs.worker).parent_path();
  std::vector<fs::path> libraries = own_libraries(programs.worker, beside);
  if (!programs.modules.empty()) {
    for (fs::path& one : libraries_in(beside / programs.modules)) libraries.push_back(std::move(one));
  }
  for (const fs::path& library : libraries) {
    const fs::path there = folder / library.lexically_normal().lexically_relative(beside);
    fs::create_directories(there.parent_path());
    if (!fs::exists(there)) fs::create_symlink(fs::canonical(library), there);
  }
}

class Copy {
 public:
  Copy(const std::vector<std::string>& installation, const fs::path& folder) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw_system_error("cannot make a pipe", errno);
    const FileDescriptor output(ends[0]), input(ends[1]);
    ProcessOptions tar;
    tar.arguments = {"tar", "--create", "--dereference", "--directory", folder.string(), "."};
    tar.standard_output = input.get();
    tar.die_with_parent = true;
    tar_ = ChildProcess::start(tar);
    installation_.emplace(installation, kCopyPatience, output.get());
  }
  ~Copy() {
    installation_.reset();
    if (!tar_->wait(milliseconds(0))) tar_->stop(milliseconds(0));
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  std::optional<Answer> answer(milliseconds timeout) { return installation_->answer(timeout); }

 private:
  std::optional<ChildProcess> tar_;
  std::optional<Question> installation_;
};

bool says(const Answer& answer, const std::string& word) {
  return answer.good() && ("\n" + answer.output).find("\n" + word + "\n") != std::string::npos;
}

class ProgramsStart final : public Start {
 public:
  ProgramsStart(std::vector<std::string> ssh, std::vector<std::string> hosts, Programs programs, fs::path folder,
                std::function<std::unique_ptr<Start>(bool)> launch)
      : ssh_(std::move(ssh)), programs_(std::move(programs)), folder_(std::move(folder)), launch_(std::move(launch)) {
    const std::vector<std::string> question = question_about(programs_, folder_);
    for (std::string& name : hosts) {
      if (std::ranges::find(hosts_, name, &Host::name) != hosts_.end()) continue;
      hosts_.push_back({.name = std::move(name)});
      Host& host = hosts_.back();
      host.question = std::make_unique<Question>(on_host(ssh_, host.name, question), kAskPatience);
    }
  }

  StartStatus poll(milliseconds timeout) override {
    if (!failure_.empty()) return {StartState::kFailed, failure_};
    if (ranks_) return ranks_->poll(timeout);
    const auto deadline = steady_clock::now() + timeout;
    for (;;) {
      look();
      if (!failure_.empty()) return {StartState::kFailed, failure_};
      if (ranks_) return {StartState::kStarting};
      if (steady_clock::now() >= deadline) break;
      std::this_thread::sleep_for(kTick);
    }
    if (!copying_) return {StartState::kStarting, "asks the hosts for their programs"};
    std::vector<std::string> to;
    for (const Host& host : hosts_) {
      if (host.copy) to.push_back(host.name);
    }
    return {StartState::kQueued, fmt::format("copies its programs to {}: {}", fmt::join(to, ", "), folder_.string())};
  }

  std::vector<std::string> notes() override { return ranks_ ? ranks_->notes() : std::vector<std::string>(); }

  std::unique_ptr<RankGroup> take() override {
    MLBENCH_CHECK(ranks_ != nullptr, "only ranks that run can be taken, once");
    return ranks_->take();
  }

 private:
  struct Host {
    std::string name;
    std::unique_ptr<Question> question = nullptr;
    std::optional<Answer> said = {};
    std::unique_ptr<Copy> copy = nullptr;
  };

  void look() {
    for (Host& host : hosts_) {
      if (host.question && !host.said) host.said = host.question->answer(milliseconds(0));
      if (!host.copy) continue;
      const auto answer = host.copy->answer(milliseconds(0));
      if (!answer) continue;
      host.copy.reset();
      if (!answer->good()) return fail(host.name, answer->errors);
    }
    if (std::ranges::any_of(hosts_, [](const Host& host) { return !host.said || host.copy; })) return;
    if (copying_) return begin(true);
    // mpirun does not reach a host that does not answer either, and says why.
    const bool all_answer = std::ranges::all_of(hosts_, [](const Host& host) { return host.said->good(); });
    const bool installed = std::ranges::all_of(hosts_, [](const Host& host) { return says(*host.said, "installed"); });
    if (installed || !all_answer) return begin(false);
    copying_ = true;
    lay_out(programs_, layout_.path());
    for (Host& host : hosts_) {
      if (says(*host.said, "copied")) continue;
      host.copy = std::make_unique<Copy>(on_host(ssh_, host.name, installation_of(programs_, folder_)), layout_.path());
    }
  }

  void begin(bool copied) { ranks_ = launch_(copied); }

  void fail(const std::string& host, const std::string& errors) {
    failure_ = fmt::format(
        "{} cannot be brought to {} on {}: {} (what lies beside it here was copied; the rest is the system's: install "
        "there what it names, or the same package of mlbench)",
        (programs_.worker.empty() ? programs_.guard : programs_.worker).filename().string(), folder_.string(), host,
        errors.empty() ? "it failed without a word" : last_words(errors));
    for (Host& each : hosts_) each.copy.reset();
  }

  const std::vector<std::string> ssh_;
  const Programs programs_;
  const fs::path folder_;
  const std::function<std::unique_ptr<Start>(bool)> launch_;
  const TemporaryFolder layout_;
  std::vector<Host> hosts_;
  bool copying_ = false;
  std::unique_ptr<Start> ranks_;
  std::string failure_;
};

}  // namespace

fs::path folder_of_build(const Programs& programs, const fs::path& scratch) {
  std::string ids;
  for (const fs::path& program : all_of(programs)) {
    const auto id = elf_build_id(program);
    if (!id) throw UserError(program.string() + " is no program with a build id");
    ids += "-" + id->substr(0, kIdDigits);
  }
  return (scratch.empty() ? "/tmp" : scratch) / fmt::format("mlbench-{}", geteuid()) / ("build" + ids);
}

std::vector<std::string> question_about(const Programs& programs, const fs::path& folder) {
  std::vector<std::string> command = {"/bin/sh", "-c", kAsk, "sh", folder.string()};
  for (const fs::path& program : all_of(programs)) {
    command.insert(command.end(), {program.string(), sha256_hex(read_file(program))});
  }
  return command;
}

std::vector<std::string> installation_of(const Programs& programs, const fs::path& folder) {
  return {"/bin/sh", "-c", kInstall, "sh", folder.string(), programs.worker.filename().string()};
}

std::vector<std::string> on_host(const std::vector<std::string>& ssh, const std::string& host,
                                 std::vector<std::string> command) {
  if (is_this_host(host)) return command;
  std::vector<std::string> words = ssh;
  // ssh gives the shell of the host one line.
  words.insert(words.end(), {host, command_line({}, command)});
  return words;
}

std::unique_ptr<Start> start_with_programs(const std::vector<std::string>& ssh, std::vector<std::string> hosts,
                                           const Programs& programs, const fs::path& folder,
                                           std::function<std::unique_ptr<Start>(bool copied)> launch) {
  return std::make_unique<ProgramsStart>(ssh, std::move(hosts), programs, folder, std::move(launch));
}

}  // namespace mlbench::exec::mpirun
