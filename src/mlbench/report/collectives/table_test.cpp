#include "mlbench/report/collectives/table.h"

#include <gmock/gmock.h>

#include <sstream>

#include "mlbench/report/collectives/test_collectives.h"

namespace mlbench::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(CollectivesTable, LinesOfNcclTests) {
  record::CollectiveForm wrong = make_form(10, 0.8, 1.2), unchecked = make_form(12345.6, 2.72, 4.08);
  wrong.wrong = 3;
  unchecked.wrong.reset();
  CollectivesResult result = make_result("r", "gloo", 2,
                                         {make_row("all_reduce", 2, "float32", make_form(12.5, 0.64, 0.96), wrong),
                                          make_row("all_reduce", 8388608, "float32", unchecked)});
  EXPECT_EQ(
      collectives_table(result),
      "# nThread 1 nGpus 0 minBytes 8 maxBytes 33554432 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
      "validation: 1 graph: 0\n"
      "# 2 ranks, gloo, time of an iteration: max of the ranks'\n"
      "#\n"
      "# Using devices\n"
      "#  Rank  0 Group  0 on     node-1 device cpu\n"
      "#  Rank  1 Group  0 on     node-2 device cpu\n"
      "#\n"
      "# Collective test starting: all_reduce\n"
      "#\n"
      "#                                                              out-of-place                       in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
      "#wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n"
      "           8             2     float     sum      -1    12.50    0.64    0.96       0    10.00    0.80    1.20  "
      "  "
      "   3\n"
      "    33554432       8388608     float     sum      -1  12345.6    2.72    4.08     N/A      N/A     N/A     N/A  "
      "  "
      " N/A\n"
      "# Out of bounds values : 1 FAILED\n"
      "# Avg bus bandwidth    : 2.08\n"
      "#\n"
      "# Collective test concluded: all_reduce\n");
}

TEST(CollectivesTable, LinesOfOsu) {
  CollectivesResult result = make_result(
      "r", "mpi", 2,
      {make_row("barrier", 0, "", make_form(100, 0, 0)), make_row("latency", 8, "int8", make_form(1.5, 0, 0)),
       make_row("bandwidth", 1024, "int8", make_form(0.8192, 1.25, 1.25)),
       make_row("bidirectional_bandwidth", 1024, "int8", make_form(1, 2, 2))});
  result.devices.clear();
  result.comm_stack = "mpi[serialized]";
  result.oversubscribed = true;
  result.spec.blocking = true;
  result.spec.counts = {1, 2};
  EXPECT_EQ(collectives_table(result),
            "# nThread 1 nGpus 0 2 sizes in elements warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
            "# Blocking Enabled: a barrier behind each operation, within its time\n"
            "# 2 ranks, mpi[serialized], oversubscribed, time of an iteration: max of the ranks'\n"
            "#\n"
            "#\n"
            "# Barrier Latency Test\n"
            "# Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"
            "           100.00             98.00            102.00          20\n"
            "# Out of bounds values : 0 OK\n"
            "#\n"
            "#\n"
            "# Latency Test, ranks 0 and 1, int8\n"
            "# Size         Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"
            "8                         1.50              1.47              1.53          20\n"
            "# Out of bounds values : 0 OK\n"
            "#\n"
            "#\n"
            "# Bandwidth Test, ranks 0 and 1, int8\n"
            "# Size        Bandwidth (MB/s)  Iterations\n"
            "1024                   1250.00          20\n"
            "# Out of bounds values : 0 OK\n"
            "#\n"
            "#\n"
            "# Bi-Directional Bandwidth Test, ranks 0 and 1, int8\n"
            "# Size        Bandwidth (MB/s)  Iterations\n"
            "1024                   2000.00          20\n"
            "# Out of bounds values : 0 OK\n"
            "#\n");
}

TEST(CollectivesTable, GpusAreNamed) {
  CollectivesResult result = make_result("r", "nccl", 2, {});
  result.gpus = 1;
  result.devices = {{"node-1", 0, "NVIDIA H100"}, {"node-1", 11, "cuda"}};
  EXPECT_THAT(collectives_table(result), AllOf(testing::StartsWith("# nThread 1 nGpus 1 minBytes 8 "),
                                               HasSubstr("#  Rank  0 Group  0 on     node-1 device  0 NVIDIA H100\n"
                                                         "#  Rank  1 Group  0 on     node-1 device 11 cuda\n")));
}

TEST(CollectivesTable, AMadeNetworkIsNamed) {
  CollectivesResult result = make_result("r", "gloo", 2, {});
  result.comm_stack = "netem(ring(gloo))";
  EXPECT_THAT(collectives_table(result),
              testing::HasSubstr("# 2 ranks, netem(ring(gloo)), synthetic network, time of"));
}

// Every line of data has the 13 columns that programs reading nccl-tests' output split it into.
TEST(CollectivesTable, LinesHaveThirteenColumnsHoweverLargeTheFigures) {
  record::CollectiveForm huge = make_form(98765432.1, 123456789, 12345678);
  huge.wrong = 123456789012;
  CollectivesLines table(make_result("r", "gloo", 2, {}));
  std::string line = table.row(make_row("all_reduce", 1, "float64", huge, make_form(0.004, 0.0001, 99999.9)));
  line.pop_back();
  line.erase(0, line.rfind('\n') + 1);
  std::istringstream words(line);
  size_t count = 0;
  for (std::string word; words >> word; ++count) {
  }
  EXPECT_EQ(count, 13u) << line;
  EXPECT_THAT(line, HasSubstr(" 9.9e+07   1e+08   1e+07  123456789012 "));
  EXPECT_THAT(line, HasSubstr("    0.00    0.00  100000       0"));
}

