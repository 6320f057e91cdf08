// Tests that waiting for a slow rank is told from moving bytes, with real ranks over real back ends. One rank gets its
// batches late.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::worker {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr int kSteps = 50, kDelayMs = 20;
constexpr int kAttempts = 3;  // a busy machine may hold up either rank

struct Times {
  double fast_wait_s = 0, slow_wait_s = 0, transfer_s = 0, slept_s = 0;
  bool exact = false;
};

class Wait : public testing::TestWithParam<std::string> {
 protected:
  // Rank 1 is slow. Steps are small: one batch of logistic regression, the same in each step.
  Times run(int attempt, int delay_ms) {
    spec::RunSpec run;
    run.id = 1;
    run.name = GetParam() + std::to_string(attempt) + "-" + std::to_string(delay_ms);
    run.created_at = "2026-01-01T00:00:00.000000Z";
    run.workers = 2;
    run.backend = GetParam();
    run.fixed_batch = true;
    run.limits.max_steps = kSteps;
    const std::vector<spec::Override> overrides = {{"data.sample_shape", "[500]"}};
    spec::set_task(run, spec::find_task("2a", "2021", "", overrides), overrides);
    run.data_name = "madelon";
    run.cache_dir = (folder_ / "cache").string();
    run.synthetic = true;
    run.run_dir = (folder_ / run.name).string();
    fs::create_directories(run.run_dir);
    write_json_file(fs::path(run.run_dir) / "spec.json", spec::to_json(run));
    GetParam() == "mpi" ? under_mpirun(run, delay_ms) : by_hand(run, delay_ms);
    if (HasFatalFailure() || IsSkipped()) return {};

    const Json record = read_json_file(fs::path(run.run_dir) / "run.json");
    const Json& exchange = record["exchange"];
    EXPECT_EQ(exchange["steps"], kSteps) << record["notes"];
    return {exchange["wait_s"][0], exchange["wait_s"][1], exchange["transfer_s"][0],
            std::stod(read_file(fs::path(run.run_dir) / "slept_ns")) / 1e9, exchange["exact"]};
  }

 private:
  std::map<std::string, std::string> environment(const spec::RunSpec& run, int delay_ms) const {
    return {{"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", std::to_string(port_)},
            {"SLOW_RANK", "1"},
            {"SLOW_MS", std::to_string(delay_ms)},
            {"SLOW_FILE", run.run_dir + "/slept_ns"},
            {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  }
  void under_mpirun(const spec::RunSpec& run, int delay_ms) {
    if (!program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
    ProcessOptions options;
    options.arguments = {"mpirun",    "-n",   "2",         "--host",    "localhost:2",
                         "--bind-to", "none", SLOW_WORKER, "--run-dir", run.run_dir};
    options.environment = environment(run, delay_ms);
    const ProcessOutput output = run_process(options, seconds(120));
    if (output.standard_error.find("built without MPI") != std::string::npos) {
      GTEST_SKIP() << "missing capability: a worker with MPI";
    }
    ASSERT_EQ(output.end.code, 0) << output.standard_error;
  }
  void by_hand(const spec::RunSpec& run, int delay_ms) {
    std::vector<ChildProcess> ranks;
    for (const char* rank : {"0", "1"}) {
      ProcessOptions options;
      options.arguments = {SLOW_WORKER, "--run-dir", run.run_dir};
      options.environment = environment(run, delay_ms);
      options.environment["RANK"] = rank;
      options.environment["WORLD_SIZE"] = "2";
      options.output = fs::path(run.run_dir) / (std::string("log-") + rank);
      options.die_with_parent = true;
      ranks.push_back(ChildProcess::start(options));
    }
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto end = ranks[rank].wait(seconds(120));
      ASSERT_TRUE(end && end->code == 0) << read_file(fs::path(run.run_dir) / ("log-" + std::to_string(rank)));
    }
  }

  TemporaryFolder folder_;
  const int port_ = net::free_port();
};

INSTANTIATE_TEST_SUITE_P(BackEnds, Wait, testing::Values("gloo", "mpi", "shm"),
                         [](const auto& info) { return info.param; });

TEST_P(Wait, OfTheOtherRankIsNinetyFivePercentOfASlowLoadersTime) {
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    const Times even = run(attempt, 0), slow = run(attempt, kDelayMs);
    if (IsSkipped() || HasFailure()) return;
    EXPECT_TRUE(slow.exact);
    EXPECT_GE(slow.slept_s, kSteps * kDelayMs / 1e3);
    const double added_s = slow.slept_s - even.slept_s;
    const double wait = (slow.fast_wait_s - even.fast_wait_s) / added_s;
    const double transfer = (slow.transfer_s - even.transfer_s) / added_s;
    const double own_wait = slow.slow_wait_s / added_s;
    if (wait >= 0.95 && transfer < 0.05 && own_wait < 0.05) return;
    const bool last = attempt == kAttempts;
    EXPECT_FALSE(last) << "of " << added_s << " s that rank 1 slept, " << wait << " show as wait of rank 0, "
                       << transfer << " as transfer, " << own_wait << " as wait of rank 1";
  }
}

}  // namespace
}  // namespace mlbench::worker
