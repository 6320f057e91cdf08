// Submissions and deletions are whole, whatever fails or dies in the middle; ids are never given twice.

#include "mlbench/home/runs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/notes.h"
#include "mlbench/home/staging.h"
#include "mlbench/report/records.h"
#include "mlbench/supervise/progress.h"

namespace mlbench::home {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kSet = {"s-1", "s-2", "s-3"};

class RunFolders : public testing::Test {
 protected:
  fs::path home() const { return folder_.path() / "home"; }
  fs::path runs() const { return runs_dir(home()); }
  static spec::RunSpec run_named(const std::string& name) {
    spec::RunSpec run;
    run.name = name;
    run.cache_dir = "/cache";
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
    return run;
  }
  static std::vector<spec::RunSpec> runs_named(const std::vector<std::string>& names) {
    std::vector<spec::RunSpec> runs;
    for (const std::string& name : names) runs.push_back(run_named(name));
    return runs;
  }
  void create(const std::vector<std::string>& names, const std::function<void(const char*)>& at_step = {}) const {
    create_runs(home(), runs_named(names), Waiting{}, at_step);
  }
  void delete_run_of(const std::string& name) const {
    fs::remove(runs() / name / "run.json");  // one that waits is active
    delete_run(home(), runs() / name);
  }
  int64_t id_of(const std::string& name) const { return read_json_file(runs() / name / "spec.json")["id"]; }
  std::vector<std::string> staged() const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(runs() / ".staging", none)) names.push_back(entry.path());
    return names;
  }
  // `body` in a process of its own, which may die in it.
  template <typename Body>
  static int in_child(const Body& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  TemporaryFolder folder_;
};

// "staged", "written", ..., in order, of a set of three.
const std::vector<std::pair<std::string, int>> kSteps = {
    {"staged", 1}, {"written", 1}, {"written", 3}, {"committed", 1}, {"moved", 1}, {"moved", 3}, {"published", 1}};

TEST_F(RunFolders, AFailureAtAnyStepLeavesNothing) {
  for (const auto& [step, time] : kSteps) {
    if (step == "published") continue;  // the runs are there
    SCOPED_TRACE(fmt::format("{} {}", step, time));
    int seen = 0;
    const auto fails = [&, step = step, time = time](const char* now) {
      if (now == step && ++seen == time) throw IoError("no space left");
    };
    EXPECT_THROW(create(kSet, fails), IoError);
    EXPECT_EQ(seen, time);
    EXPECT_THAT(report::run_names(home()), IsEmpty());
    EXPECT_THAT(staged(), IsEmpty());
    lock_runs(home());
    EXPECT_THAT(report::run_names(home()), IsEmpty());
  }
  create(kSet);
  EXPECT_EQ(report::run_names(home()), kSet);
}

