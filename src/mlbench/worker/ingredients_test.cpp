#include "mlbench/worker/ingredients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/catalog/worker/frameworks.h"

namespace mlbench::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

spec::RunSpec run_of(int64_t workers, int64_t threads) {
  spec::RunSpec run;
  run.workers = workers;
  run.threads_per_worker = threads;
  run.backend = "mpi";
  return run;
}

class Cores : public testing::Test {
 protected:
  ~Cores() override { unsetenv("MLBENCH_CORES"); }
  static void keep(const char* cores) { setenv("MLBENCH_CORES", cores, 1); }
};

TEST_F(Cores, BesideComputingAreThoseThatNoRankComputesOnOrTheRanksOwn) {
  unsetenv("MLBENCH_CORES");
  EXPECT_THAT(cores_beside_computing(run_of(2, 2), 0), IsEmpty()) << "nothing is bound";
  keep("[4,5,6,7]");
  EXPECT_THAT(cores_beside_computing(run_of(2, 2), 0), ElementsAre(4, 5));
  EXPECT_THAT(cores_beside_computing(run_of(2, 2), 1), ElementsAre(6, 7));
  keep("[4,5,6,7,9,11]");
  for (const int rank : {0, 1}) EXPECT_THAT(cores_beside_computing(run_of(2, 2), rank), ElementsAre(9, 11));
  keep("[4,5,6]");
  EXPECT_THAT(cores_beside_computing(run_of(2, 2), 0), IsEmpty()) << "too few to bind anything";
}

TEST_F(Cores, ThatDoNotComputeDecodeImages) {
  const TemporaryFolder folder;
  dataset::CachedSplit split{"train", 1, {}, {folder.path()}};
  const auto data = [&] { return dataset::PreparedDataset({}, nullptr, {split}, "", ""); };
  spec::RunSpec run = run_of(2, 2);
  keep("[0,1,2,3,4,5,6,7]");
  EXPECT_EQ(decoding_threads(run, data(), 2), 2) << "8 cores for 2 ranks with 2 computing threads each";
  keep("[0,1,2,3]");
  EXPECT_EQ(decoding_threads(run, data(), 2), 1) << "at least one";
  unsetenv("MLBENCH_CORES");
  EXPECT_EQ(decoding_threads(run_of(1, 1), data(), 1), std::max(available_cores() - 1, 1));
  run.decoding_threads = 7;
  EXPECT_EQ(decoding_threads(run, data(), 2), 7) << "the user's choice";
  split.shards.clear();
  EXPECT_EQ(decoding_threads(run, data(), 2), 7);
  run.decoding_threads = 0;
  EXPECT_EQ(decoding_threads(run, data(), 2), 0) << "nothing is encoded";
}

TEST_F(Cores, ACommunicationThreadIsInTheWayWhereItSpinsWithoutACore) {
  unsetenv("MLBENCH_CORES");
  const int cores = available_cores();
  const spec::RunSpec run = run_of(cores, 1);
  EXPECT_THAT(place_of_communication(run, 0, cores, true).crowded,
              HasSubstr("mpi spins while it waits, and " + std::to_string(cores) + " threads that compute and "));
  EXPECT_EQ(place_of_communication(run, 0, cores, false).crowded, "") << "it sleeps";
  if (cores > 1) {
    EXPECT_EQ(place_of_communication(run, 0, cores / 2, true).crowded, "") << "there is a core for each";
  }
  spec::RunSpec asked = run;
  asked.overrides = {{"optimizer.overlap", "true"}};
  EXPECT_EQ(place_of_communication(asked, 0, cores, true).crowded, "") << "somebody wants to know";
  keep("[0]");
  EXPECT_THAT(place_of_communication(run_of(1, 1), 0, 1, true).cores, ElementsAre(0));
}

TEST(MakeFramework, StepsAreEmulatedWhereTheRunSaysSo) {
  spec::RunSpec run;
  spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
  run.data_name = "fashion-mnist";
  run.framework = "null";
  for (const double step_s : {0.0, 0.03}) {
    run.emulated_step_s = step_s;
    const auto framework = make_framework({"mlbench-worker", catalog::frameworks()}, run, 0, 0);
    const SystemClock clock;
    const TimePoint begin = clock.now();
    framework->begin_step(0);
    framework->forward({}, framework::Mode::kTrain);
    framework->backward({});
    EXPECT_GE(to_seconds(clock.now() - begin), step_s);
    EXPECT_EQ(std::isnan(framework->loss()), step_s > 0);
    EXPECT_EQ(framework->effective()["name"], "null");
  }
}

TEST(MakeFramework, ConvolutionsAreInTheOrderThatTheRunSays) {
  spec::RunSpec run;
  spec::set_task(run, spec::find_task("1a", "", "", {}), {});
  run.data_name = "cifar-10";
  run.framework = "native";
  for (const char* order : {"direct", "winograd"}) {
    run.convolution = order;
    try {
      EXPECT_EQ(make_framework({"mlbench-worker", catalog::frameworks()}, run, 0, 0)->effective()["convolution"],
                order);
    } catch (const UserError& error) {
      GTEST_SKIP() << "missing capability: " << error.what();
    }
  }
}

}  // namespace
}  // namespace mlbench::worker
