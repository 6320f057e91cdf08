#include "mlbench/report/collectives/result.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"
#include "mlbench/record/test_schema.h"
#include "mlbench/report/collectives/comparison.h"
#include "mlbench/report/collectives/test_collectives.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::HasSubstr;

record::PairMatrix made_pairs() {
  record::PairMatrix pairs;
  pairs.hosts = {"node-1", "node-2"};
  pairs.latency_bytes = 8;
  pairs.bandwidth_bytes = 65536;
  pairs.window = 64;
  pairs.latency_us = {{0, 10}, {11, 0}};
  pairs.bandwidth = {{0, 1.5}, {1.25, 0}};
  pairs.slow = {{"bandwidth", "direction", {1, 0}, {"node-2", "node-1"}, 0.5}};
  pairs.verdict = "words";
  return pairs;
}

CollectivesResult full_result() {
  record::CollectiveForm raw = make_form(10, 1, 2);
  raw.raw_times_us = {{9, 11}, {10, 10}};
  raw.capped = true;
  record::CollectiveForm unchecked = make_form(5, 1, 0, 3);
  unchecked.wrong.reset();
  unchecked.bus_bw.reset();
  CollectivesResult result =
      make_result("r", "gloo", 2,
                  {make_row("all_reduce", 2, "float32", raw, make_form(8, 2, 3)), make_row("barrier", 0, "", unchecked),
                   make_row("broadcast", 4, "bfloat16", std::nullopt, make_form(1, 1, 1))});
  result.rows[2].root = 1;
  result.comm_stack = "netem(gloo)";
  result.oversubscribed = true;
  result.env = {"GLOO_SOCKET_IFNAME=eth0"};
  result.errors = {"something"};
  result.nccl_version = 22703;
  result.gpus = 1;
  result.devices = {{"node-1", 0, "NVIDIA H100"}, {"node-2", std::nullopt, "cuda"}};
  result.spec.operations = {spec::Collective::kAllReduce, spec::Collective::kBarrier, spec::Collective::kBroadcast};
  result.pairs = made_pairs();
  return result;
}

TEST(CollectivesResult, TheDocumentIsInvertible) {
  for (const CollectivesResult& result : {full_result(), make_result("", "", 1, {})}) {
    const Json json = to_json(result);
    EXPECT_EQ(collectives_result_from_json(Json::parse(json.dump()), "here"), result) << json.dump(1);
  }
}