TEST_F(RunFolders, AKillAtAnyStepLeavesAllOrNothing) {
  for (const auto& [step, time] : kSteps) {
    SCOPED_TRACE(fmt::format("{} {}", step, time));
    const int status = in_child([&, step = step, time = time] {
      int seen = 0;
      create(kSet, [&](const char* now) {
        if (now == step && ++seen == time) raise(SIGKILL);
      });
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    lock_runs(home());
    EXPECT_THAT(staged(), IsEmpty());
    const bool made = step == "committed" || step == "moved" || step == "published";
    ASSERT_EQ(report::run_names(home()), made ? kSet : std::vector<std::string>());
    std::set<int64_t> ids;
    for (const std::string& name : report::run_names(home())) {
      EXPECT_TRUE(read_waiting(runs() / name));
      EXPECT_EQ(report::read_record(runs() / name).state, "queued");
      ids.insert(id_of(name));
      delete_run_of(name);
    }
    EXPECT_EQ(ids.size(), made ? 3U : 0U);
    create(kSet);  // the names are free
    for (const std::string& name : kSet) {
      EXPECT_FALSE(ids.contains(id_of(name)));
      delete_run_of(name);
    }
    EXPECT_THAT(staged(), IsEmpty());
  }
}

// The folder stays for the diagnosis, under a name that says what it is.
TEST_F(RunFolders, AStartThatFailedMakesRoom) {
  for (const char* kept : {"s-1.failed", "s-1.failed.2"}) {
    create({"s-1"});
    EXPECT_TRUE(is_taken(home(), "s-1")) << "it may start yet";
    EXPECT_THROW(create({"s-1"}), NameTaken);
    fail_waiting(runs() / "s-1", "no such partition");
    EXPECT_FALSE(is_taken(home(), "s-1"));
    EXPECT_EQ(name_of_failed_start(home(), "s-1"), kept);
    const int64_t before = id_of("s-1");
    create({"s-1"});
    EXPECT_NE(id_of("s-1"), before);
    EXPECT_EQ(report::read_record(runs() / "s-1").state, "queued");
    const record::Record record = report::read_record(runs() / kept);
    EXPECT_EQ(record.name, kept);
    EXPECT_EQ(record.id, before);
    EXPECT_EQ(record.failure->message, "no such partition");
    EXPECT_THAT(record.notes, testing::Contains(testing::StartsWith("was named s-1 until")));
    EXPECT_EQ(read_spec(runs() / kept).name, kept);
    EXPECT_EQ(current_record(runs() / kept).state, "failed");
    delete_run_of("s-1");
  }
}

TEST_F(RunFolders, ARunWhoseRanksRanKeepsItsName) {
  create({"s-1"});
  fail_waiting(runs() / "s-1", "mpirun died under its ranks");
  record::RunProgress progress = *supervise::read_progress(runs() / "s-1");
  progress.placement = Json::parse(R"([{"rank": 0, "host": "h1", "local_rank": 0, "cores": null, "gpu": null}])");
  write_json_file(record_path(runs() / "s-1"), record::to_json(supervise::record_of(runs() / "s-1", progress)));
  EXPECT_FALSE(name_of_failed_start(home(), "s-1"));
  EXPECT_THROW(create({"s-1"}), NameTaken);
  EXPECT_FALSE(name_of_failed_start(home(), "nobody-1"));
}

TEST_F(RunFolders, ATakenNameOfASetTakesNoneOfIt) {
  create({"s-2"});
  EXPECT_THROW(create(kSet), NameTaken);
  // The name goes after the first look at it.
  EXPECT_THROW(create({"t-1", "t-2"},
                      [&](const char* step) {
                        if (std::string(step) == "staged") create({"t-2"});
                      }),
               NameTaken);
  EXPECT_THAT(report::run_names(home()), ElementsAre("s-2", "t-2"));
  EXPECT_THAT(staged(), IsEmpty());
}

TEST_F(RunFolders, WhatALivingOwnerStagesIsLeftAlone) {
  create(kSet, [&](const char* step) {
    if (std::string(step) == "written") lock_runs(home());
  });
  EXPECT_EQ(report::run_names(home()), kSet);
}

TEST_F(RunFolders, ADeletionThatWasKilledIsFinished) {
  create({"s-1"});
  const int status = in_child([&] {
    const FileLock lock = lock_runs(home());
    Staging staging(runs());
    staging.take("s-1");
    raise(SIGKILL);
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(report::run_names(home()), IsEmpty());
  lock_runs(home());
  EXPECT_THAT(staged(), IsEmpty());
  create({"s-1"});
}

// A disk with room for so many files: each creation needs a few more than the one before that failed.
TEST_F(RunFolders, AFullDiskTakesAllOrNothing) {
  fs::create_directories(runs());
  constexpr int kNoMount = 77;
  const int status = in_child([&]() -> int {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoMount;
    for (int files = 4;; ++files) {
      if (mount("runs", runs().c_str(), "tmpfs", 0, fmt::format("nr_inodes={}", files).c_str()) != 0) return kNoMount;
      bool made = true;
      try {
        create(kSet);
      } catch (const IoError&) {
        made = false;
      }
      if (report::run_names(home()).size() != (made ? kSet.size() : 0)) return 1;
      if (!staged().empty()) return 2;
      if (umount(runs().c_str()) != 0) return 3;
      if (made) return files > 12 ? 0 : 4;
    }
  });
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kNoMount) GTEST_SKIP() << "missing capability: root, to mount a file system";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(RunFolders, NoIdIsGivenTwice) {
  create({"a-1", "a-2"});
  EXPECT_EQ(id_of("a-2"), 2);
  // A home copied without its hidden files.
  fs::remove(runs() / ".next-id");
  create({"b-1"});
  EXPECT_EQ(id_of("b-1"), 3);
  int64_t last = 3;
  for (const char* damage : {"", "{", "[[[[", "{\"next\": 1}", "{\"next\": 1, \"runs_changed_ns\": 5}", "\xff\xfe",
                             "-1", "1", "{\"next\": \"x\", \"runs_changed_ns\": 1}", "99999999999999999999"}) {
    std::ofstream(runs() / ".next-id") << damage;
    const std::string name = fmt::format("damaged{}-1", last);
    create({name});
    EXPECT_EQ(id_of(name), ++last) << damage;
  }
  // Runs that were copied here by hand.
  fs::copy(runs() / "a-1", runs() / "copied-1", fs::copy_options::recursive);
  Json spec = read_json_file(runs() / "copied-1" / "spec.json");
  spec["id"] = 70;
  write_json_file(runs() / "copied-1" / "spec.json", spec);
  create({"c-1"});
  EXPECT_EQ(id_of("c-1"), 71);
  // One of whose files is damaged.
  record::Record record = report::read_record(runs() / "copied-1");
  record.id = 90;
  write_json_file(runs() / "copied-1" / "run.json", to_json(record));
  std::ofstream(runs() / "copied-1" / "spec.json") << "{";
  fs::remove(runs() / ".next-id");
  create({"d-1"});
  EXPECT_EQ(id_of("d-1"), 91);
  // The highest of all is deleted.
  delete_run_of("d-1");
  create({"d-1"});
  EXPECT_EQ(id_of("d-1"), 92);
}

TEST_F(RunFolders, AHomeMadeAnewHasOtherRuns) {
  const auto make = [&] { return create_run(home(), run_named("r-1"), Waiting{}); };
  const spec::RunSpec first = make();
  fs::remove_all(home());
  const spec::RunSpec second = make();
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(first.identity.size(), 32U);
  EXPECT_NE(first.identity, second.identity);
  EXPECT_EQ(read_spec(second.run_dir).identity, second.identity);
}

TEST_F(RunFolders, OtherRunsAreNotRead) {
  create({"a-1"});
  for (int i = 0; i < 3; ++i) {
    fs::remove(runs() / "a-1" / "spec.json");
    fs::remove(runs() / "a-1" / "run.json");
    std::ofstream(runs() / "a-1" / "spec.json") << "{\"id\": 1000}";
    create({fmt::format("b-{}", i)});
    EXPECT_EQ(id_of(fmt::format("b-{}", i)), 2 + 2 * i);
    create({fmt::format("c-{}", i)});
    delete_run_of(fmt::format("c-{}", i));
  }
}

TEST_F(RunFolders, NoEditOfNotesIsLost) {
  create({"a-1"});
  const auto add = [&](char letter) {
    for (int i = 0; i < 16; ++i) {
      change_notes(home(), runs() / "a-1",
                   [&](report::RunNotes& notes) { notes.tags.push_back(fmt::format("{}{}", letter, i)); });
    }
  };
  std::thread one([&] { add('x'); }), other([&] { add('y'); });
  one.join();
  other.join();
  EXPECT_EQ(report::read_notes(runs() / "a-1").tags.size(), 32u);
  const std::string before = read_file(notes_path(runs() / "a-1"));
  EXPECT_THROW(add('z'), UserError) << "one too many";
  EXPECT_EQ(read_file(notes_path(runs() / "a-1")), before);
  delete_run_of("a-1");
  EXPECT_THROW(add('x'), UserError);
  EXPECT_FALSE(fs::exists(runs() / "a-1"));
}

TEST(RunNames, LoseTheNumberOfARepeat) {
  for (const auto& [name, base] : std::vector<std::pair<std::string, std::string>>{{"r-2", "r-2"},
                                                                                   {"r-2.3", "r-2"},
                                                                                   {"resnet.v1-1", "resnet.v1-1"},
                                                                                   {"resnet.v1-1.12", "resnet.v1-1"},
                                                                                   {"net.2-1", "net.2-1"},
                                                                                   {"7", "7"},
                                                                                   {"x.", "x."}}) {
    EXPECT_EQ(without_repeat(name), base) << name;
  }
}

}  // namespace
}  // namespace mlbench::home
