#include "mlbench/supervise/usage_log.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/run_folder.h"

namespace mlbench::supervise {
namespace {

// The kernel counts processor time in hundredths of a second.
constexpr std::chrono::milliseconds kShortest{500};

}  // namespace

void UsageLog::add(const std::filesystem::path& run_dir, double wall_s, const exec::GroupUsage& usage,
                   const std::optional<exec::RankUsage>& host) {
  if (std::ranges::none_of(usage.ranks, [](const auto& rank) { return rank.has_value(); })) return;
  before_.resize(usage.ranks.size());
  record::UsageLine line{unix_us(clock_.wall_now()), wall_s, {}, {}};
  for (size_t rank = 0; rank < usage.ranks.size(); ++rank) {
    auto& one = line.ranks.emplace_back();
    if (!usage.ranks[rank]) continue;
    one = used_since(before_[rank], *usage.ranks[rank]);
    one.memory_bytes = usage.ranks[rank]->memory_bytes;
  }
  if (host) {
    line.host = used_since(host_before_, *host);
    line.host.memory_bytes = host->memory_bytes;
  }
  std::ofstream(usage_path(run_dir), std::ios::app) << record::to_text(line) + "\n";
}

record::UsageLine::Rank UsageLog::used_since(std::optional<Seen>& before, const exec::RankUsage& usage) const {
  const Seen now{usage.cpu_s, usage.network, clock_.now() - usage.age};
  if (before && now.time - before->time < kShortest) return {};
  const auto earlier = std::exchange(before, now);
  if (!earlier) return {};
  const auto rate = [&](double less, double more) {
    return more < less ? std::nullopt : std::optional((more - less) / to_seconds(now.time - earlier->time));
  };
  record::UsageLine::Rank used{rate(earlier->cpu_s, now.cpu_s), {}};
  if (earlier->network && now.network) {
    used.network_in = rate(static_cast<double>(earlier->network->received), static_cast<double>(now.network->received));
    used.network_out = rate(static_cast<double>(earlier->network->sent), static_cast<double>(now.network->sent));
  }
  return used;
}

}  // namespace mlbench::supervise
