#pragma once

// The words of a guard and its supervisor: each a struct with one way to be said, text(), and one to be understood,
// parse(), for both ends. parse() throws PeerFault for what is none, or is beyond the bounds of base/peer_words.h. Each
// word comes once in a channel's life, unless something else is said.

#include <sys/types.h>

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

// Several texts as one, and back. IoError where one holds a zero byte: it would become two.
std::string as_one(const std::vector<std::string>& texts);
std::vector<std::string> taken_apart(std::string_view one);

// ---- from the guard ------------------------------------------------------------------------------------------------

// Whose guard it is, first of all.
struct RankWord {
  static constexpr std::string_view kWord = "rank";
  int rank = 0;
  std::string text() const { return std::to_string(rank); }
  static RankWord parse(std::string_view text);
};

// From another host: what that is. What it does not say is empty.
struct HostWord {
  static constexpr std::string_view kWord = "host";
  std::string address = {};   // by which it reaches the supervisor
  int port = 0;               // that is free there; 0: it does not know
  std::string node = {};      // as its launcher calls the host
  std::string folder = {};    // the run's there, the same text from all guards that share it
  std::string build_id = {};  // of the rank's program; the guard's is that of `environment`
  int local_rank = 0, local_size = 1;
  std::vector<int> cores = {};        // numbers of those that it may use
  std::optional<int> gpu = {};        // number of the one that it gives its rank
  Json host = Json::object();         // capture_host() of base/environment.h
  Json environment = Json::object();  // capture_environment()
  std::string text() const;
  static HostWord parse(std::string_view text);
  int64_t cores_at_a_time() const;  // fewer than its cores where a container has a quota
  std::string guard_build_id() const;
};

// A program of Open MPI's that this guard runs wants `command` of a shell on `host`, more than once. The program says
// the same to its guard.
struct AgentWord {
  static constexpr std::string_view kWord = "agent";
  std::string host, command;
  std::string text() const { return as_one({host, command}); }
  static AgentWord parse(std::string_view text);
};

// Such a program wants the rank to run: its start is due.
struct AskedWord {
  static constexpr std::string_view kWord = "asked";
  static std::string text() { return ""; }
};

// Such a program ended, once for each. `signal`: 0: by itself. `how`: with what it said last.
struct LaunchedEndWord {
  static constexpr std::string_view kWord = "launched-end";
  int signal = 0;
  std::string how;
  std::string text() const { return as_one({std::to_string(signal), how}); }
  static LaunchedEndWord parse(std::string_view text);
};

// The rank runs, in a session of its own. `pid`: as its guard counts processes.
struct PidWord {
  static constexpr std::string_view kWord = "pid";
  pid_t pid = 0;
  std::string text() const { return std::to_string(pid); }
  static PidWord parse(std::string_view text);
};

// It could not start, or a program of Open MPI's could not.
struct ErrorWord {
  static constexpr std::string_view kWord = "error";
  std::string why;
  const std::string& text() const { return why; }
  static ErrorWord parse(std::string_view text);
};

// While the rank runs on another host, every 2 s: Usage of usage.h.

// How the rank ended. `out_of_memory`: the kernel killed a process of its control group meanwhile.
struct EndWord {
  static constexpr std::string_view kWord = "end";
  ProcessEnd end;
  bool out_of_memory = false;
  std::string text() const;
  static EndWord parse(std::string_view text);
};

// From another host: nothing of the rank is left, and all that it wrote has arrived.
struct DrainedWord {
  static constexpr std::string_view kWord = "drained";
};

// ---- from the supervisor -------------------------------------------------------------------------------------------

// Before the start: where the ranks are, for a command of the user's. `hosts`: what "{hosts}" stands for in its words.
struct PeersWord {
  static constexpr std::string_view kWord = "peers";
  std::string hosts;
  std::map<std::string, std::string> variables;  // of the rank
  std::string text() const;
  static PeersWord parse(std::string_view text);
};

// Before the start: a piece of a file of the run's folder there, behind the one before. LinkServer::send_file() says
// it.
struct PutWord {
  static constexpr std::string_view kWord = "put";
  std::string name;
  int64_t offset = 0, size = 0;
  std::string_view bytes;  // of the text that was parsed
  static PutWord parse(std::string_view text);
};

// Before the start: a program of Open MPI's, to run beside the rank, and its name for messages; more than once.
struct LaunchWord {
  static constexpr std::string_view kWord = "launch";
  std::string name;
  std::vector<std::string> command;
  std::string text() const;
  static LaunchWord parse(std::string_view text);
};

// With the descriptors that the rank is to inherit. `log`: on another host relative to the run's folder there.
struct StartWord {
  static constexpr std::string_view kWord = "start";
  std::string log;
  const std::string& text() const { return log; }
  static StartWord parse(std::string_view text) { return {std::string(text)}; }
};

// For the rank's group; more than once.
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