TEST(CollectivesResult, HasTheNamesOfNcclTests) {
  const Json json = to_json(full_result());
  for (const char* name : {"version", "start_time", "args", "env", "nccl_version", "config", "devices", "results",
                           "out_of_bounds", "average_bus_bandwidth", "errors", "end_time"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json["config"]["minimum_bytes"], 8);
  EXPECT_EQ(json["config"]["step_factor"], 2);
  EXPECT_EQ(json["config"]["blocking_collectives"], false);
  EXPECT_EQ(json["out_of_bounds"], (Json{{"count", 0}, {"okay", true}}));
  EXPECT_DOUBLE_EQ(json["average_bus_bandwidth"]["bandwidth"].get<double>(), 2)
      << "(2 + 3 + 1) / 3: barriers have none";
  EXPECT_EQ(json["devices"][1]["hostname"], "node-2");
}

TEST(CollectivesResult, WrongResultsAreCountedByRowAndForm) {
  CollectivesResult result = full_result();
  result.rows[0].out_of_place->wrong = 7;
  result.rows[0].in_place->wrong = 1;
  EXPECT_EQ(wrong_rows(result.rows), 2);
  EXPECT_EQ(to_json(result)["out_of_bounds"], (Json{{"count", 2}, {"okay", false}}));
  EXPECT_EQ(mean_bus_bandwidth({}), std::nullopt);
  record::Record record;
  EXPECT_EQ(wrong_rows(record), 0);
  record.collectives.emplace().rows = result.rows;
  EXPECT_EQ(wrong_rows(record), 2);
}

TEST(CollectivesResult, WhatIsNoDocumentIsNamed) {
  EXPECT_THAT(error_of([] { collectives_result_from_json(Json::array(), "x.json"); }),
              HasSubstr("x.json: it is no result of 'mlbench bench collectives'"));
  Json json = to_json(full_result());
  json["results"][1]["size"] = "8";
  EXPECT_THAT(error_of([&] { collectives_result_from_json(json, "x.json"); }), HasSubstr("x.json: 'results.1.size'"));
  json = to_json(full_result());
  json["version"] = 2;
  EXPECT_THAT(error_of([&] { collectives_result_from_json(json, "x.json"); }),
              HasSubstr("version 2; this program reads 1"));
  json = to_json(full_result());
  json["config"]["spec"]["iterations"] = 0;
  EXPECT_THAT(error_of([&] { collectives_result_from_json(json, "x.json"); }), HasSubstr("config.spec: 'iterations'"));
  json = to_json(full_result());
  json["args"] = {1};
  EXPECT_THAT(error_of([&] { collectives_result_from_json(json, "x.json"); }), HasSubstr("'args.0'"));
}

TEST(CollectivesResult, IsFoundInARecord) {
  const CollectivesResult result = full_result();
  record::Record record;
  record.name = "r";
  record.workers = 2;
  record.backend = "gloo";
  record.collectives = {.spec = result.spec, .rows = result.rows, .pairs = result.pairs};
  const auto found = collectives_of(record);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rows, result.rows);
  EXPECT_EQ(found->pairs, result.pairs);
  EXPECT_EQ(found->spec, result.spec);
  EXPECT_EQ(found->workers, 2);
  EXPECT_EQ(found->backend, "gloo");
  EXPECT_EQ(collective_rows_of(to_json(result)["results"], "a document"), result.rows);
  EXPECT_EQ(collectives_of(record::Record()), std::nullopt);
}

// A record like those of build_record(), without the members that collectives_of() ignores.
RecordJson record_on_hosts(bool gpus) {
  RecordJson record = Json{{"name", "r"}, {"workers", 3}, {"backend", gpus ? "nccl" : "mpi"}};
  record["collectives"] = to_json(make_result("r", "mpi", 3, {}));
  record["requested"] = {{"device", gpus ? "cuda" : "cpu"}};
  for (int rank = 0; rank < 3; ++rank) {
    record["placement"].push_back({{"rank", rank},
                                   {"host", rank < 2 ? "node-1" : "node-2"},
                                   {"local_rank", rank % 2},
                                   {"cores", nullptr},
                                   {"gpu", nullptr}});
  }
  record["hosts"] = {{{"name", "node-1"}, {"gpus", {{{"name", "NVIDIA A"}}, {{"name", "NVIDIA B"}}}}},
                     {{"name", "node-2"}}};
  record["environment"] = {{"libraries", {{"nccl", "2.27.3"}}}};
  record["effective"] = {{"variables", {"OMPI_MCA_pml=ob1"}}};
  return record;
}

