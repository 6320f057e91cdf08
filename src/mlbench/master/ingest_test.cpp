#include "mlbench/master/ingest.h"

#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/runs.h"
#include "mlbench/record/usage_lines.h"

namespace mlbench::master {
namespace {

using testing::ElementsAre;

TEST(Ingest, WhatRanksUseBecomesSeries) {
  const TemporaryFolder home;
  spec::RunSpec spec;
  spec.name = "busy";
  spec.division = "custom";
  spec.workload = spec::Command{{"/bin/true"}};
  spec.workers = 2;
  const spec::RunSpec run = home::create_run(home.path(), spec, std::nullopt);
  std::filesystem::create_directories(home / "store");
  store::SeriesStore series(home / "store/series.sqlite", true);
  Ingest ingest(series);
  std::filesystem::create_directories(usage_path(run.run_dir).parent_path());
  std::ofstream file(usage_path(run.run_dir));
  const auto add = [&](const std::string& line) {
    file << line << std::endl;
    ingest.catch_up(run.run_dir);
  };
  const auto values = [&](const std::string& metric, int64_t rank) {
    std::vector<double> values;
    for (const store::Point& point : series.read_points(run.id, {"", metric, rank})) values.push_back(point.value);
    return values;
  };
  add(record::to_text({1, 2.5, {{std::nullopt, 100}, {std::nullopt, 200}}}));
  add("nonsense");
  add(record::to_text({2, 4.5, {{0.5, 150}, {}}}));
  EXPECT_THAT(values("memory_bytes", 0), ElementsAre(100, 150));
  EXPECT_THAT(values("memory_bytes", 1), ElementsAre(200));
  EXPECT_THAT(values("cpu_cores", 0), ElementsAre(0.5));
  EXPECT_EQ(ingest.left_out(run.run_dir), 1);
  EXPECT_EQ(Ingest(series).left_out(run.run_dir), 1);
}

}  // namespace
}  // namespace mlbench::master
