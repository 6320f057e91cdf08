// For tests: the guard of a host that means harm, or is broken. As every host of a run it proves the run's secret; then
// it says what no guard says. HOSTILE_FAULT names what; HOSTILE_MARK is a file that appears if words of this host ran
// as code. Without HOSTILE_FAULT it prints the names of all faults, one a line.

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/guard/words.h"

namespace mlbench::guard {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;
using std::chrono::steady_clock;

struct Fault {
  const char* name;
  bool runs;  // said once the rank is to run, as if it ran; else in place of saying where it is
  std::function<Words(const std::string& mark)> words;
};

Words placed(const Json& place) { return {{"rank", "1"}, {"host", place.dump()}}; }

Words flood_of(const std::string& word, const std::string& text) { return Words(200'000, {word, text}); }

const std::vector<Fault>& faults() {
  using Text = const std::string&;
  static const std::vector<Fault> table = {
      {"shell-address", false,
       [](Text mark) {
         return placed({{"address", "$(touch " + mark + ")"}});
       }},
      {"variable-address", false,
       [](Text mark) {
         return placed({{"address", std::string("h1\0BASH_ENV\0", 12) + mark}});
       }},
      {"shell-node", false,
       [](Text mark) {
         return placed({{"node", "n1\n#!/bin/sh\ntouch " + mark}});
       }},
      {"rank-of-another", false,
       [](Text) {
         return Words{{"rank", "0"}};
       }},
      {"no-json", false,
       [](Text) {
         return Words{{"rank", "1"}, {"host", "{\"address\": "}};
       }},
      {"deep-json", false,
       [](Text) {
         return Words{{"rank", "1"}, {"host", std::string(50'000, '[')}};
       }},
      {"runs-unasked", false,
       [](Text) {
         return Words{{"rank", "1"}, {"pid", "1"}};
       }},
      {"long-error", false,
       [](Text) {
         return Words{{"rank", "1"}, {"error", std::string(1 << 20, '\x1b')}};
       }},
      {"flood-early", false, [](Text) { return flood_of("host", "{}"); }},
      {"silent", false, [](Text) { return Words{}; }},
      {"wrong-end", true,
       [](Text) {
         return Words{{"end", "999 0"}};
       }},
      {"runs-twice", true,
       [](Text) {
         return Words{{"pid", "1"}};
       }},
      {"launcher-of-nobody", true,
       [](Text mark) {
         return Words{{"agent", as_one({"h1", "touch " + mark})}};
       }},
      {"flood-usage", true, [](Text) { return flood_of("usage", "1 1"); }},
      {"flood-unknown", true, [](Text) { return flood_of(std::string(31, 'x'), std::string(200, 'y')); }},
      {"gone", true, [](Text) { return Words{}; }},
  };
  return table;
}

// Words until this one, or for this long.
bool hears(Channel& channel, const std::string& word, std::chrono::seconds patience) {
  const auto deadline = steady_clock::now() + patience;
  Message message;
  while (steady_clock::now() < deadline) {
    const auto status = channel.receive(message);
    if (status == Channel::Status::kClosed) return false;
    if (status == Channel::Status::kMessage && message.word == word) return true;
    if (status == Channel::Status::kMessage) continue;
    pollfd input{channel.fd(), POLLIN, 0};
    poll(&input, 1, 100);
  }
  return false;
}

int commit(const Fault& fault) {
  const RankOfRun rank{.rank = 1,
                       .size = std::stoi(environment_variable("SLURM_STEP_NUM_TASKS").value()),
                       .run_id = environment_variable("MLBENCH_RUN_ID").value(),
                       .secret = environment_variable(variables::kGuardSecret).value(),
                       .folder = environment_variable(variables::kGuardFolder).value()};
  const auto channel = connect_to(environment_variable(variables::kGuard).value(), rank);
  if (fault.runs) {
    for (const auto& [word, text] : placed({{"node", "n1"}, {"local_rank", 1}, {"local_size", 2}})) {
      channel->send(word, text);
    }
    if (!hears(*channel, "start", std::chrono::seconds(60))) return 1;
    channel->send("pid", "1");
  }
  for (const auto& [word, text] : fault.words(environment_variable("HOSTILE_MARK").value_or("/nowhere"))) {
    channel->send(word, text);
  }
  hears(*channel, "no such word", std::chrono::seconds(5));
  return 1;
}

}  // namespace
}  // namespace mlbench::guard

int main() {
  const auto wanted = mlbench::environment_variable("HOSTILE_FAULT");
  try {
    for (const auto& fault : mlbench::guard::faults()) {
      if (!wanted) fmt::print("{}\n", fault.name);
      if (wanted == fault.name) return mlbench::guard::commit(fault);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "hostile_guard: {}\n", error.what());
    return 1;
  }
  return wanted ? 2 : 0;
}
