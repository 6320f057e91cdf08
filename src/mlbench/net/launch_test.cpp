#include "mlbench/net/launch.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "mlbench/base/errors.h"
#include "mlbench/base/program_start.h"
#include "mlbench/base/signals.h"

namespace mlbench::net {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Environment = std::map<std::string, std::string>;

LaunchInfo detect(const Environment& environment) {
  return detect_launch([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

struct Case {
  std::string name;
  Environment environment;
  LaunchInfo expected;
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

// What each launcher leaves in the environment of one rank.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"nothing", {}, {0, 1, 0, 1, "", 0, "", "single process"}},
      {"torchrun",
       {{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"GROUP_RANK", "1"},
        {"MASTER_ADDR", "node-a"},
        {"MASTER_PORT", "29500"},
        {"GLOO_SOCKET_IFNAME", "eth0"},
        {"TORCHELASTIC_RUN_ID", "none"}},
       {5, 8, 1, 4, "node-a", 29500, "eth0", "RANK/WORLD_SIZE"}},
      {"rank_and_size_alone", {{"RANK", "2"}, {"WORLD_SIZE", "3"}}, {2, 3, 0, 1, "", 0, "", "RANK/WORLD_SIZE"}},
      {"openmpi",
       {{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"PMIX_RANK", "3"}},
       {3, 4, 1, 2, "", 0, "", "OMPI_COMM_WORLD_*"}},
      {"pmix_under_slurm",
       {{"PMIX_RANK", "1"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_NODEID", "1"},
        {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
        {"SLURM_JOB_NODELIST", "gpu[07-08]"}},
       {1, 2, 0, 1, "gpu07", 0, "", "PMIX_RANK"}},
      {"mpich",
       {{"PMI_RANK", "2"}, {"PMI_SIZE", "6"}, {"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "3"}},
       {2, 6, 2, 3, "", 0, "", "PMI_*"}},
      {"mvapich",
       {{"MV2_COMM_WORLD_RANK", "1"},
        {"MV2_COMM_WORLD_SIZE", "2"},
        {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
        {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}},
       {1, 2, 1, 2, "", 0, "", "MV2_COMM_WORLD_*"}},
      {"slurm",
       {{"SLURM_PROCID", "6"},
        {"SLURM_STEP_NUM_TASKS", "7"},
        {"SLURM_NTASKS", "99"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_NODEID", "3"},
        {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
        {"SLURM_JOB_NODELIST", "n[1-3,7],gpu05"}},
       {6, 7, 0, 1, "n1", 0, "", "SLURM_*"}},
      {"slurm_first_node",
       {{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "7"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_NODEID", "0"},
        {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
        {"SLURM_STEP_NODELIST", "b1"},
        {"SLURM_JOB_NODELIST", "a1,b1"},
        {"MASTER_PORT", "4711"}},
       {1, 7, 1, 2, "b1", 4711, "", "SLURM_*"}},
      {"lsf",
       {{"JSM_NAMESPACE_RANK", "4"},
        {"JSM_NAMESPACE_SIZE", "12"},
        {"JSM_NAMESPACE_LOCAL_RANK", "4"},
        {"JSM_NAMESPACE_LOCAL_SIZE", "6"}},
       {4, 12, 4, 6, "", 0, "", "JSM_NAMESPACE_*"}},
      {"pals",
       {{"PALS_RANKID", "9"}, {"PMI_SIZE", "16"}, {"PALS_LOCAL_RANKID", "1"}, {"PALS_LOCAL_SIZE", "8"}},
       {9, 16, 1, 8, "", 0, "", "PALS_*"}},
      {"kubernetes_indexed_job",
       {{"JOB_COMPLETION_INDEX", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "job-0.job"}, {"MASTER_PORT", "29500"}},
       {2, 4, 0, 1, "job-0.job", 29500, "", "JOB_COMPLETION_INDEX"}},
      {"horovod",
       {{"HOROVOD_RANK", "3"},
        {"HOROVOD_SIZE", "4"},
        {"HOROVOD_LOCAL_RANK", "1"},
        {"HOROVOD_LOCAL_SIZE", "2"},
        {"HOROVOD_CROSS_RANK", "1"}},
       {3, 4, 1, 2, "", 0, "", "HOROVOD_*"}},
      {"no_local_size",
       {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}, {"MPI_LOCALRANKID", "2"}},
       {5, 6, 2, 3, "", 0, "", "PMI_*"}},
      {"empty_is_unset", {{"RANK", ""}, {"WORLD_SIZE", "4"}}, {0, 1, 0, 1, "", 0, "", "single process"}},
      {"size_alone_means_nothing",
       {{"WORLD_SIZE", "4"}, {"SLURM_NTASKS", "4"}},
       {0, 1, 0, 1, "", 0, "", "single process"}},
  };
  return all;
}

class Launchers : public testing::TestWithParam<Case> {};

TEST_P(Launchers, Detected) {
  const LaunchInfo info = detect(GetParam().environment);
  const LaunchInfo& expected = GetParam().expected;
  EXPECT_EQ(info.source, expected.source);
  EXPECT_EQ(info.rank, expected.rank);
  EXPECT_EQ(info.size, expected.size);
  EXPECT_EQ(info.local_rank, expected.local_rank);
  EXPECT_EQ(info.local_size, expected.local_size);
  EXPECT_EQ(info.master_address, expected.master_address);
  EXPECT_EQ(info.master_port, expected.master_port);
  EXPECT_EQ(info.interface, expected.interface);
}

INSTANTIATE_TEST_SUITE_P(All, Launchers, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

// What a surrounding launcher says of this process is none of its children's business: base knows the same launchers.
TEST_P(Launchers, AreNotBelievedByChildren) {
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] : GetParam().environment) setenv(name.c_str(), value.c_str(), 1);
    begin_program({.held = end_signals()});
    int believed = 0;
    for (const auto& [name, value] : GetParam().environment) {
      // Users set these two under any launcher, and where none is there nothing is kept.
      const bool of_users = name == "GLOO_SOCKET_IFNAME" || name == "MASTER_PORT";
      const bool of_none = GetParam().name == "size_alone_means_nothing";
      if (!of_users && !of_none) believed += is_kept_from_children(name) ? 0 : 1;
    }
    _exit(believed);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "so many of its variables come through, times 256";
}

// The order of the list: drop the winner, and the next one wins.
TEST(Launch, FirstMatchWins) {
  Environment environment = {{"WORLD_SIZE", "4"}, {"PMI_SIZE", "4"}, {"SLURM_NTASKS", "4"}, {"PALS_SIZE", "4"}};
  const std::vector<std::pair<std::string, std::string>> order = {{"RANK", "RANK/WORLD_SIZE"},
                                                                  {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_*"},
                                                                  {"PMIX_RANK", "PMIX_RANK"},
                                                                  {"PMI_RANK", "PMI_*"},
                                                                  {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_*"},
                                                                  {"SLURM_PROCID", "SLURM_*"},
                                                                  {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_*"},
                                                                  {"PALS_RANKID", "PALS_*"},
                                                                  {"JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX"},
                                                                  {"HOROVOD_RANK", "HOROVOD_*"}};
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "HOROVOD_SIZE"}) {
    environment[size] = "4";
  }
  for (const auto& [rank, source] : order) environment[rank] = "1";
  for (const auto& [rank, source] : order) {
    EXPECT_EQ(detect(environment).source, source);
    environment.erase(rank);
  }
  EXPECT_EQ(detect(environment).source, "single process");
}

struct BadCase {
  Environment environment;
  std::string first, second;  // both in the message
};

TEST(Launch, ContradictionsNameVariableAndValue) {
  const std::vector<BadCase> bad = {
      {{{"RANK", "4"}, {"WORLD_SIZE", "4"}}, "RANK=4", "WORLD_SIZE=4"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "4"}}, "RANK=-1", "number from 0"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE=0", "number from 1"},
      {{{"RANK", "one"}, {"WORLD_SIZE", "4"}}, "RANK=one", "number"},
      {{{"RANK", "1 "}, {"WORLD_SIZE", "4"}}, "RANK=1 ", "number"},
      {{{"RANK", "99999999999999"}, {"WORLD_SIZE", "4"}}, "RANK=99999999999999", "number"},
      {{{"RANK", "1"}}, "RANK=1", "WORLD_SIZE"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
       "LOCAL_RANK=2",
       "LOCAL_WORLD_SIZE=2"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}}, "LOCAL_WORLD_SIZE=3", "WORLD_SIZE=2"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "0"}}, "MASTER_PORT=0", "1 to 65535"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "65536"}}, "MASTER_PORT=65536", "1 to 65535"},
      {{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
       "OMPI_COMM_WORLD_RANK=2",
       "OMPI_COMM_WORLD_SIZE=2"},
      {{{"PMIX_RANK", "1"}}, "PMIX_RANK=1", "PMI_SIZE or SLURM_STEP_NUM_TASKS"},
      {{{"PMI_RANK", "1"}}, "PMI_RANK=1", "PMI_SIZE"},
      {{{"MV2_COMM_WORLD_RANK", "2"}, {"MV2_COMM_WORLD_SIZE", "1"}}, "MV2_COMM_WORLD_RANK=2", "MV2_COMM_WORLD_SIZE=1"},
      {{{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "3"}}, "SLURM_PROCID=3", "SLURM_NTASKS=3"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "2(y3)"}},
       "SLURM_STEP_TASKS_PER_NODE=2(y3)",
       "2(x3),1"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1"}, {"SLURM_NODEID", "2"}},
       "SLURM_STEP_TASKS_PER_NODE=2,1",
       "SLURM_NODEID=2"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "3"}, {"SLURM_JOB_NODELIST", "n[1-"}}, "SLURM_JOB_NODELIST", "n[1-"},
      {{{"JSM_NAMESPACE_RANK", "1"}, {"JSM_NAMESPACE_SIZE", "1"}}, "JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=1"},
      {{{"PALS_RANKID", "1"}}, "PALS_RANKID=1", "PALS_SIZE or PMI_SIZE"},
      {{{"JOB_COMPLETION_INDEX", "0"}}, "JOB_COMPLETION_INDEX=0", "WORLD_SIZE"},
      {{{"HOROVOD_RANK", "x"}, {"HOROVOD_SIZE", "2"}}, "HOROVOD_RANK=x", "number"},
  };
  for (const BadCase& test : bad) {
    EXPECT_THAT([&] { detect(test.environment); },
                ThrowsMessage<UserError>(AllOf(HasSubstr(test.first), HasSubstr(test.second))));
  }
}

TEST(Launch, FirstHostOfNodeLists) {
  EXPECT_EQ(first_host_of_nodelist("n1"), "n1");
  EXPECT_EQ(first_host_of_nodelist("n[1-3,7],gpu05"), "n1");
  EXPECT_EQ(first_host_of_nodelist("gpu05,n[1-3]"), "gpu05");
  EXPECT_EQ(first_host_of_nodelist("node[007-012]"), "node007");
  EXPECT_EQ(first_host_of_nodelist("rack[2-3]n[10,20-25]"), "rack2n10");
  EXPECT_EQ(first_host_of_nodelist("n[5]-ib.cluster.example"), "n5-ib.cluster.example");
  EXPECT_EQ(first_host_of_nodelist("ip-10-0-0-1,ip-10-0-0-2"), "ip-10-0-0-1");
}

TEST(Launch, MalformedNodeLists) {
  for (const char* list : {"", ",", "n1,", ",n1", "n[", "n[]", "n[1", "n[1-", "n[1-]", "n[-2]", "n[3-1]", "n[1,]",
                           "n]1", "n[1]]", "n[a-b]", "n[1]2[", "n 1", "n1,,n2", "n[[1]]"}) {
    EXPECT_THAT([&] { first_host_of_nodelist(list); },
                ThrowsMessage<UserError>(AllOf(HasSubstr("'" + std::string(list) + "'"), HasSubstr("n[1-3,7],gpu05"))));
  }
}

}  // namespace
}  // namespace mlbench::net
