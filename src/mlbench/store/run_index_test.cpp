#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>
#include <string_view>
#include <tuple>

#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"
#include "mlbench/store/run_index.h"

namespace mlbench::store {
namespace {

using testing::ElementsAre;
using testing::Pair;

IndexedRun run(int64_t id, const std::string& name, const std::string& state, const std::string& task) {
  return {id, name, state, task, id * 10, "{\"name\":\"" + name + "\"}"};
}

class RunIndexTest : public testing::Test {
 protected:
  RunIndexTest() {
    index().put({run(1, "a-1", "finished", "t1"), run(2, "a-2", "failed", "t1"), run(3, "b_1-1", "running", "t2")});
  }
  RunIndex& index() {
    if (!index_) index_ = std::make_unique<RunIndex>(folder_.path() / "store");
    return *index_;
  }
  std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const ListedRun& run : index().list()) out.push_back(run.name);
    return out;
  }
  TemporaryFolder folder_;
  std::unique_ptr<RunIndex> index_;
};

TEST_F(RunIndexTest, ListsTheNewestFirst) {
  EXPECT_THAT(names(), ElementsAre("b_1-1", "a-2", "a-1"));
  EXPECT_THAT(index().newest_summaries(2), ElementsAre("{\"name\":\"b_1-1\"}", "{\"name\":\"a-2\"}"));
  EXPECT_THAT(index().newest_summaries(2, "failed"), ElementsAre("{\"name\":\"a-2\"}"));
  EXPECT_THAT(index().summaries({"a-1", "none", "b_1-1"}), ElementsAre("{\"name\":\"a-1\"}", "{\"name\":\"b_1-1\"}"));
}

TEST_F(RunIndexTest, KeepsWhatListsAreMadeOf) {
  IndexedRun told = run(2, "a-2", "failed", "t1");
  told.workers = "4";
  told.executor = "slurm";
  told.labels = {"open", "light"};
  told.tags = {"x y"};
  told.figures = {{"wall_s", 2.5}, {"task", "t1"}, {"none", FigureValue()}};
  index().put({told});
  index().set_configurations({{"a-2", "a-1"}});
  index().put({told});
  const ListedRun listed = index().list()[1];
  EXPECT_EQ(std::tuple(listed.workers, listed.executor, listed.configuration), std::tuple("4", "slurm", "a-1"));
  EXPECT_THAT(listed.labels, ElementsAre("open", "light"));
  EXPECT_THAT(listed.tags, ElementsAre("x y"));
  EXPECT_THAT(index().figure("wall_s"), ElementsAre(Pair("a-2", FigureValue(2.5))));
  EXPECT_THAT(index().figure("task"), ElementsAre(Pair("a-2", FigureValue("t1"))));
  EXPECT_TRUE(index().figure("none").empty());
  index().remove({"a-2"});
  EXPECT_TRUE(index().figure("wall_s").empty());
}

TEST_F(RunIndexTest, FindsRepeatsByTheirName) {
  index().put({run(4, "a-1.2", "failed", "t1"), run(5, "a-1.10", "failed", "t1"), run(6, "a-10", "failed", "t1")});
  EXPECT_THAT(index().names_below("a-1"), ElementsAre("a-1", "a-1.2", "a-1.10"));
}

TEST_F(RunIndexTest, SearchesWhatWasSaid) {
  IndexedRun said = run(2, "a-2", "failed", "t1");
  said.words = "Bigger batches\n80 %\nx_y";
  index().put({said});
  for (const char* text : {"bigger", "80 %", "X_Y", "a-2"}) EXPECT_THAT(index().search({text}), ElementsAre("a-2"));
  EXPECT_THAT(index().search({"batches", "80"}), ElementsAre("a-2"));
  EXPECT_TRUE(index().search({"batches", "b_1"}).empty());
  EXPECT_TRUE(index().search({"xzy"}).empty());
}

TEST_F(RunIndexTest, TextIsNeverSqlNorAPattern) {
  EXPECT_THAT(index().search({"_"}), ElementsAre("b_1-1"));
  EXPECT_TRUE(index().search({"%"}).empty());
  EXPECT_TRUE(index().search({"\\"}).empty());
  EXPECT_TRUE(index().newest_summaries(9, "x' OR '1'='1").empty());
  EXPECT_TRUE(index().figure("x' OR '1'='1").empty());
  index().put({run(4, "x'); DROP TABLE runs; --", "failed", "t")});
  EXPECT_EQ(index().list().size(), 4U);
}

TEST_F(RunIndexTest, KnowsNamesStampsAndStates) {
  EXPECT_EQ(index().name_of(2), "a-2");
  EXPECT_EQ(index().name_of(9), std::nullopt);
  EXPECT_EQ(index().id_of("a-2"), 2);
  EXPECT_EQ(index().id_of("none"), std::nullopt);
  EXPECT_THAT(index().stamps(), ElementsAre(Pair("a-1", 10), Pair("a-2", 20), Pair("b_1-1", 30)));
  EXPECT_THAT(index().names_in_state("running"), ElementsAre("b_1-1"));
  EXPECT_THAT(index().count_by_state(), ElementsAre(Pair("failed", 1), Pair("finished", 1), Pair("running", 1)));
}

TEST_F(RunIndexTest, PutReplacesAndRemoveRemoves) {
  index().put({run(3, "b_1-1", "finished", "t2")});
  EXPECT_TRUE(index().names_in_state("running").empty());
  index().remove({"b_1-1", "no-such"});
  EXPECT_THAT(names(), ElementsAre("a-2", "a-1"));
}

TEST_F(RunIndexTest, SurvivesAndIsReplacedWhenDamaged) {
  index_.reset();
  EXPECT_THAT(names(), ElementsAre("b_1-1", "a-2", "a-1"));
  index_.reset();
  std::ofstream(folder_.path() / "store/index.sqlite") << std::string(10'000, 'x');
  EXPECT_EQ(index().list().size(), 0U);
  index().put({run(1, "a-1", "finished", "t1")});
  EXPECT_THAT(names(), ElementsAre("a-1"));
}

TEST_F(RunIndexTest, AFolderThatCannotBeMadeIsAnIoError) {
  std::ofstream(folder_.path() / "file") << "x";
  EXPECT_THROW(RunIndex(folder_.path() / "file"), IoError);
}

TEST_F(RunIndexTest, IsNotThrownAwayForWantOfDescriptors) {
  index_.reset();
  if (std::string_view(SANITIZER) == "address") {
    GTEST_SKIP() << "missing capability: a sanitizer that looks at objects without descriptors";
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  bool transient = false;
  try {
    index();
  } catch (const std::exception& error) {
    transient = is_transient(error);
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(transient);
  EXPECT_EQ(index().list().size(), 3U);
}

}  // namespace
}  // namespace mlbench::store
