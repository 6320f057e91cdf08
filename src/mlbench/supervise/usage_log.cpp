#include "mlbench/supervise/usage_log.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "mlbench/record/usage_lines.h"

namespace mlbench::supervise {
namespace {

// The kernel counts processor time in hundredths of a second.
constexpr std::chrono::milliseconds kShortest{500};

}  // namespace

void UsageLog::add(const std::filesystem::path& run_dir, double wall_s, const exec::GroupUsage& usage) {
  if (std::ranges::none_of(usage.ranks, [](const auto& rank) { return rank.has_value(); })) return;
  before_.resize(usage.ranks.size());
  record::UsageLine line{unix_us(clock_.wall_now()), wall_s, {}};
  for (size_t rank = 0; rank < usage.ranks.size(); ++rank) {
    auto& one = line.ranks.emplace_back();
    if (!usage.ranks[rank]) continue;
    one.cpu_cores = cores_in_use(before_[rank], *usage.ranks[rank]);
    one.memory_bytes = usage.ranks[rank]->memory_bytes;
  }
  std::ofstream(record::usage_path(run_dir), std::ios::app) << record::to_text(line) + "\n";
}

std::optional<double> UsageLog::cores_in_use(std::optional<Seen>& before, const exec::RankUsage& usage) const {
  const Seen now{usage.cpu_s, clock_.now() - usage.age};
  if (before && now.time - before->time < kShortest) return std::nullopt;
  const auto earlier = std::exchange(before, now);
  if (!earlier || now.cpu_s < earlier->cpu_s) return std::nullopt;
  return (now.cpu_s - earlier->cpu_s) / to_seconds(now.time - earlier->time);
}

}  // namespace mlbench::supervise
