#include "mlbench/report/summary.h"

#include <gmock/gmock.h>

#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(ResultsTable, LineByLine) {
  EXPECT_EQ(results_table({make_record("r-1", 1, 60, 3000, true), make_record("r-2", 2, 40, 5400.4, true)}),
            "run  state     workers    time to goal  train  legacy  wall  throughput     comm.   waiting  transfer  "
            "evaluation    notes\n"
            "               x threads             s      s       s     s   samples/s  of train  of train  of train\n"
            "r-1  finished  1 x 1              60.0   60.0    59.0  65.0       3,000      25 %         -         -  "
            "Prec@1 85.25  light\n"
            "r-2  finished  2 x 1              40.0   40.0    39.0  45.0       5,400      25 %         -         -  "
            "Prec@1 85.25  light\n"
            "\n"
            "Scaling against r-1 (1 worker)\n"
            "run  workers  speed-up  efficiency    speed-up  efficiency\n"
            "               to goal     to goal  throughput  throughput\n"
            "r-1        1      1.00       100 %        1.00       100 %\n"
            "r-2        2      1.50        75 %        1.80        90 %\n"
            "\n"
            "2 workers reach Prec@1 >= 85 on test data 1.50 times as fast as 1, at 1.38 times the cost.\n"
            "The most workers that gain at least 25 % over the count before are 2.\n"
            "At 2 workers 25 % of the efficiency is lost. What limits it most: slower computation, all of the lost "
            "efficiency.\n"
            "Single runs have no interval: --repeat 4 tells whether a difference is real.\n"
            "Labels of these runs: light.\n");
}

TEST(ResultsTable, OneCountHasNoScaling) {
  RecordJson record = make_record("r-2", 2, 40, 5400, false);
  record["limits"]["light"] = false;
  EXPECT_EQ(results_table({record}),
            "run  state     workers    time to goal  train  legacy  wall  throughput     comm.   waiting  transfer  "
            "evaluation    notes\n"
            "               x threads             s      s       s     s   samples/s  of train  of train  of train\n"
            "r-2  finished  2 x 1       not reached   40.0    39.0  45.0       5,400      25 %         -         -  "
            "Prec@1 85.25\n");
}

// The geometric mean of 10 and 40 is 20.
TEST(ResultsTable, RepeatsAreOneRow) {
  const std::string table =
      results_table({make_record("r-1", 1, 10, 5400, true), make_record("r-1.2", 1, 40, 5400, true)});
  EXPECT_THAT(table, HasSubstr("\nRepeats: geometric means and 95 % intervals\n"));
  EXPECT_THAT(table, HasSubstr("torch, gloo  1     2          20.0  0.003 to 133653      1.00         -       100 %"));
  EXPECT_THAT(table, Not(HasSubstr("worth")));
}

TEST(ResultsTable, FailedRunsKeepTheirPlace) {
  RecordJson failed = make_record("r-2", 2, 40, 5400, false);
  failed["state"] = "failed";
  failed["evaluations"] = Json::array();
  failed["clocks"]["train_s"] = nullptr;
  failed["throughput"]["samples_per_s"] = nullptr;
  EXPECT_THAT(results_table({make_record("r-1", 1, 60, 3000, true), failed}),
              HasSubstr("r-2  failed    2 x 1       not reached      -    39.0  45.0           -         -         -   "
                        "      -  -             light\n"));
}

