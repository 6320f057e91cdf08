#include "mlbench/report/records.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/test_error.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void make_run(const std::filesystem::path& home, const std::string& name, int64_t id) {
  std::filesystem::create_directories(runs_dir(home) / name);
  write_json_file(runs_dir(home) / name / "spec.json", {{"id", id}});
}

std::string error_of_finding(const std::filesystem::path& home, const std::string& name) {
  return error_of([&] { find_run(home, name); });
}

TEST(Records, RunsAreListedById) {
  const TemporaryFolder home;
  EXPECT_THAT(list_runs(home.path()), IsEmpty());
  make_run(home.path(), "b-1", 2);
  make_run(home.path(), "a-1", 10);
  make_run(home.path(), "z-1", 1);
  make_run(home.path(), ".new-x-1", 3);
  std::filesystem::create_directories(runs_dir(home.path()) / "empty");
  const auto runs = runs_dir(home.path());
  EXPECT_THAT(list_runs(home.path()), ElementsAre(runs / "z-1", runs / "b-1", runs / "a-1"));
  EXPECT_THAT(run_names(home.path()), ElementsAre("a-1", "b-1", "z-1"));
}

TEST(Records, AnUnknownRunNamesTheNearest) {
  const TemporaryFolder home;
  EXPECT_THAT(error_of_finding(home.path(), "r-1"), HasSubstr("start one with: mlbench run"));
  make_run(home.path(), "first-1", 1);
  make_run(home.path(), "first-2", 2);
  make_run(home.path(), "other-2", 3);
  EXPECT_EQ(find_run(home.path(), "first-2"), runs_dir(home.path()) / "first-2");
  EXPECT_THAT(error_of_finding(home.path(), "first"),
              HasSubstr("there are 3: first-1, first-2, ... (all: mlbench status)"));
  EXPECT_THAT(error_of_finding(home.path(), "../other-2"), HasSubstr("no run '../other-2'"));
}

TEST(Records, MembersOfOtherTypesAreDamage) {
  TemporaryFolder folder;
  const RecordJson good = make_record("r-1", 2, 10, 100, true);
  const auto read = [&](const Json& record) {
    write_json_file(folder / "run.json", record);
    return read_record(folder.path());
  };
  EXPECT_EQ(to_json(read(good)), to_json(record::Record(good)));
  for (const auto& [pointer, value] : std::vector<std::pair<const char*, Json>>{{"/state", 1},
                                                                                {"/id", "x"},
                                                                                {"/name", nullptr},
                                                                                {"/workers", 9e18},
                                                                                {"/workers", 70'000},
                                                                                {"/workers", -1},
                                                                                {"/limits", nullptr},
                                                                                {"/limits/light", "yes"},
                                                                                {"/goal/reached", 1},
                                                                                {"/segments", {1, 2}},
                                                                                {"/evaluations", {{"a", 1}}},
                                                                                {"/evaluations", {1}},
                                                                                {"/created_at", {}}}) {
    Json record = good.json();
    record[Json::json_pointer(pointer)] = value;
    EXPECT_THROW(read(record), UserError) << pointer << " " << value;
  }
  EXPECT_THROW(read({1, 2}), UserError);
  write_file_atomically(folder / "run.json", "{\"state\": " + std::string(500'000, '['));
  EXPECT_THROW(read_record(folder.path()), UserError);
}

TEST(Records, LastLines) {
  const TemporaryFolder folder;
  append(folder.path() / "log", "a\nb\nc", 5);
  EXPECT_THAT(last_lines(folder.path() / "log", 2), ElementsAre("b", "c"));
  EXPECT_THAT(last_lines(folder.path() / "log", 3), ElementsAre("a", "b", "c"));
  EXPECT_THAT(last_lines(folder.path() / "log", 9), ElementsAre("a", "b", "c"));
  EXPECT_THAT(last_lines(folder.path() / "none", 9), IsEmpty());
  // Only the end of a large file is read.
  {
    std::ofstream large(folder.path() / "large");
    for (int i = 0; i < 1'000'000; ++i) large << "line " << i << "\n";
  }
  EXPECT_THAT(last_lines(folder.path() / "large", 2), ElementsAre("line 999998", "line 999999"));
  EXPECT_THAT(last_lines(folder.path() / "large", 30'000).front(), "line 970000");
  EXPECT_LT(last_lines(folder.path() / "large", 1'000'000).size(), 400'000U);
}

}  // namespace
}  // namespace mlbench::report
