#include "mlbench/master/nodes.h"

#include <exception>

#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/usage_lines.h"
#include "mlbench/report/records.h"

namespace mlbench::master {

Json ranks_on_nodes(const std::filesystem::path& run_dir) {
  Json ranks = Json::array();
  try {
    const record::Record record = report::read_record(run_dir);
    record::UsageLine usage;
    const auto lines = report::last_lines(usage_path(run_dir), 1);
    if (!lines.empty()) usage = record::parse_usage_line(lines.back()).value_or(record::UsageLine{});
    for (const record::RankPlace& place : record.placement.value_or(std::vector<record::RankPlace>{})) {
      if (place.rank < 0) continue;
      static const record::UsageLine::Rank kUnseen;
      const auto index = static_cast<size_t>(place.rank);
      const record::UsageLine::Rank& seen = index < usage.ranks.size() ? usage.ranks[index] : kUnseen;
      ranks.push_back({{"run", run_dir.filename().string()},
                       {"rank", place.rank},
                       {"node", place.host},
                       {"cpu_cores", or_null(seen.cpu_cores)},
                       {"memory_bytes", or_null(seen.memory_bytes)},
                       {"network_in_bytes_per_s", or_null(seen.network_in)},
                       {"network_out_bytes_per_s", or_null(seen.network_out)}});
    }
  } catch (const std::exception&) {
    // The run has no record yet, or was deleted.
  }
  return ranks;
}

}  // namespace mlbench::master