TEST(RunDetails, EnergyIsShownWhereTheHostHasAMeter) {
  RecordJson metered = make_record("r-2", 2, 40, 5400, true);
  const auto host = [](const std::string& name, const Json& meter, const Json& joules) {
    return Json{{"host", name}, {"meter", meter}, {"joules", joules}};
  };
  const Json n1 = host("n1", "RAPL: package-0, dram", 12345.0);
  metered["energy"] = {{"joules", 12345.0}, {"to_goal_joules", 8100.0}, {"hosts", Json::array({n1})}};
  EXPECT_THAT(run_details(metered),
              HasSubstr("\n  energy      12.3 kJ, 8.10 kJ to the goal (all programs of n1; RAPL: package-0, dram)\n"));
  const std::string table = results_table({make_record("r-1", 1, 60, 3000, true), metered});
  EXPECT_THAT(table, AllOf(HasSubstr("kJ to goal"), HasSubstr("  8.10  ")));
  EXPECT_THAT(results_table({make_record("r-1", 1, 60, 3000, true)}), Not(HasSubstr("energy")));
  metered["energy"]["to_goal_joules"] = nullptr;
  EXPECT_THAT(run_details(metered), HasSubstr("\n  energy      12.3 kJ (all programs of n1;"));
  for (const char* name : {"n2", "n3", "n4", "n5"})
    metered["energy"]["hosts"].push_back(host(name, "RAPL: package-0", 1));
  EXPECT_THAT(run_details(metered), HasSubstr("(all programs of n1, n2, n3 and 2 more; RAPL: package-0; RAPL: "
                                              "package-0, dram)\n"));
  metered["energy"] = {{"joules", nullptr}, {"to_goal_joules", nullptr}, {"hosts", {n1, host("n2", nullptr, nullptr)}}};
  EXPECT_THAT(run_details(metered), HasSubstr("\n  energy      not known: no meter can be read on n2\n"));
  metered["energy"]["hosts"] = Json::array({host("n1", nullptr, nullptr)});
  EXPECT_THAT(run_details(metered), Not(HasSubstr("energy")));
}

TEST(RunDetails, LineByLine) {
  EXPECT_EQ(run_details(make_record("r-2", 2, 40, 5400, true)),
            "r-2: finished, goal reached (Prec@1 85 on test data): 85.25 at step 750, epoch 1.25\n"
            "  task        fashion-mnist, closed\n"
            "  run         2 workers x 1 thread, torch, gloo, local, seed 42\n"
            "  labels      light\n"
            "  data        fashion-mnist\n"
            "  created     2026-01-31 12:00:00 UTC\n"
            "  started     2026-01-31 12:00:01 UTC\n"
            "  finished    2026-01-31 12:01:00 UTC\n"
            "  clocks      train 40.0 s, legacy 39.0 s, wall 45.0 s, prepare 0.500 s\n"
            "  throughput  5,400 samples/s (median step 5,400), peak memory 512 MB\n"
            "  weights     abc123\n"
            "\n"
            "Where rank 0's train clock goes\n"
            "step kind       time     share\n"
            "                   s  of train\n"
            "loading         1.00       2 %\n"
            "forward         10.0      25 %\n"
            "loss           0.000       0 %\n"
            "backward        20.5      51 %\n"
            "communication   10.0      25 %\n"
            "optimizer       2.00       5 %\n"
            "metrics        0.250       1 %\n"
            "\n"
            "Evaluations\n"
            "step  epoch  samples  split  train  Prec@1    loss\n"
            "                                 s\n"
            " 150   0.25   15,000  test    8.00   78.50  0.6123\n"
            " 750   1.25   75,000  test    40.0   85.25  0.4100\n");
}

TEST(RunDetails, NameTheFirstBadImages) {
  RecordJson record = make_record("r-2", 2, 40, 5400, true);
  Json first = Json::array();
  for (const char* image : {"train/a.jpg", "train/b.jpg", "train/c.jpg"}) {
    first.push_back({{"split", "train"}, {"sample", 1}, {"stand_in", 2}, {"image", image}, {"message", "empty"}});
  }
  record["data"]["bad_images"] = {{"allowed", 1200}, {"count", 0}, {"first", Json::array()}};
  EXPECT_THAT(run_details(record), Not(HasSubstr("bad images")));
  record["data"]["bad_images"] = {{"allowed", 1200}, {"count", 2}, {"first", {first[0], first[1]}}};
  EXPECT_THAT(run_details(record),
              HasSubstr("\n  bad images  2 of at most 1,200: train/a.jpg (empty), train/b.jpg (empty)\n"));
  record["data"]["bad_images"] = {{"allowed", 1200}, {"count", 1003}, {"first", first}};
  const std::string text = run_details(record);
  EXPECT_THAT(text, HasSubstr("1,003 of at most 1,200: train/a.jpg (empty), train/b.jpg (empty), train/c.jpg (empty) "
                              "and 1,000 more\n"));
  EXPECT_THAT(text, HasSubstr("  labels      1003 bad images, light\n"));
  EXPECT_THAT(results_table({record}), HasSubstr("1003 bad images, light"));
}