TEST(CollectivesResult, DevicesVariablesAndVersionAreThoseOfTheRecord) {
  const CollectivesResult on_hosts = collectives_of(record_on_hosts(false)).value();
  EXPECT_EQ(on_hosts.devices, (std::vector<CollectiveDevice>{{"node-1"}, {"node-1"}, {"node-2"}}));
  EXPECT_EQ(on_hosts.env, std::vector<std::string>{"OMPI_MCA_pml=ob1"});
  EXPECT_EQ(on_hosts.gpus, 0);
  EXPECT_EQ(to_json(on_hosts)["devices"][2]["device"], nullptr);

  RecordJson record = record_on_hosts(true);
  record["placement"][1]["gpu"] = 0;  // the executor gave rank 1 this GPU
  const CollectivesResult on_gpus = collectives_of(record).value();
  EXPECT_EQ(on_gpus.devices, (std::vector<CollectiveDevice>{
                                 {"node-1", 0, "NVIDIA A"}, {"node-1", 0, "NVIDIA A"}, {"node-2", 0, "cuda"}}));
  EXPECT_EQ(on_gpus.nccl_version, 22703);
  const Json json = to_json(on_gpus);
  EXPECT_EQ(json["config"]["ngpus"], 1);
  EXPECT_EQ(json["nccl_version"], 22703);
  EXPECT_EQ(json["devices"][1]["device_info"], "NVIDIA A");

  // These parts are null before any start and in archives.
  for (const char* part : {"placement", "hosts", "environment", "effective"}) record[part] = nullptr;
  EXPECT_TRUE(collectives_of(record)->devices.empty());
  for (const char* part : {"placement", "hosts", "environment", "effective", "requested"}) record.erase(part);
  EXPECT_EQ(collectives_of(record)->nccl_version, std::nullopt);
  for (const char* version : {"", "2.27", "2.x.3", "2.270.3"}) {
    record["environment"] = {{"libraries", {{"nccl", version}}}};
    EXPECT_EQ(collectives_of(record)->nccl_version, std::nullopt) << version;
  }
}

TEST(CollectivesResult, AFileHoldsOneOrAList) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "results.json";
  const CollectivesResult two = full_result(), four = make_result("r", "gloo", 4, {});
  write_json_file(file, to_json(two));
  EXPECT_EQ(read_collectives_results(file), std::vector<CollectivesResult>{two});
  write_json_file(file, {to_json(two), to_json(four)});
  EXPECT_EQ(read_collectives_results(file), (std::vector<CollectivesResult>{two, four}));
  write_json_file(file, record_on_hosts(false));
  EXPECT_EQ(read_collectives_results(file), std::vector<CollectivesResult>{*collectives_of(record_on_hosts(false))});
  write_json_file(file, {to_json(two), 4});
  EXPECT_THAT(error_of([&] { read_collectives_results(file); }),
              HasSubstr("results.json[1]: it is no result of 'mlbench bench collectives'"));
  write_json_file(file, Json::array());
  EXPECT_THAT(error_of([&] { read_collectives_results(file); }), HasSubstr("it is no result of"));
}

TEST(CollectivesResult, EveryKindOfDocumentMeetsTheSchema) {
  if (const std::string missing = record::SchemaValidator::missing(); !missing.empty()) GTEST_SKIP() << missing;
  const record::SchemaValidator validator("collectives.schema.json");
  std::vector<record::CollectiveRow> stalled;
  for (const int64_t count : {8, 16, 32}) {
    stalled.push_back(make_row("all_gather", count, "float32", make_form(count == 16 ? 10'000 : 10, 1, 1)));
  }
  ASSERT_EQ(to_json(make_result("r-2", "gloo", 2, stalled))["stalled"].size(), 1U);
  for (const CollectivesResult& result :
       {full_result(), make_result("", "", 1, {}), make_result("r-2", "gloo", 2, stalled)}) {
    EXPECT_EQ(validator.complaint(to_json(result)), "");
  }
  for (const int64_t workers : {2, 4}) {  // with 4 ranks nothing is compared
    const CollectivesResult other = make_result("other", "gloo", workers, full_result().rows);
    Json compared = to_json(full_result());
    compared["comparison"] = to_json(compare_collectives({full_result()}, {other}));
    EXPECT_EQ(compared["comparison"]["rows"].empty(), workers == 4);
    EXPECT_EQ(validator.complaint(compared), "");
  }
  // The validator finds a wrong member of a row.
  Json wrong = to_json(full_result());
  wrong["results"][0]["in_place"]["time"] = "8";
  EXPECT_NE(validator.complaint(wrong), "");
  wrong = to_json(full_result());
  wrong["results"][0]["more"] = 1;
  EXPECT_NE(validator.complaint(wrong), "");
  wrong = to_json(full_result());
  wrong["pairs"].erase("verdict");
  EXPECT_NE(validator.complaint(wrong), "");
}

}  // namespace
}  // namespace mlbench::report
