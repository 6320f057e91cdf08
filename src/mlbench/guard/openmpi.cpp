#include "mlbench/guard/openmpi.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/text.h"
#include "mlbench/guard/descendants.h"

namespace mlbench::guard {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long programs have to end. Once its ranks have ended, mpirun ends its daemons, and both remove what they left in
// the temporary folder.
constexpr milliseconds kProgramsEnd{1500};
constexpr milliseconds kProgramsSweep{5000};
constexpr size_t kLastBytes = 2000;

std::string how_it_ended(const ProcessEnd& end) {
  if (!end.signal) return fmt::format("ended with code {}", end.code);
  return fmt::format("was killed by signal {} (SIG{})", *end.signal, sigabbrev_np(*end.signal));
}

void tell_guard(Channel& guard, const std::string& word, const std::string& text) {
  // A longer message would be cut.
  if (word.size() + text.size() + 1 > kMostMessageBytes) {
    throw IoError(
        fmt::format("{} bytes for the guard beside this process, which takes {}", text.size(), kMostMessageBytes));
  }
  guard.send(word, text);
}

}  // namespace

OpenMpi::OpenMpi(std::filesystem::path log)
    : log_(std::move(log)), listener_(std::in_place), address_(listener_->address()) {}

OpenMpi::~OpenMpi() {
  try {
    for (const Caller& caller : callers_) {
      try {
        caller.channel->send("end", "");
      } catch (const IoError&) {
        // The agent or stub has ended.
      }
    }
    const auto deadline = steady_clock::now() + kProgramsEnd;
    for (Program& program : programs_) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      program.process.wait(std::max(left, milliseconds(0)));
    }
  } catch (const std::exception&) {
    // What is left of the programs is below this process.
  }
  end_descendants({}, kProgramsSweep);
}

void OpenMpi::start(LaunchWord program) {
  ProcessOptions options;
  options.arguments = std::move(program.command);
  // The third word of /bin/sh stays as it is, since a shell reads it as its program: a path may mean something there.
  const bool in_shell = options.arguments.front() == "/bin/sh";
  const std::string guard = std::filesystem::read_symlink("/proc/self/exe").string();
  for (size_t word = 0; word < options.arguments.size(); ++word) {
    if (!in_shell || word != 2) fill_in(options.arguments[word], kGuardWord, guard);
  }
  options.environment = {{variables::kGuardBeside, address_}};
  options.output = log_;
  options.die_with_parent = true;
  programs_.push_back({std::move(program.name), ChildProcess::start(options), in_shell});
}

std::vector<int> OpenMpi::fds() const {
  std::vector<int> all;
  if (listener_) all.push_back(listener_->fd());
  for (const Caller& caller : callers_) all.push_back(caller.channel->fd());
  return all;
}

std::vector<OpenMpi::News> OpenMpi::news() {
  std::vector<News> all;
  while (listener_) {
    auto channel = listener_->accept();
    if (!channel) break;
    // Pods with the network of one node share the names of sockets, and may have one user, but do not share processes:
    // the kernel tells no peer of another pod.
    if (channel->peer()) callers_.push_back({std::move(channel)});
  }
  for (Caller& caller : callers_) hear(caller, all);
  std::erase_if(callers_, [](const Caller& caller) { return caller.gone; });
  // From now on the rank runs, and asks for nothing.
  if (asked_) listener_.reset();
  for (Program& program : programs_) {
    if (program.told) continue;
    auto end = program.process.wait(milliseconds(0));
    if (!end) continue;
    program.told = true;
    // A shell reports a signal as an exit code above 128.
    if (program.in_shell && !end->signal && end->code > 128 && end->code < 128 + SIGRTMIN)
      end->signal = end->code - 128;
    const std::string how = fmt::format("{} {}{}", program.name, how_it_ended(*end), said_at_last());
    all.emplace_back(LaunchedEndWord{end->signal.value_or(0), how});
  }
  return all;
}

std::vector<pid_t> OpenMpi::pids() const {
  std::vector<pid_t> all;
  for (const Program& program : programs_) {
    if (!program.told) all.push_back(program.process.pid());
  }
  return all;
}

void OpenMpi::hear(Caller& caller, std::vector<News>& news) {
  for (Message message;;) {
    const Channel::Status status = caller.channel->receive(message);
    caller.gone = status == Channel::Status::kClosed;
    if (status != Channel::Status::kMessage) return;
    if (asked_) continue;
    if (is<AgentWord>(message)) {
      try {
        news.emplace_back(AgentWord::parse(message.text));
      } catch (const PeerFault& fault) {
        news.emplace_back(ErrorWord{fault.what()});
      }
    } else if (message.word == "variable") {
      const size_t equals = std::min(message.text.find('='), message.text.size() - 1);
      caller.variables[message.text.substr(0, equals)] = message.text.substr(equals + 1);
    } else if (message.word == "stub") {
      asked_ = true;
      variables_ = std::move(caller.variables);
      news.emplace_back(AskedWord());
    }
  }
}

std::string OpenMpi::said_at_last() const {
  try {
    const std::string text = trimmed(end_of_file(log_, kLastBytes));
    return text.empty() ? "" : ": " + text;
  } catch (const std::exception&) {
    return "";
  }
}

bool is_call(const std::vector<std::string>& arguments) {
  return !arguments.empty() && (arguments[0] == "agent" || arguments[0] == "stub");
}

int call_guard(const std::vector<std::string>& arguments) {
  // Open MPI ends its children by signals, which main() held.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const auto address = environment_variable(variables::kGuardBeside);
  if (!address)
    throw UserError(arguments[0] + ": " + variables::kGuardBeside + " is not set: a guard starts mpirun with it");
  const std::unique_ptr<Channel> guard = connect_to(*address, {});
  if (arguments[0] == "agent") {
    if (arguments.size() < 3) throw UserError("agent: HOST COMMAND... are expected: mpirun gives them");
    // The words become one line for a shell, as with ssh.
    std::string command;
    for (auto word = arguments.begin() + 2; word != arguments.end(); ++word) {
      command += (command.empty() ? "" : " ") + *word;
    }
    tell_guard(*guard, std::string(AgentWord::kWord), AgentWord{arguments[1], command}.text());
  } else {
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string_view text = *variable;
      if (text.starts_with("OMPI_") || text.starts_with("PMIX_")) tell_guard(*guard, "variable", std::string(text));
    }
    tell_guard(*guard, "stub", "");
  }
  Message message;
  while (message.word != "end" && guard->receive(message) != Channel::Status::kClosed) {
    pollfd input{guard->fd(), POLLIN, 0};
    if (message.word != "end") poll(&input, 1, -1);
  }
  return 0;
}

}  // namespace mlbench::guard