TEST(RunDetails, SayHowAnEmulatedAcceleratorWasFed) {
  RecordJson record = make_record("r-2", 2, 40, 5400, false);
  record["division"] = "throughput";
  record["goal"] = nullptr;
  record["emulated_step_s"] = 0.15;
  record["storage"] = {{"kind", "local"}, {"device_read_bytes", 1'200'000'000}};
  const std::string text = run_details(record);
  EXPECT_THAT(text, HasSubstr("  labels      emulated, throughput only, light\n"));
  EXPECT_THAT(text, HasSubstr("  accelerator emulated step of 0.15 s, 97 % used; read from devices: 1.2 GB, by calls: "
                              "not known\n"));
}

TEST(RunDetails, SayHowStepsWereFed) {
  RecordJson record = make_record("r-2", 2, 40, 5400, false);
  EXPECT_THAT(run_details(record), AllOf(Not(HasSubstr("ring")), Not(HasSubstr("checksums")), Not(HasSubstr("fed"))));
  const Json ring = {{"capacity", 3}, {"takes", 1200}, {"waits", 2}, {"mean_fill", 2.875}, {"min_fill", 0}};
  record["ring"] = ring;
  record["storage"] = {{"kind", "data s3, run local"},
                       {"objects", 12},
                       {"bytes", 0},
                       {"checks",
                        {{"images", {{"bytes", 12'000'000}, {"seconds", 0.0123}}},
                         {"cache_blocks", {{"bytes", 8'000'000}, {"seconds", 0.002}}}}}};
  record["effective"] = {{"name", "native"}, {"device", "cpu"}, {"decoding_threads", 2}};
  const Json epoch = {{"epoch", 1},
                      {"train_loss", 1.0},
                      {"metrics", Json::object()},
                      {"train_s", 1.0},
                      {"step", 10},
                      {"segment", 1},
                      {"ring", ring},
                      {"accelerator_utilisation", 0.97},
                      {"object_bytes", 0},
                      {"object_cache_bytes", 1'500'000}};
  record["epochs"] = Json::array({epoch});
  const std::string text = run_details(record);
  EXPECT_THAT(text,
              HasSubstr("  ring        3 batches; empty for 2 of 1,200 steps; 2.88 ready in the mean, 0 at least\n"));
  EXPECT_THAT(text,
              HasSubstr("  checksums   SHA-256 of images: 12 MB in 0.012 s; CRC-32C of the cache's blocks: 8.0 MB "
                        "in 0.002 s\n"));
  EXPECT_THAT(text, HasSubstr("How steps were fed, by epoch"));
  EXPECT_THAT(text, testing::ContainsRegex("1 +97 % +1,200 +2 +2.88 +0 +3 +not known +not known +0 B +1.5 MB\n"));
  record["storage"]["objects"] = nullptr;
  record["epochs"][0].erase("object_bytes");
  EXPECT_THAT(run_details(record), Not(HasSubstr("from its cache")));
  record["emulated_step_s"] = 0.15;
  record["storage"]["objects"] = 12;
  EXPECT_THAT(run_details(record), HasSubstr("by calls: not known, from the store: 0 B, from its cache: not known\n"));
}

TEST(RunDetails, StandOnAPage) {
  RecordJson record = make_record("r-2", 2, 40, 5400, true);
  record["task"] = "a|b";
  const std::string page = run_details(record, {TableFormat::kMarkdown});
  EXPECT_THAT(page, HasSubstr("- task        a\\|b, closed\n"));
  EXPECT_THAT(page, HasSubstr("\n## Evaluations\n\n| step | epoch | samples | split | train, s | Prec@1 | loss |\n"));
}

TEST(RunDetails, NameSeveralHostsAndATimeInTheQueue) {
  RecordJson record = make_record("r-2", 2, 40, 5400, true);
  record["clocks"]["queue_s"] = 0.0;
  record["hosts"] = Json::array({{{"name", "n1"}}});
  EXPECT_THAT(run_details(record), AllOf(Not(HasSubstr("queue")), Not(HasSubstr("hosts"))));
  record["clocks"]["queue_s"] = 90.0;
  record["hosts"].push_back({{"name", "n2"}});
  EXPECT_THAT(run_details(record), HasSubstr("local, seed 42\n  hosts       n1, n2\n"));
  EXPECT_THAT(run_details(record), HasSubstr("prepare 0.500 s, queue 90.0 s\n"));
}

TEST(RunDetails, TellWaitingFromTransfer) {
  RecordJson record = make_record("r-2", 2, 40, 5400, true);
  record["exchange"] = {{"wait_s", {7.0, 0.5}}, {"transfer_s", {2.5, 2.5}}, {"exact", true}, {"steps", 750}};
  EXPECT_THAT(run_details(record),
              HasSubstr("  exchange    transfer 2.50 s; wait 0.500 s (rank 1) to 7.00 s (rank 0)\n"));
  EXPECT_THAT(run_details(record), HasSubstr("communication   10.0      25 %\n"
                                             "  waiting       7.00      18 %\n"
                                             "  transfer      2.50       6 %\n"
                                             "optimizer "));
  EXPECT_THAT(results_table({record}), HasSubstr("      25 %      18 %       6 %  Prec@1 85.25"));

  record["exchange"]["exact"] = false;
  EXPECT_THAT(run_details(record),
              HasSubstr("transfer at most 2.50 s; wait at least 0.500 s (rank 1) to 7.00 s (rank 0)\n"));
  EXPECT_THAT(results_table({record}), HasSubstr("      25 %   >= 18 %    <= 6 %  Prec@1 85.25"));
}

TEST(RunDetails, TellExposedFromHiddenCommunication) {
  RecordJson record = make_record("r-2", 2, 40, 5400, true);
  record["exchange"] = {{"wait_s", {7.0, 0.5}},   {"transfer_s", {6.0, 6.0}}, {"exposed_s", {9.0, 4.5}},
                        {"hidden_s", {4.0, 2.0}}, {"exact", false},           {"steps", 750}};
  EXPECT_THAT(run_details(record), HasSubstr("to 7.00 s (rank 0); of rank 0's 9.00 s exposed, 4.00 s hidden\n"));
  EXPECT_THAT(run_details(record), HasSubstr("backward        20.5      51 %\n"
                                             "  hidden        4.00      10 %\n"));
  EXPECT_THAT(run_details(record), HasSubstr("communication   10.0      25 %\n"
                                             "  exposed       9.00      22 %\n"
                                             "optimizer "));
  EXPECT_THAT(results_table({record}), HasSubstr("      25 %   >= 18 %   <= 15 %      10 %  Prec@1 85.25"));
  record["exchange"]["hidden_s"] = {0.0, 0.0};
  EXPECT_THAT(results_table({record}), HasSubstr("      25 %   >= 18 %   <= 15 %  Prec@1 85.25"));
}

TEST(FailureText, NamesTheCulprit) {
  RecordJson record = make_record("r-2", 2, 40, 5400, false);
  EXPECT_EQ(failure_text(record), "");
  record["state"] = "failed";
  record["exit_codes"] = {3, 137};
  record["failure"] = {{"kind", "rank_died"},       {"rank", 1},       {"host", "node7"},
                       {"operation", "all_reduce"}, {"sequence", 123}, {"message", "rank 1 was killed by signal 9"},
                       {"log_tail", {"one", "two"}}};
  EXPECT_EQ(failure_text(record),
            "r-2 failed: rank_died, rank 1 on node7 in all_reduce #123\n"
            "  rank 1 was killed by signal 9\n"
            "  exit codes  rank 0: 3, rank 1: 137 (signal 9)\n"
            "  last log lines\n"
            "    one\n"
            "    two\n");
  record["exit_codes"] = {nullptr, nullptr};
  record["failure"] = {
      {"kind", "supervisor_lost"}, {"rank", nullptr}, {"message", "gone"}, {"log_tail", Json::array()}};
  EXPECT_EQ(failure_text(record),
            "r-2 failed: supervisor_lost\n"
            "  gone\n"
            "  exit codes  rank 0: unknown, rank 1: unknown\n");
  EXPECT_THAT(run_details(record), HasSubstr("r-2: failed, goal not reached (Prec@1 85 on test data)\n"));
}

TEST(FailureText, WhatAScriptWroteDoesNothingToATerminal) {
  RecordJson record = make_record("r-1", 1, 40, 5400, false);
  record["state"] = "failed";
  record["failure"] = {{"kind", "rank_error"},
                       {"rank", 0},
                       {"message", "no\x1b[2J\nr-1 finished"},
                       {"log_tail", {"\x1b]0;title\x07", "one\r\nr-1 finished"}}};
  EXPECT_EQ(failure_text(record),
            "r-1 failed: rank_error, rank 0\n"
            "  no\\x1b[2J\n"
            "  r-1 finished\n"
            "  exit codes  rank 0: 0\n"
            "  last log lines\n"
            "    \\x1b]0;title\\x07\n"
            "    one\\r\\nr-1 finished\n");
}

TEST(OperationsTable, TimesRatesAndFloors) {
  RecordJson record = make_record("r-1", 1, 40, 5400, true);
  EXPECT_EQ(operations_table(record), "");
  record["operations"] = {{{"name", "conv1"},
                           {"implementation", "forward jit"},
                           {"forward_s", 0.001},
                           {"backward_s", 0.003},
                           {"forward_floor_s", 0.0005},
                           {"backward_floor_s", 0.0015},
                           {"forward_flops", 2e8},
                           {"backward_flops", 3e8},
                           {"bytes", 1500000}},
                          {{"name", "bn1"},
                           {"implementation", "avx512"},
                           {"forward_s", 0.001},
                           {"backward_s", 0.003},
                           {"forward_floor_s", nullptr},
                           {"backward_floor_s", nullptr},
                           {"forward_flops", nullptr},
                           {"backward_flops", nullptr},
                           {"bytes", 500000}}};
  EXPECT_EQ(operations_table(record),
            "\nr-1, A step, operation by operation: rank 0's first thread; floor: the same kernels alone\n"
            "operation  forward           backward           data  floor    floor  implementation\n"
            "                ms  GFLOP/s        ms  GFLOP/s    MB     ms  of time\n"
            "conv1        1.000      200     3.000      100  1.50  2.000     50 %  forward jit\n"
            "bn1          1.000        -     3.000        -  0.50      -        -  avx512\n"
            "all          2.000        -     6.000        -     -  2.000     25 %\n");
  for (Json& one : record["operations"]) one.update({{"forward_s", nullptr}, {"backward_s", nullptr}});
  EXPECT_EQ(operations_table(record),
            "\nr-1, The operations of a step\n"
            "operation  implementation\n"
            "conv1      forward jit\n"
            "bn1        avx512\n");
}

TEST(RunDetails, ThroughputRunsHaveNoGoal) {
  RecordJson record = make_record("r-2", 2, 40, 5400, false);
  record["division"] = "throughput";
  record["goal"] = nullptr;
  EXPECT_THAT(run_details(record), HasSubstr("r-2: finished\n"));
  EXPECT_THAT(results_table({record}), HasSubstr("no goal"));
  EXPECT_THAT(run_details(record), Not(HasSubstr("Prec@1 85 on")));
}

TEST(Summary, NamesOfARunDoNothingToATerminal) {
  RecordJson record = make_record("r-2", 2, 40, 5400, true);
  record["data"]["name"] =
      "\xE2\x80\xAE"
      "data";
  record["notes"] = {"a note\x1b[2J"};
  record["evaluations"][0]["metrics"]["Prec\xE2\x80\xAE@1"] = 1.0;
  const std::string details = run_details(record);
  EXPECT_THAT(details, AllOf(HasSubstr("\\u202edata"), HasSubstr("a note\\x1b[2J"), HasSubstr("Prec\\u202e@1")));
  EXPECT_THAT(details, AllOf(Not(HasSubstr("\xE2\x80\xAE")), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace mlbench::report
