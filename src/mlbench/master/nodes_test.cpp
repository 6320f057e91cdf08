#include "mlbench/master/nodes.h"

#include <gmock/gmock.h>

#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/usage_lines.h"

namespace mlbench::master {
namespace {

TEST(RanksOnNodes, AreWhereTheRecordSaysWithWhatWasSeenLast) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "r-2";
  EXPECT_EQ(ranks_on_nodes(run), Json::array());
  std::filesystem::create_directories(run / "spool");
  write_file_atomically(run / "run.json", R"({"placement": [{"rank": 0, "host": "n1"}, {"rank": 1, "host": "n2"},
                                             {"rank": -1, "host": "n3"}, {"host": "n4"}]})");
  Json ranks = ranks_on_nodes(run);
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[1]["node"], "n2");
  EXPECT_TRUE(ranks[1]["cpu_cores"].is_null());
  write_file_atomically(usage_path(run), to_text(record::UsageLine{1, 1, {{1, 1}}}) + "\n" +
                                             to_text(record::UsageLine{2, 2, {{0.5, 4096, 10, 20}, {}}}) + "\n");
  ranks = ranks_on_nodes(run);
  EXPECT_EQ(ranks[0], Json::parse(R"({"run": "r-2", "rank": 0, "node": "n1", "cpu_cores": 0.5, "memory_bytes": 4096,
                                      "network_in_bytes_per_s": 10.0, "network_out_bytes_per_s": 20.0})"));
  EXPECT_TRUE(ranks[1]["memory_bytes"].is_null());
  write_file_atomically(run / "run.json", "{");
  EXPECT_EQ(ranks_on_nodes(run), Json::array());
}

}  // namespace
}  // namespace mlbench::master
