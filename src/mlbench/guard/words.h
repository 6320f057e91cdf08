#pragma once

// The words of a guard and its supervisor, for both ends. Each is a struct: text() returns what is said, and parse()
// understands it. parse() throws PeerFault for text that is no such word, or is beyond the bounds of base/peer_words.h.
// Each word comes once in a channel's life, unless its comment says otherwise.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/guard/channel.h"

namespace mlbench::guard {

// as_one() joins several texts, and taken_apart() splits them again. as_one() throws IoError where a text holds a zero
// byte: it would become two.
std::string as_one(const std::vector<std::string>& texts);
std::vector<std::string> taken_apart(std::string_view one);

// ---- from the guard ------------------------------------------------------------------------------------------------

// The rank of the guard. This word comes first.
struct RankWord {
  static constexpr std::string_view kWord = "rank";
  int rank = 0;
  std::string text() const { return std::to_string(rank); }
  static RankWord parse(std::string_view text);
};

// From another host: what that host is. What the guard does not say is empty.
struct HostWord {
  static constexpr std::string_view kWord = "host";
  std::string address = {};   // the host's, towards the supervisor
  int port = 0;               // a free port of that host; 0: the guard knows none
  std::string node = {};      // the host's name, as the guard's launcher has it
  std::string folder = {};    // identifies the run's folder there: all guards that share it say the same
  std::string build_id = {};  // that of the rank's program; `environment` has the guard's
  int local_rank = 0, local_size = 1;
  std::vector<int> cores = {};        // numbers of the cores that the rank may use
  std::optional<int> gpu = {};        // number of the GPU that the guard gives the rank
  Json host = Json::object();         // capture_host() of base/environment.h
  Json environment = Json::object();  // capture_environment() of the same
  std::string text() const;
  static HostWord parse(std::string_view text);
  int64_t cores_at_a_time() const;  // fewer than `cores` where a container has a quota
  std::string guard_build_id() const;
};

// A program of Open MPI's that this guard runs wants a shell on `host` to run `command`. May come more than once. The
// program says the same word to its guard.
struct AgentWord {
  static constexpr std::string_view kWord = "agent";
  std::string host, command;
  std::string text() const { return as_one({host, command}); }
  static AgentWord parse(std::string_view text);
};

// A program of Open MPI's wants the rank to run: the rank's start is due.
struct AskedWord {
  static constexpr std::string_view kWord = "asked";
  static std::string text() { return ""; }
};

// A program of Open MPI's ended; comes once for each. `signal` is the signal that killed the program; 0: the program
// ended by itself. `how` tells that, with what the program said last.
struct LaunchedEndWord {
  static constexpr std::string_view kWord = "launched-end";
  int signal = 0;
  std::string how;
  std::string text() const { return as_one({std::to_string(signal), how}); }
  static LaunchedEndWord parse(std::string_view text);
};

// The rank runs, in a session of its own. `pid` is its number where the guard is, which may be in a container.
struct PidWord {
  static constexpr std::string_view kWord = "pid";
  pid_t pid = 0;
  std::string text() const { return std::to_string(pid); }
  static PidWord parse(std::string_view text);
};

// The rank, or a program of Open MPI's, could not start.
struct ErrorWord {
  static constexpr std::string_view kWord = "error";
  std::string why;
  const std::string& text() const { return why; }
  static ErrorWord parse(std::string_view text);
};

// Here comes Usage of usage.h: every 2 s while the rank runs, from another host.

// What the guard's host used since the rank began, by all its programs. Comes from the first rank of another host: at
// the rank's begin, then every 2 s, and at the rank's end.
struct EnergyWord {
  static constexpr std::string_view kWord = "energy";
  std::string boot;   // the kernel's boot id, which all pods and containers of one host share
  std::string meter;  // name() of base/energy_meter.h; "": the host has no meter that the guard may read
  int64_t microjoules = 0;
  std::string text() const { return as_one({boot, meter, std::to_string(microjoules)}); }
  static EnergyWord parse(std::string_view text);
};

// How the rank ended. `out_of_memory` says whether the kernel killed a process of the rank's control group meanwhile.
struct EndWord {
  static constexpr std::string_view kWord = "end";
  ProcessEnd end;
  bool out_of_memory = false;
  std::string text() const;
  static EndWord parse(std::string_view text);
};

// From another host: nothing of the rank is left there, and all that the rank wrote has arrived.
struct DrainedWord {
  static constexpr std::string_view kWord = "drained";
};

// ---- from the supervisor -------------------------------------------------------------------------------------------

// Before the start: where the ranks are, for a command of the user's. `hosts` stands for "{hosts}" in the command's
// words.
struct PeersWord {
  static constexpr std::string_view kWord = "peers";
  std::string hosts;
  std::map<std::string, std::string> variables;  // those that the rank gets
  std::string text() const;
  static PeersWord parse(std::string_view text);
};

// Before the start: the next piece of a file of the run's folder there. LinkServer::send_file() says this word, once
// for each piece.
struct PutWord {
  static constexpr std::string_view kWord = "put";
  std::string name;
  int64_t offset = 0, size = 0;
  std::string_view bytes;  // points into the text that was parsed
  static PutWord parse(std::string_view text);
};

// Before the start: a program of Open MPI's to run beside the rank, and its name for messages. May come more than once.
struct LaunchWord {
  static constexpr std::string_view kWord = "launch";
  std::string name;
  std::vector<std::string> command;
  std::string text() const;
  static LaunchWord parse(std::string_view text);
};

// The rank is to start. The message has the descriptors that the rank inherits. `output` and `errors` are the paths of
// the logs of its standard output and standard error; on another host, relative to the run's folder there.
struct StartWord {
  static constexpr std::string_view kWord = "start";
  std::string output, errors;
  std::string text() const { return as_one({output, errors}); }
  static StartWord parse(std::string_view text);
};

// A signal for the rank's process group. May come more than once.
struct SignalWord {
  static constexpr std::string_view kWord = "signal";
  int number = 0;
  std::string text() const { return std::to_string(number); }
  static SignalWord parse(std::string_view text);
};

// ---- both ----------------------------------------------------------------------------------------------------------

template <typename Word>
void say(Channel& channel, const Word& word, std::span<const int> descriptors = {}) {
  channel.send(std::string(Word::kWord), word.text(), descriptors);
}

template <typename Word>
bool is(const Message& message) {
  return message.word == Word::kWord;
}

}  // namespace mlbench::guard
