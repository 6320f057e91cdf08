#include "mlbench/net/kv/rank_words.h"

#include <fmt/format.h>

#include "mlbench/base/peer_words.h"

namespace mlbench::net {

const Json& checked_words(const Json& said) {
  word_in(said, "operation", peer_words::kOperation);
  word_in(said, "kind", peer_words::kOperation);
  word_in(said, "event", peer_words::kOperation);
  word_in(said, "message", peer_words::kReported);
  for (const char* number : {"sequence", "step", "stop_after"}) number_in(said, number, peer_words::kSequence, 0);
  for (const char* flag : {"in_progress", "trains"}) {
    if (!said.value(flag, Json(false)).is_boolean())
      throw PeerFault(fmt::format("\"{}\" is neither true nor false", flag));
  }
  return said;
}

std::string missing_text(const std::vector<RankStatus>& ranks) {
  constexpr size_t kNamed = 16;
  std::vector<std::string> missing;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].joined) missing.push_back(std::to_string(rank));
  }
  if (missing.empty()) return "";
  if (missing.size() == 1) return fmt::format("rank {} of {} has not joined", missing[0], ranks.size());
  if (missing.size() > kNamed) {
    const size_t others = missing.size() - kNamed;
    missing.resize(kNamed);
    missing.push_back(fmt::format("{} others", others));
  }
  const std::string last = missing.back();
  missing.pop_back();
  std::string names;
  for (const std::string& name : missing) names += names.empty() ? name : ", " + name;
  return fmt::format("ranks {} and {} of {} have not joined", names, last, ranks.size());
}

}  // namespace mlbench::net
