#include "mlbench/exec/guard_words.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "mlbench/base/input.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/guard/channel.h"

namespace mlbench::exec {
namespace {

Json capture_in(const Json& said, const char* name) {
  const Json capture = said.value(name, Json());
  return capture.is_null() ? Json::object() : checked(peer_words::kCapture, capture);
}

std::vector<int> cores_in(const Json& said) {
  const Json cores = said.value("cores", Json::array());
  if (!cores.is_array()) throw PeerFault("\"cores\" is no list");
  std::vector<int> numbers;
  for (const Json& core : cores) {
    const auto number = integer_of(core);
    if (!number) throw PeerFault("one of its cores is no whole number");
    numbers.push_back(static_cast<int>(checked(peer_words::kCore, *number)));
  }
  return numbers;
}

std::vector<std::string> two_words(std::string_view text, const char* what) {
  std::vector<std::string> words = guard::taken_apart(text);
  if (words.size() != 2) throw PeerFault(std::string(what) + " is not two words");
  return words;
}

}  // namespace

HostWords host_words(const std::string& text) {
  const auto said = try_parse_json(text, inputs::kMessage);
  if (!said || !said->is_object()) throw PeerFault("what it says of its host is no object of JSON");
  const auto number = [&](const char* name, const PeerNumber& row, int64_t otherwise) {
    return static_cast<int>(number_in(*said, name, row, otherwise));
  };
  HostWords words;
  words.address = word_in(*said, "address", peer_words::kAddress);
  words.port = number("port", peer_words::kPort, 0);
  words.node = word_in(*said, "node", peer_words::kHost);
  words.folder = word_in(*said, "folder", peer_words::kFolderIdentity);
  words.build_id = word_in(*said, "build_id", peer_words::kBuildId);
  words.local = {number("local_rank", peer_words::kRank, 0), number("local_size", peer_words::kRankCount, 1)};
  words.host = capture_in(*said, "host");
  words.environment = capture_in(*said, "environment");
  words.guard_build_id = word_in(words.environment, "build_id", peer_words::kBuildId);
  words.cores.numbers = cores_in(*said);
  if (const int gpu = number("gpu", peer_words::kGpu, -1); gpu >= 0) words.gpu = gpu;
  words.cores.at_a_time = number_in(words.host, "cores", peer_words::kCores, 1);
  return words;
}

RankExit end_words(int rank, std::string_view text) {
  const bool out_of_memory = text.ends_with(guard::kOutOfMemory);
  if (out_of_memory) text.remove_suffix(guard::kOutOfMemory.size());
  const size_t blank = std::min(text.find(' '), text.size());
  const auto code = static_cast<int>(number_of(peer_words::kExitCode, text.substr(0, blank)));
  const auto signal = static_cast<int>(number_of(peer_words::kSignal, text.substr(std::min(blank + 1, text.size()))));
  return {rank, {code, signal > 0 ? std::optional(signal) : std::nullopt}, false, out_of_memory ? kOutOfMemory : ""};
}

DaemonWords daemon_words(std::string_view text) {
  const auto words = two_words(text, "what mpirun wants");
  return {checked(peer_words::kHost, words[0]), checked(peer_words::kShellLine, words[1])};
}

LaunchedEndWords launched_end_words(std::string_view text) {
  const auto words = two_words(text, "how a program of Open MPI's ended");
  return {number_of(peer_words::kSignal, words[0]) != 0, reason_of(peer_words::kReason, words[1])};
}

}  // namespace mlbench::exec
