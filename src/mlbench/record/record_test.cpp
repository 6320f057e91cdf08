#include "mlbench/record/record.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/record/test_schema.h"

namespace mlbench::record {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Null and absent say the same.
void erase_nulls(Json& json) {
  if (json.is_object()) {
    for (auto member = json.begin(); member != json.end();) {
      if (member->is_null()) {
        member = json.erase(member);
      } else {
        erase_nulls(*member++);
      }
    }
  } else if (json.is_array()) {
    for (Json& element : json) erase_nulls(element);
  }
}

// Every record that the documents quote is written as it was read, but for names that have changed since.
TEST(RecordMembers, AreExactInversesOnRecordedResults) {
  const fs::path docs = fs::path(environment_variable("MLBENCH_TEST_SOURCE_DIR").value()) / "docs";
  int results = 0, earlier = 0;
  for (const auto& entry : fs::recursive_directory_iterator(docs)) {
    const bool is_earlier = *entry.path().lexically_relative(docs).begin() == "earlier";
    if (is_earlier ? entry.path().extension() != ".json" : entry.path().filename() != "run.json") continue;
    SCOPED_TRACE(entry.path());
    Json given = read_json_file(entry.path(), inputs::kRecord);
    for (const char* place : {"/framework", "/effective/name"}) {
      const Json::json_pointer pointer(place);
      if (given.contains(pointer) && given[pointer] == "onednn") given[pointer] = "native";
    }
    if (is_earlier) {  // these members are younger than the record; emplace() changes none that it has
      given["limits"].emplace("to_the_end", false);
      given.emplace("operations", Json::array());
    }
    Json written = to_json(record_from_json(given, entry.path()));
    EXPECT_EQ(to_json(record_from_json(written, "written")), written);
    erase_nulls(given);
    erase_nulls(written);
    EXPECT_EQ(Json::diff(given, written), Json::array());
    ++(is_earlier ? earlier : results);
  }
  EXPECT_GE(results, 20);
  EXPECT_GE(earlier, 16);
}

// A record of which nothing is left out.
Record full_record() {
  Record record;
  record.overrides = {spec::Override{"optimizer.lr", "0.1"}};
  record.algorithm.emplace().tuned_trials = 5;
  record.communication.emplace();
  record.requested.emplace();
  record.effective.emplace();
  record.effective->overlap_off = "few cores";
  record.effective->collectives_by = "gloo";
  record.effective->convolution = record.requested->convolution = "winograd";
  record.effective->convolution_why = {"winograd in 16 layers: faster"};
  record.effective->decoding_threads = 2;
  record.effective->bfloat16_speed = bfloat16_speed_not_known("products", "not measured");
  record.effective->replicated = record.effective->staged = record.effective->one_collective = true;
  record.effective->variables = {"A=b"};
  record.failure.emplace();
  record.segments.emplace_back().failure.emplace();
  record.placement.emplace().emplace_back();
  record.environment->version = record.environment->git_describe = record.environment->build_id = "1";
  record.environment->build_type = record.environment->compiler = "x";
  record.environment->libraries = {{"libtorch", "2"}};
  Host& host = record.hosts.emplace_back();
  host.nics.emplace_back();
  host.gpus.emplace_back();
  record.collectives.emplace();
  record.data.generator = "v1";
  record.data.fixed_batch = true;
  record.data.bad_images.emplace().first.emplace_back();
  record::Exchange exchange;
  exchange.wait_s = exchange.transfer_s = exchange.exposed_s = exchange.hidden_s = {1.0};
  exchange.staleness = {10, 2};
  record.exchange = exchange;
  Goal& goal = record.goal.emplace();
  goal.higher_is_better = true;
  goal.target_loss = 1;
  goal.steps_s.emplace();
  goal.exchange = exchange;
  goal.best.emplace();
  Evaluation& evaluation = record.evaluations.emplace_back();
  evaluation.cadence = true;
  evaluation.elapsed_s = 1;
  Epoch& epoch = record.epochs.emplace_back();
  epoch.gradient_norm = 1;
  epoch.clipped_steps = 1;
  epoch.device_read_bytes = epoch.call_read_bytes = epoch.object_bytes = epoch.object_cache_bytes = 1;
  epoch.accelerator_utilisation = 1;
  epoch.ring.emplace();
  record.ring.emplace();
  record.storage.requests = record.storage.retries = record.storage.cache_hits = record.storage.cache_bytes = 1;
  record.storage.device_read_bytes = record.storage.call_read_bytes = 1;
  const CheckedBytes checked{1, 1};
  record.storage.checks = Checks{.images = checked, .objects = checked, .cache_blocks = checked, .records = checked};
  record.operations.emplace_back();
  record.energy.emplace().hosts.emplace_back();
  record.custom.emplace().declared.emplace();
  record.emulated_step_s = 0.15;
  record.waited_for_data_s = std::vector{1.0};
  return record;
}

// Where a schema leaves a choice, the one that is no null.
Json resolved(const Json& root, Json schema) {
  if (const auto choices = schema.find("oneOf"); choices != schema.end()) {
    for (const Json& one : Json(*choices)) {
      if (one.value("type", Json()) != "null") schema = one;
    }
  }
  if (schema.contains("$ref")) {
    return resolved(root, root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))));
  }
  return schema;
}

