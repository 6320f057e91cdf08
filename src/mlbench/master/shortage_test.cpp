// Tests that nothing happens to runs while the system is short of something.

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>
#include <thread>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/ingest.h"
#include "mlbench/master/sched/scheduler.h"
#include "mlbench/master/watch.h"
#include "mlbench/record/tracker_lines.h"

namespace mlbench::master {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

// While it lives, this process can open no file.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

bool comes_true(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 3000 && !condition(); ++tries) std::this_thread::sleep_for(20ms);
  return condition();
}

class Shortage : public testing::Test {
 protected:
  Shortage() { fs::create_directories(home()); }
  fs::path home() const { return folder_.path() / "home"; }
  fs::path run_dir(const std::string& name) const { return home() / "runs" / name; }
  spec::RunSpec make_run(const std::string& name, const std::optional<home::Waiting>& waiting = std::nullopt) const {
    spec::RunSpec spec;
    spec.name = name;
    spec.division = "custom";
    spec.workload = spec::Command{{"/bin/true"}};
    spec.workers = 1;
    return home::create_run(home(), spec, waiting);
  }
  TemporaryFolder folder_;
};

TEST_F(Shortage, DamagesNoRunInTheIndex) {
  make_run("known");
  store::RunIndex index(home() / "store");
  Watcher watcher(home(), index, {});
  EXPECT_EQ(index.list().size(), 1U);
  make_run("new");
  Json record = read_json_file(run_dir("known") / "run.json");
  record["state"] = "finished";
  write_json_file(run_dir("known") / "run.json", record);
  {
    const NoDescriptors none;
    watcher.refresh("known");
    watcher.refresh("new");
    EXPECT_EQ(index.count_by_state()["damaged"], 0);
  }
  EXPECT_TRUE(
      comes_true([&] { return index.newest_summaries(9, "finished").size() == 1 && index.list().size() == 2; }));
  EXPECT_THAT(watcher.unread(), IsEmpty());
  EXPECT_EQ(index.count_by_state()["damaged"], 0);
  // A damaged record is reported as damaged.
  std::ofstream(run_dir("new") / "run.json") << "{";
  watcher.refresh("new");
  EXPECT_EQ(index.count_by_state()["damaged"], 1);
}

TEST_F(Shortage, AWaitingRunWaitsOnAndIsStartedLater) {
  make_run("waits", home::Waiting{});
  SchedulerOptions options;
  options.home = home();
  options.program = "/bin/true";  // a supervisor that ends at once
  options.core_lock = folder_.path() / "cores";
  options.cluster = {"local", 2, true};
  options.active = {run_dir("waits")};
  std::unique_ptr<Scheduler> scheduler;
  {
    const NoDescriptors none;
    scheduler = std::make_unique<Scheduler>(options);  // the scheduler cannot even read the run
    EXPECT_THAT(scheduler->waiting(), IsEmpty());
  }
  scheduler = std::make_unique<Scheduler>(options);
  EXPECT_THAT(scheduler->waiting(), ElementsAre("waits"));
  {
    const NoDescriptors none;
    scheduler->begin({});
    std::this_thread::sleep_for(300ms);
  }
  EXPECT_TRUE(fs::exists(run_dir("waits") / "control" / "queue.json")) << "it was dropped";
  EXPECT_TRUE(comes_true([&] { return !fs::exists(run_dir("waits") / "control" / "queue.json"); }))
      << "it was not started";
}

TEST_F(Shortage, ALineThatIsTooLongStopsNothing) {
  const spec::RunSpec run = make_run("lines");
  store::SeriesStore series(home() / "store" / "series.sqlite", true);
  Ingest ingest(series);
  fs::create_directories(run_dir("lines") / "metrics");
  std::ofstream file(tracker_lines_path(run.run_dir, 0), std::ios::app);
  const auto record = [&](int number) {
    file << R"({"rank":0,"sequence":)" << number << R"(,"step":)" << number << R"(,"time":1,"values":{"mine":1}})"
         << std::endl;
  };
  const auto count = [&] {
    ingest.catch_up(run.run_dir);
    for (const store::SeriesInfo& one : series.list(run.id)) {
      if (one.key.metric == "mine") return one.count;
    }
    return int64_t{0};
  };
  record(1);
  file << std::string(5 << 20, '[') << std::flush;
  EXPECT_EQ(count(), 1);
  file << std::string(5 << 20, '[') << std::endl;
  record(2);
  EXPECT_EQ(count(), 2);
  EXPECT_EQ(ingest.left_out(run.run_dir), 1);
  record(3);
  EXPECT_EQ(Ingest(series).left_out(run.run_dir), 1);
  EXPECT_EQ(count(), 3);
}

}  // namespace
}  // namespace mlbench::master
