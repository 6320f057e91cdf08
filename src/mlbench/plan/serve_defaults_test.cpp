#include "mlbench/plan/serve_defaults.h"

#include <gmock/gmock.h>

#include <map>

#include "mlbench/base/test_error.h"

namespace mlbench::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ServeDefaults of(const std::map<std::string, std::string>& variables) {
  return serve_defaults([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

spec::RunSpec run_of(int64_t workers, int64_t threads, const std::string& device = "cpu") {
  spec::RunSpec run;
  run.name = "r";
  run.workers = workers;
  run.threads_per_worker = threads;
  run.device = device;
  return run;
}

TEST(ServeDefaults, AreWhatTheVariablesSay) {
  const ServeDefaults defaults = of({{"MLBENCH_EXECUTOR", "kubernetes"},
                                     {"MLBENCH_MAX_WORKERS", "128"},
                                     {"MLBENCH_WORKER_MAX_CPU", "3"},
                                     {"MLBENCH_MAX_GPU_PER_WORKER", "0"},
                                     {"MLBENCH_POD_IP", "10.1.0.7"}});
  EXPECT_EQ(defaults.executor, "kubernetes");
  EXPECT_EQ(defaults.most_workers, 128);
  EXPECT_EQ(defaults.most_threads, 3);
  EXPECT_EQ(defaults.most_worker_gpus, 0);
  EXPECT_EQ(defaults.address, "10.1.0.7");
  for (const ServeDefaults& none : {of({}), of({{"MLBENCH_EXECUTOR", ""}, {"MLBENCH_WORKER_MAX_CPU", ""}})}) {
    EXPECT_EQ(none.executor, "");
    EXPECT_FALSE(none.most_workers || none.most_threads || none.most_worker_gpus);
  }
}

TEST(ServeDefaults, WhatIsNoneIsNamed) {
  EXPECT_THAT(error_of([] {
                of({{"MLBENCH_EXECUTOR", "kubernets"}});
              }),
              AllOf(HasSubstr("MLBENCH_EXECUTOR"), HasSubstr("'kubernets'"), HasSubstr("kubernetes")));
  for (const char* name : {"MLBENCH_MAX_WORKERS", "MLBENCH_WORKER_MAX_CPU", "MLBENCH_MAX_GPU_PER_WORKER"}) {
    for (const char* value : {"many", "-1", "1.5", "3000m"}) {
      EXPECT_THAT(error_of([&] { of({{name, value}}); }), AllOf(HasSubstr(name), HasSubstr(value)));
    }
  }
  EXPECT_THAT(error_of([] { of({{"MLBENCH_MAX_WORKERS", "0"}}); }), HasSubstr("MLBENCH_MAX_WORKERS"));
}

TEST(ServeDefaults, TheExecutorIsThatOfRequestsThatNameNone) {
  spec::RunOptions options;
  apply_defaults(of({{"MLBENCH_EXECUTOR", "slurm"}}), {{"name", "r"}}, options);
  EXPECT_EQ(options.executor, "slurm");
  options.executor = "local";
  apply_defaults(of({{"MLBENCH_EXECUTOR", "slurm"}}), {{"name", "r"}, {"executor", "local"}}, options);
  EXPECT_EQ(options.executor, "local");
  apply_defaults(of({}), {{"name", "r"}}, options);
  EXPECT_EQ(options.executor, "local");
}

TEST(ServeDefaults, MoreThanALimitIsRefusedWithIt) {
  const ServeDefaults defaults =
      of({{"MLBENCH_MAX_WORKERS", "3"}, {"MLBENCH_WORKER_MAX_CPU", "2"}, {"MLBENCH_MAX_GPU_PER_WORKER", "0"}});
  const auto refused = [&](const spec::RunSpec& run) {
    return error_of([&] { check_limits(defaults, {run_of(1, 1), run}); });
  };
  EXPECT_EQ(refused(run_of(3, 2)), "no error");
  EXPECT_EQ(refused(run_of(4, 2)), "run 'r' asks for 4 workers, and this master gives at most 3 (MLBENCH_MAX_WORKERS)");
  EXPECT_EQ(refused(run_of(3, 8)),
            "run 'r' asks for 8 cores for each worker, and this master gives at most 2 (MLBENCH_WORKER_MAX_CPU)");
  spec::RunSpec fraction = run_of(3, 2);
  fraction.cpus = 2.5;
  EXPECT_THAT(refused(fraction), HasSubstr("asks for 2.5 cores for each worker"));
  EXPECT_THAT(refused(run_of(1, 1, "cuda")), AllOf(HasSubstr("1 GPU"), HasSubstr("at most 0")));
  EXPECT_THROW(check_limits(defaults, {run_of(4, 1)}), AboveLimit);
  EXPECT_NO_THROW(check_limits({}, {run_of(1000, 1000, "cuda")}));
}

}  // namespace
}  // namespace mlbench::plan