void expect_members_of_schema(const Json& root, const Json& schema, const Json& value, const std::string& path) {
  if (value.is_array() && !value.empty() && schema.contains("items")) {
    expect_members_of_schema(root, resolved(root, schema["items"]), value[0], path + "[]");
  }
  if (!value.is_object() || !schema.contains("properties")) return;
  for (const auto& [name, property] : schema["properties"].items()) {
    EXPECT_TRUE(value.contains(name)) << path << name << " is in the schema, and no member of the record";
    if (value.contains(name)) {
      expect_members_of_schema(root, resolved(root, property), value[name], path + name + ".");
    }
  }
  for (const auto& [name, unused] : value.items()) {
    EXPECT_TRUE(schema["properties"].contains(name)) << path << name << " is a member of the record, not in the schema";
  }
}

TEST(RecordMembers, AreThoseOfTheSchema) {
  const fs::path source = environment_variable("MLBENCH_TEST_SOURCE_DIR").value();
  const Json schema = read_json_file(source / "api/run.schema.json", inputs::kJsonBody);
  expect_members_of_schema(schema, schema, to_json(full_record()), "");
}

TEST(RecordMembers, AnEmptyRecordMeetsTheSchemaButForWhatARunAlwaysHas) {
  if (const std::string missing = SchemaValidator::missing(); !missing.empty()) GTEST_SKIP() << missing;
  Record record;
  record.id = 1;
  record.name = "r-1";
  record.created_at = "2026-11-21T11:33:47.000000Z";
  record.repeat = record.workers = record.threads_per_worker = record.inter_op_threads = 1;
  record.division = "closed";
  record.task_hash = std::string(64, '0');
  record.oversubscribed = record.shared_host = false;
  record.seed = 42;
  record.state = "queued";
  for (const char* kind :
       {"batch_load", "init", "fwd_pass", "comp_loss", "backprop", "agg", "opt_step", "comp_metrics", "checkpoint"}) {
    record.steps_s.emplace_back(kind, 0.0);
  }
  record.clocks.queue_s = record.clocks.wall_s = record.clocks.train_s = record.clocks.train_legacy_s = 0;
  record.throughput.samples = record.throughput.steps = 0;
  record.overrides.emplace();
  record.requested.emplace();
  record.effective.emplace();
  EXPECT_EQ(SchemaValidator("run.schema.json").complaint(to_json(record)), "");
}

TEST(RecordMembers, MembersOfLaterProgramsAreKept) {
  const Json given = {{"name", "r-1"},
                      {"later", {1, {{"a", nullptr}}}},
                      {"goal", {{"metric", "Prec@1"}, {"split", "test"}, {"reached", false}, {"later", "x"}}},
                      {"limits", {{"light", true}, {"later", 2.5}}},
                      {"evaluations", {{{"split", "test"}, {"metrics", {{"loss", nullptr}}}, {"later", {}}}}}};
  const Record record = record_from_json(given, "run.json");
  EXPECT_TRUE(std::isnan(spec::find_number(record.evaluations.at(0).metrics, "loss").value()));
  const Json written = to_json(record);
  EXPECT_EQ(written["later"], given["later"]);
  EXPECT_EQ(written["goal"]["later"], "x");
  EXPECT_EQ(written["limits"]["later"], 2.5);
  EXPECT_EQ(written["evaluations"][0]["later"], nullptr);
  EXPECT_EQ(written["evaluations"][0]["metrics"]["loss"], nullptr);
}

TEST(RecordMembers, AFormerNameOfTheFrameworkIsReadAsThePresentOne) {
  const Json given = {{"framework", "onednn"},
                      {"effective", {{"name", "onednn"}, {"device", "cpu"}}},
                      {"environment", {{"versions", {{"onednn", "2.6.3"}}}}}};
  const Json written = to_json(record_from_json(given, "run.json"));
  EXPECT_EQ(written["framework"], "native");
  EXPECT_EQ(written["effective"]["name"], "native");
  EXPECT_EQ(written["environment"]["versions"], given["environment"]["versions"]) << "the library keeps its name";
}

TEST(RecordMembers, AreNamedWhereTheyAreOfAnotherType) {
  const auto read = [](const Json& json) { return [=] { record_from_json(json, "run.json"); }; };
  EXPECT_THAT(read({{"goal", {{"reached", 1}}}}),
              ThrowsMessage<UserError>(HasSubstr("run.json: 'goal.reached' is 1; expected true or false")));
  EXPECT_THAT(read({{"segments", {{{"failure", {{"log_tail", {1}}}}}}}}),
              ThrowsMessage<UserError>(HasSubstr("'segments.0.failure.log_tail.0' is 1; expected a text")));
  EXPECT_THAT(read({{"steps_s", {{"agg", "x"}}}}), ThrowsMessage<UserError>(HasSubstr("'steps_s.agg'")));
  EXPECT_THAT(read({{"workers", 70'000}}), ThrowsMessage<UserError>(HasSubstr("more than any run")));
  EXPECT_THAT(read(Json::array()), ThrowsMessage<UserError>(HasSubstr("it is no JSON object")));
}

}  // namespace
}  // namespace mlbench::record
