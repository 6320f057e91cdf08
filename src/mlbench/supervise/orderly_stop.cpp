#include "mlbench/supervise/orderly_stop.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/input.h"

namespace mlbench::supervise {

bool OrderlyStop::possible(const std::vector<net::RankStatus>& ranks) {
  return std::ranges::all_of(ranks, [](const net::RankStatus& rank) {
    return rank.connected && rank.heartbeat.is_object() && rank.heartbeat.value("trains", false);
  });
}

Json OrderlyStop::question() { return {{"stop", true}}; }

std::optional<Json> OrderlyStop::answer_to(const std::vector<net::RankStatus>& ranks) {
  if (step_) return std::nullopt;
  int64_t most = 0;
  for (const net::RankStatus& rank : ranks) {
    const auto answer = integer_of(rank.heartbeat.value("stop_after", Json()));
    if (!answer) return std::nullopt;
    most = std::max(most, *answer);
  }
  step_ = most;
  return Json{{"stop_after", most}};
}

void OrderlyStop::see(const exec::RankExit& exit, const net::RankStatus& status) {
  const bool in_order = !exit.lost && !exit.end.signal && exit.end.code == 0;
  if (in_order || !failed_.empty()) return;
  const std::string message = status.report ? text_member(*status.report, "message") : "";
  failed_ = message.empty() ? fmt::format("rank {} ended with exit code {}", exit.rank, exit.end.code)
                            : fmt::format("rank {}: {}", exit.rank, message);
}

std::string OrderlyStop::given_up(TimePoint now) const {
  if (!failed_.empty()) return failed_;
  if (!step_ && now - asked_ >= kAnswerPatience) {
    return fmt::format("not all ranks answered within {} s", kAnswerPatience.count());
  }
  if (now - asked_ < kOrderlyPatience) return "";
  return fmt::format("the ranks were not done within {} s", kOrderlyPatience.count());
}

}  // namespace mlbench::supervise
