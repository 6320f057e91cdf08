#include "mlbench/guard/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "mlbench/base/or_null.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/to_number.h"

namespace mlbench::guard {
namespace {

constexpr std::string_view kOutOfMemory = " oom";

std::vector<std::string> words_in(std::string_view text, size_t least, size_t most, const char* what) {
  std::vector<std::string> words = taken_apart(text);
  if (words.size() < least || words.size() > most) throw PeerFault(fmt::format("{} is {} words", what, words.size()));
  return words;
}

int int_of(const PeerNumber& row, std::string_view text) { return static_cast<int>(number_of(row, text)); }

}  // namespace

std::string as_one(const std::vector<std::string>& texts) {
  std::string one;
  for (const std::string& text : texts) {
    if (text.find('\0') != std::string::npos) throw IoError("a word for a guard holds a zero byte");
    one += text + '\0';
  }
  return one;
}

std::vector<std::string> taken_apart(std::string_view one) {
  std::vector<std::string> texts;
  for (size_t end = 0; (end = one.find('\0')) != std::string_view::npos; one.remove_prefix(end + 1)) {
    texts.emplace_back(one.substr(0, end));
  }
  return texts;
}

RankWord RankWord::parse(std::string_view text) { return {int_of(peer_words::kRank, text)}; }

std::string HostWord::text() const {
  const Json said = {{"address", address},
                     {"port", port},
                     {"node", node},
                     {"folder", folder},
                     {"build_id", build_id},
                     {"local_rank", local_rank},
                     {"local_size", local_size},
                     {"cores", cores},
                     {"gpu", or_null(gpu)},
                     {"host", host},
                     {"environment", environment}};
  return said.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int64_t HostWord::cores_at_a_time() const { return number_in(host, "cores", peer_words::kCores, 1); }
std::string HostWord::guard_build_id() const { return word_in(environment, "build_id", peer_words::kBuildId); }

AgentWord AgentWord::parse(std::string_view text) {
  const auto words = words_in(text, 2, 2, "what mpirun wants");
  return {checked(peer_words::kHost, words[0]), checked(peer_words::kShellLine, words[1])};
}

LaunchedEndWord LaunchedEndWord::parse(std::string_view text) {
  const auto words = words_in(text, 2, 2, "how a program of Open MPI's ended");
  return {int_of(peer_words::kSignal, words[0]), reason_of(peer_words::kReason, words[1])};
}

PidWord PidWord::parse(std::string_view text) { return {int_of(peer_words::kProcess, text)}; }

EnergyWord EnergyWord::parse(std::string_view text) {
  const auto words = words_in(text, 3, 3, "what a host used");
  return {checked(peer_words::kBoot, words[0]), checked(peer_words::kMeter, words[1]),
          number_of(peer_words::kMicrojoules, words[2])};
}

ErrorWord ErrorWord::parse(std::string_view text) { return {reason_of(peer_words::kReason, text)}; }

std::string EndWord::text() const {
  return std::to_string(end.code) + " " + std::to_string(end.signal.value_or(0)) +
         (out_of_memory ? std::string(kOutOfMemory) : "");
}
EndWord EndWord::parse(std::string_view text) {
  const bool out_of_memory = text.ends_with(kOutOfMemory);
  if (out_of_memory) text.remove_suffix(kOutOfMemory.size());
  const size_t blank = std::min(text.find(' '), text.size());
  const int code = int_of(peer_words::kExitCode, text.substr(0, blank));
  const int signal = int_of(peer_words::kSignal, text.substr(std::min(blank + 1, text.size())));
  return {{code, signal > 0 ? std::optional(signal) : std::nullopt}, out_of_memory};
}

std::string PeersWord::text() const {
  std::vector<std::string> words = {hosts};
  for (const auto& [name, value] : variables) words.insert(words.end(), {name, value});
  return as_one(words);
}
PeersWord PeersWord::parse(std::string_view text) {
  const auto words = words_in(text, 1, SIZE_MAX, "where the ranks are");
  PeersWord word{checked(peer_words::kAddresses, words[0]), {}};
  for (size_t name = 1; name + 1 < words.size(); name += 2) {
    word.variables[checked(peer_words::kPeerVariable, words[name])] = checked(peer_words::kAddress, words[name + 1]);
  }
  return word;
}

PutWord PutWord::parse(std::string_view text) {
  const size_t name_end = std::min(text.find('\n'), text.size());
  const size_t head_end = text.find('\n', name_end + 1);
  const std::string_view head = head_end < text.size() ? text.substr(name_end + 1, head_end - name_end - 1) : "";
  const size_t blank = std::min(head.find(' '), head.size());
  const auto offset = to_number<int64_t>(head.substr(0, blank));
  const auto size = to_number<int64_t>(head.substr(std::min(blank + 1, head.size())));
  const std::string name(text.substr(0, name_end));
  if (!offset || !size) throw PeerFault("the supervisor of this run puts no file: " + name);
  return {checked(peer_words::kFile, name), *offset, *size, text.substr(head_end + 1)};
}

std::string LaunchWord::text() const {
  std::vector<std::string> words = command;
  words.insert(words.begin(), name);
  return as_one(words);
}
LaunchWord LaunchWord::parse(std::string_view text) {
  const auto words = words_in(text, 2, SIZE_MAX, "a program of Open MPI's");
  return {words[0], {words.begin() + 1, words.end()}};
}

StartWord StartWord::parse(std::string_view text) {
  const auto words = words_in(text, 2, 2, "where the logs of a rank are");
  return {words[0], words[1]};
}

SignalWord SignalWord::parse(std::string_view text) { return {int_of(peer_words::kSignal, text)}; }

}  // namespace mlbench::guard
