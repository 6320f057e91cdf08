// How a supervisor reads what a guard says of its host; guards are linked without this file.

#include "mlbench/base/input.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/guard/words.h"

namespace mlbench::guard {
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

}  // namespace

HostWord HostWord::parse(std::string_view text) {
  const auto said = try_parse_json(text, inputs::kMessage);
  if (!said || !said->is_object()) throw PeerFault("what it says of its host is no object of JSON");
  const auto number = [&](const char* name, const PeerNumber& row, int64_t otherwise) {
    return static_cast<int>(number_in(*said, name, row, otherwise));
  };
  HostWord word;
  word.address = word_in(*said, "address", peer_words::kAddress);
  word.port = number("port", peer_words::kPort, 0);
  word.node = word_in(*said, "node", peer_words::kHost);
  word.folder = word_in(*said, "folder", peer_words::kFolderIdentity);
  word.build_id = word_in(*said, "build_id", peer_words::kBuildId);
  word.local_rank = number("local_rank", peer_words::kRank, 0);
  word.local_size = number("local_size", peer_words::kRankCount, 1);
  word.host = capture_in(*said, "host");
  word.environment = capture_in(*said, "environment");
  word.cores = cores_in(*said);
  if (const int gpu = number("gpu", peer_words::kGpu, -1); gpu >= 0) word.gpu = gpu;
  word.guard_build_id();
  word.cores_at_a_time();
  return word;
}

}  // namespace mlbench::guard