TEST(CollectivesTable, SectionsAreOfOneOperation) {
  const auto row = [](const char* operation, const char* dtype) {
    return make_row(operation, 1, dtype, make_form(1, 1, 1));
  };
  CollectivesLines table(make_result("r", "gloo", 2, {}));
  table.row(row("all_reduce", "float32"));
  EXPECT_THAT(table.row(row("all_reduce", "int8")), Not(HasSubstr("#"))) << "a column tells the type";
  EXPECT_THAT(table.row(row("reduce", "float32")),
              AllOf(HasSubstr("concluded: all_reduce"), HasSubstr("starting: reduce\n")));
  EXPECT_THAT(table.row(row("latency", "float32")), HasSubstr("ranks 0 and 1, float\n"));
  EXPECT_THAT(table.row(row("latency", "int8")), HasSubstr("ranks 0 and 1, int8\n"));
}

TEST(CollectivesTable, GrowsRowByRow) {
  const CollectivesResult result = make_result("r", "gloo", 2,
                                               {make_row("all_reduce", 2, "float32", make_form(12.5, 0.64, 0.96)),
                                                make_row("all_reduce", 4, "float32", make_form(13, 0.64, 0.96)),
                                                make_row("barrier", 0, "", make_form(5, 0, 0))});
  CollectivesLines lines(result);
  std::string out;
  for (const record::CollectiveRow& row : result.rows) out += lines.row(row);
  EXPECT_EQ(out + lines.end(result), collectives_table(result));
  CollectivesResult stopped = make_result("r", "gloo", 2, {});
  stopped.errors = {"stopped before all was measured"};
  EXPECT_THAT(CollectivesLines(stopped).end(stopped),
              AllOf(testing::StartsWith("# nThread 1 "), HasSubstr("# Ended early: stopped before")))
      << "without any row";
}

TEST(CollectivesTable, Percentiles) {
  record::CollectiveForm form = make_form(10, 1, 1, 21, 0.1);
  form.copies = true;
  form.capped = true;
  const std::vector<record::CollectiveRow> rows = {make_row("all_reduce", 2, "float32", form, make_form(20, 1, 1, 1)),
                                                   make_row("barrier", 0, "", make_form(5, 0, 0, 1))};
  EXPECT_EQ(
      percentiles_table(rows),
      "operation   size  type   redop  form                       iterations    min    p50    p95    p99    max    "
      "cv\n"
      "               B                                                          us     us     us     us     us\n"
      "all_reduce     8  float  sum    out_of_place +copy capped          21   9.00  10.00  10.90  10.98  11.00  "
      "0.06\n"
      "all_reduce     8  float  sum    in_place                            1  20.00  20.00  20.00  20.00  20.00  "
      "0.00\n"
      "barrier        0  none   none   out_of_place                        1   5.00   5.00   5.00   5.00   5.00  "
      "0.00\n");
}

TEST(CollectivesTable, Csv) {
  record::CollectiveForm form = make_form(10, 0.5, 0.75, 1), bare;
  form.copies = true;
  bare.time_us = 4;
  bare.alg_bw = 2;
  EXPECT_EQ(
      std::string(collectives_csv_header()) + collectives_csv_lines(make_row("all_reduce", 2, "float32", form, bare)),
      "operation,cycle,size,count,type,redop,root,device,form,iterations,time_us,min_us,p50_us,p95_us,p99_us,"
      "max_us,stdev_us,cv,p50_low_us,p50_high_us,alg_bw,bus_bw,wrong,copies,capped\n"
      "all_reduce,1,8,2,float,sum,-1,cpu,out_of_place,1,10,10,10,10,10,10,0,0,,,0.5,0.75,0,1,0\n"
      "all_reduce,1,8,2,float,sum,-1,cpu,in_place,,4,,,,,,,,,,2,,,0,0\n");
}

TEST(CollectivesTable, Pairs) {
  record::PairMatrix pairs;
  pairs.hosts = {"a", "b"};
  pairs.latency_bytes = 8;
  pairs.bandwidth_bytes = 65536;
  pairs.window = 64;
  pairs.latency_us = {{0, 10}, {11.5, 0}};
  pairs.bandwidth = {{0, 1.5}, {1.25, 0}};
  pairs.verdict = "the verdict\x1b[2J";
  EXPECT_EQ(pairs_table(pairs),
            "# Latency between pairs of ranks, 8 bytes, half the round trip (us)\n"
            "from \\ to      0      1\n"
            "0              -  10.00\n"
            "1          11.50      -\n"
            "# Bandwidth between pairs of ranks, 64 messages of 65536 bytes (GB/s)\n"
            "from \\ to      0      1\n"
            "0              -  1.500\n"
            "1          1.250      -\n"
            "# Slow: the verdict\\x1b[2J\n");
}

TEST(CollectivesTable, MeansOfAnArchive) {
  record::CollectiveForm form;
  form.time_us = 420;
  form.alg_bw = 0.0857;
  const std::vector<record::CollectiveRow> rows = {make_row("all_reduce", 9000, "float32", std::nullopt, form)};
  EXPECT_EQ(means_table(rows).render(),
            "    size    size  type     device   time   algbw  busbw\n"
            "elements       B                      us    GB/s   GB/s\n"
            "   9,000  36,000  float32  cpu     420.0  0.0857      -\n");
}

}  // namespace
}  // namespace mlbench::report
