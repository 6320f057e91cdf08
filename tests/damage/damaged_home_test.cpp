// One home in which every file that a run has is damaged in every way, each in a run of its own: all commands and the
// master go on working for the good runs, name the bad ones, and can remove them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/master/master.h"
#include "mlbench/net/http/client.h"
#include "mlbench/plan/planner.h"
#include "tests/damage/home.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

struct Damage {
  const char* name;
  void (*make)(const fs::path& file);
};

// The file, or its folder, may be missing before; lines of before stay where `make` appends.
const Damage kDamages[] = {
    {"deep", [](const fs::path& file) { test::put(file, test::repeated("[", 500'000) + "\n"); }},
    {"deep-line",
     [](const fs::path& file) {
       const std::string line = R"({"event": )" + test::repeated("[", 500'000) + test::repeated("]", 500'000) + "}\n";
       test::put(file, test::content_of(file) + line + R"({"sequence": 3, "values": {"behind": 1}})" + "\n");
     }},
    {"wrong-types",
     [](const fs::path& file) {
       const std::string line = R"({"event": 1, "sequence": "x", "state": [], "name": {}, "id": {}, "workers": 9e18})"
                                "\n";
       test::put(file, line);
     }},
    {"huge", [](const fs::path& file) { fs::resize_file(file, uintmax_t{2} << 30); }},
    {"empty", [](const fs::path& file) { test::put(file, ""); }},
    {"binary", [](const fs::path& file) { test::put(file, std::string("\0\xff\xfe\x01MLBSTEPS\n\x80", 14)); }},
    {"folder",
     [](const fs::path& file) {
       fs::remove(file);
       fs::create_directories(file);
     }},
    {"loop",
     [](const fs::path& file) {
       fs::remove(file);
       fs::create_symlink(file, file);
     }},
    {"pipe",
     [](const fs::path& file) {
       fs::remove(file);
       if (mkfifo(file.c_str(), 0600) != 0) throw IoError("mkfifo " + file.string());
     }},
};

const std::vector<std::string> kFilesOfTasks = {"spec.json",
                                                "run.json",
                                                "progress.json",
                                                "lease",
                                                "control/queue.json",
                                                "spool/rank-0.seg-1.steps",
                                                "spool/rank-0.seg-1.events"};
const std::vector<std::string> kFilesOfCommands = {"metrics/rank-0.jsonl"};

class DamagedHome : public testing::Test {
 protected:
  DamagedHome()
      : home_variable_("MLBENCH_HOME", home().string()),
        lock_variable_("MLBENCH_CORE_LOCK", (folder_ / "cores").string()) {
    const fs::path task = test::make_lost_run(home(), "good-task", {});
    const fs::path command = test::make_lost_run(home(), "good-command", {"/bin/true"});
    for (const Damage& damage : kDamages) {
      for (const std::string& file : kFilesOfTasks) damage_copy(task, damage, file);
      for (const std::string& file : kFilesOfCommands) damage_copy(command, damage, file);
    }
  }

  fs::path home() const { return folder_.path() / "home"; }

  void damage_copy(const fs::path& run, const Damage& damage, const std::string& file) {
    std::string name = fmt::format("bad-{}-{}", damage.name, file.substr(file.find('/') + 1));
    std::replace(name.begin(), name.end(), '.', '-');
    const fs::path path = test::copy_run(run, name) / file;
    if (!fs::exists(path)) test::put(path, "");
    damage.make(path);
    bad_.push_back(name);
  }

  test::ChildEnd run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), environment_variable("MLBENCH_TEST_MLBENCH").value());
    return test::run_program(folder_ / "log", test::kPatience, std::move(arguments));
  }

  TemporaryFolder folder_;
  const test::Variable home_variable_, lock_variable_;
  std::vector<std::string> bad_;
};

TEST_F(DamagedHome, CommandsGoOnAndCanCleanUp) {
  const auto status = run({"status"});
  ASSERT_EQ(status.code(), 0) << status.output;
  for (const char* good : {"good-task", "good-command"}) {
    EXPECT_THAT(status.output, HasSubstr(good));
    const auto one = run({"status", good, "--json"});
    ASSERT_EQ(one.code(), 0) << one.output;
    EXPECT_EQ(Json::parse(one.output)["failure"]["kind"], "supervisor_lost");
    EXPECT_EQ(run({"download", good, "-o", (folder_ / good).string() + ".zip"}).code(), 0);
  }
  for (const std::string& name : bad_) EXPECT_THAT(status.output, HasSubstr(name));

  // The line alone is lost.
  const auto line = run({"status", "bad-deep-line-rank-0-jsonl", "--json"});
  ASSERT_EQ(line.code(), 0) << line.output;
  const Json record = Json::parse(line.output);
  EXPECT_EQ(record["evaluations"].size(), 1);
  EXPECT_THAT(record["notes"].dump(), HasSubstr("rank-0.jsonl: 1 line left out"));
  const auto events = run({"status", "bad-deep-line-rank-0-seg-1-events", "--json"});
  ASSERT_EQ(events.code(), 0) << events.output;
  EXPECT_EQ(Json::parse(events.output)["evaluations"].size(), 1);
  EXPECT_THAT(Json::parse(events.output)["notes"].dump(), HasSubstr("rank-0.seg-1.events: 1 line left out"));

  // No run here has finished, which they say.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"compare", "good-task", "good-command"},
        std::vector<std::string>{"charts", home().string(), "--format", "csv", "-o", (folder_ / "charts").string()}}) {
    const auto end = run(words);
    EXPECT_THAT(end.code(), testing::AnyOf(0, 2)) << end.output;
  }

  std::vector<std::string> words = {"delete"};
  words.insert(words.end(), bad_.begin(), bad_.end());
  const auto removed = run(words);
  EXPECT_EQ(removed.code(), 0) << removed.output;
  for (const std::string& name : bad_) EXPECT_FALSE(fs::exists(home() / "runs" / name)) << name;
}

TEST_F(DamagedHome, EachRunIsAnsweredFor) {
  for (const char* verb : {"status", "stop"}) {
    for (const char* name : {"bad-deep-run-json", "bad-deep-spec-json", "bad-deep-lease", "bad-deep-progress-json",
                             "bad-deep-rank-0-jsonl", "bad-wrong-types-run-json", "bad-pipe-lease"}) {
      const auto end = run({verb, name});
      EXPECT_TRUE(end.in_time && !end.crashed()) << verb << " " << name;
      EXPECT_THAT(end.code(), testing::AnyOf(0, 2, 4)) << verb << " " << name << ": " << end.output;
    }
  }
}

TEST_F(DamagedHome, AMasterServesIt) {
  master::MasterOptions options;
  options.home = home();
  options.program = options.worker = "/nonexistent";
  options.core_lock = folder_ / "cores";
  plan::Planner planner({.home = home(), .worker = options.worker});
  for (int start = 1; start <= 2; ++start) {
    const master::Master master(options, planner);
    const auto get = [&](const std::string& path) {
      net::http::ClientRequest request;
      request.url = master.url() + path;
      request.headers = {{"Authorization", "Bearer " + master.token()}};
      request.timeout = std::chrono::minutes(5);  // a program with a sanitizer packs 2 GiB for a minute
      return net::http::Client().send(request);
    };
    const auto page = Json::parse(get("/api/v1/runs?limit=1000").body);
    std::vector<std::string> names;
    for (const Json& run : page["runs"]) names.push_back(run["name"]);
    for (const char* good : {"good-task", "good-command"}) {
      EXPECT_THAT(names, Contains(good));
      // Its supervisor is lost: the master says so by itself.
      EXPECT_TRUE(test::eventually(
          [&] { return Json::parse(get(std::string("/api/v1/runs/") + good).body).value("state", "") == "failed"; }));
      EXPECT_EQ(get(std::string("/api/v1/runs/") + good + "/download").status, 200);
    }
    for (const std::string& name : names) {
      for (const char* part : {"", "/series", "/download", "/logs"}) {
        const auto answer = get("/api/v1/runs/" + name + part);
        EXPECT_THAT(answer.status, testing::AnyOf(200, 400, 404, 409, 422, 503)) << name << part << ": " << answer.body;
      }
    }
  }
}

}  // namespace
}  // namespace mlbench
