#include "mlbench/spec/run_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_error.h"

namespace mlbench::spec {
namespace {

// Every field different from its default.
RunSpec full_spec() {
  RunSpec spec;
  spec.id = 7;
  spec.name = "r-2.3";
  spec.repeat = 3;
  spec.created_at = "2026-01-31T12:00:00.000001Z";
  spec.asked = {{"name", "r"}, {"workers", {"2"}}};
  spec.identity = "0123456789abcdef0123456789abcdef";
  spec.framework = "native";
  spec.backend = "mpi";
  spec.executor = "mpirun";
  spec.engine = {{"hosts", "h1:2"}, {"requeue", 3}};
  spec.cpus = 2.5;
  spec.workers = 2;
  spec.threads_per_worker = 4;
  spec.inter_op_threads = 2;
  spec.decoding_threads = 3;
  spec.max_bad = 5;
  spec.oversubscribed = true;
  spec.share_host = true;
  spec.seed = std::numeric_limits<uint64_t>::max();
  spec.limits = {100, 2.5, 1e-3, true, true};
  spec.checkpoint = {50, true, false};
  spec.comm_timeout_s = 0.1;
  spec.communication = {"bfloat16", true, "latency=1ms", "ring", 4, 1 << 20, "eth0"};
  spec.data_name = "fashion-mnist";
  spec.data_dirs = {"/data/a b", "/data/ü"};
  spec.cache_dir = "/home/cache";
  spec.synthetic = true;
  spec.emulated_step_s = 0.15;
  spec.device = "cuda";
  spec.convolution = "winograd";
  spec.profile = "time";
  spec.timeline = true;
  spec.run_dir = "/home/runs/r-2.3";
  const std::vector<Override> overrides = {{"precision", "bf16"}, {"optimizer.lr", "0.1"}};
  set_task(spec, find_task("fashion-mnist", "", "", overrides), overrides);
  return spec;
}

TEST(RunSpec, JsonIsExactlyInvertible) {
  const RunSpec spec = full_spec();
  const Json json = to_json(spec);
  const RunSpec back = run_spec_from_json(Json::parse(json.dump()));
  EXPECT_EQ(back, spec);
  EXPECT_EQ(to_json(back).dump(), json.dump());
}

TEST(RunSpec, ALimitOfCpusCountsWithItsFraction) {
  RunSpec spec = full_spec();
  spec.workers = 3;
  spec.threads_per_worker = 2;
  spec.cpus = 0;
  EXPECT_EQ(cpus_text(spec), "2 threads");
  EXPECT_EQ(cores_needed(spec), 6);
  spec.cpus = 2.5;
  EXPECT_EQ(cpus_text(spec), "2 threads with 2.5 CPUs");
  EXPECT_EQ(cores_needed(spec), 8);
  EXPECT_EQ(run_spec_from_json(to_json(spec)).cpus, 2.5);
  Json json = to_json(spec);
  json["cpus"] = -1;
  EXPECT_THAT(error_of([&] { run_spec_from_json(json); }), testing::HasSubstr("cpus"));
}

TEST(RunSpec, WhatSaysNothingToAnExecutorIsLeftOut) {
  Json json = to_json(full_spec());
  json["engine"] = {{"hosts", "h1:2"},
                    {"image", ""},
                    {"requeue", 0},
                    {"slurm", Json::array()},
                    {"kubernetes", {{"context", ""}, {"host_network", false}}}};
  EXPECT_EQ(run_spec_from_json(json).engine, Json({{"hosts", "h1:2"}}));
}

TEST(RunSpec, ACommandHasItsWords) {
  RunSpec run;
  set_command(run, {{"python3", "train.py"}, "/work", {"A=1"}});
  EXPECT_FALSE(uses_worker(run));
  EXPECT_FALSE(trains(run));
  EXPECT_EQ(run_spec_from_json(to_json(run)), run);
}

TEST(RunSpec, TheInversionIsTriedOnOtherValuesThanTheDefaults) {
  RunSpec plain;
  plain.task = find_task("fashion-mnist", "", "", {});
  plain.division = "closed";
  const Json full = to_json(full_spec());
  const Json defaults = to_json(plain);
  for (const auto& [key, value] : full.items()) {
    if (key == "spec_version" || key == "fixed_batch") continue;
    EXPECT_NE(defaults.at(key), value) << key;
  }
}

TEST(RunSpec, EveryFieldIsNeededAndNamed) {
  const Json good = to_json(full_spec());
  const auto error_without = [&](const Json::json_pointer& place) {
    Json json = good;
    json.at(place.parent_pointer()).erase(place.back());
    return error_of([&] { run_spec_from_json(json); });
  };
  for (const char* table : {"", "/limits", "/checkpoint"}) {
    for (const auto& [key, value] : good.at(Json::json_pointer(table)).items()) {
      const std::set<std::string> optional = {"communication",    "asked",           "engine",      "cpus",
                                              "decoding_threads", "emulated_step_s", "convolution", "max_bad"};
      if (optional.contains(key)) continue;  // a command has no communication
      const Json::json_pointer place = Json::json_pointer(table) / key;
      EXPECT_THAT(error_without(place), testing::AllOf(testing::StartsWith("spec.json: "), testing::HasSubstr(key)))
          << place;
    }
  }
  EXPECT_EQ(error_without("/identity"_json_pointer),
            "spec.json: missing key 'identity': use the mlbench that wrote it, or make it anew");
}

TEST(RunSpec, WrongValuesAreNamed) {
  const auto error_with = [](const char* pointer, const Json& value) {
    Json json = to_json(full_spec());
    json[Json::json_pointer(pointer)] = value;
    return error_of([&] { run_spec_from_json(json); });
  };
  EXPECT_EQ(error_with("/workers", 0), "spec.json: 'workers' is 0; expected a number from 1 to 10000");
  EXPECT_EQ(error_with("/seed", -1), "spec.json: 'seed' is -1; expected an integer of at least 0");
  EXPECT_EQ(error_with("/limits/light", "yes"), "spec.json: 'limits.light' is \"yes\"; expected true or false");
  EXPECT_EQ(error_with("/spec_version", 2), "spec.json: spec_version is 2; this program reads 1");
  EXPECT_EQ(error_with("/task/canonical/batch_size", -5),
            "spec.json: task: 'batch_size' is -5; expected a number from 1 to 100000000");
  EXPECT_EQ(error_with("/identity", "../../etc"), "spec.json: identity is '../../etc'; expected 32 hexadecimal digits");
  EXPECT_EQ(error_with("/convolution", "fft"), "spec.json: 'convolution' is \"fft\"; valid: auto, direct, winograd");
  EXPECT_EQ(error_with("/added_later", 1), "no error");
}

TEST(RunSpec, NoNumberIsReadBeyondItsRange) {
  const Json good = to_json(full_spec());
  int checked = 0;
  const Json flat = good.flatten();
  for (const auto& [path, number] : flat.items()) {
    if (!number.is_number() || path.starts_with("/task/") || path == "/spec_version") continue;
    if (path.starts_with("/engine/")) continue;  // the executor checks these numbers
    ++checked;
    for (const Json& value : {Json(1e308), Json(-1), Json(1e19), Json(nullptr), Json("1")}) {
      Json json = good;
      json[Json::json_pointer(path)] = value;
      try {
        run_spec_from_json(json, "/home/runs/r-1/spec.json");
        ADD_FAILURE() << path << " " << value;
      } catch (const UserError& error) {
        EXPECT_THAT(error.what(), testing::StartsWith("/home/runs/r-1/spec.json: '")) << path << " " << value;
      }
    }
  }
  EXPECT_EQ(checked, 17);
}

TEST(RunSpec, DivisionFollowsTheRules) {
  RunSpec spec;
  spec.workers = 4;
  set_task(spec, find_task("fashion-mnist", "", "", {}), {});
  EXPECT_EQ(spec.division, "closed");
  EXPECT_EQ(spec.precision, "float32");
  spec.limits.light = true;
  spec.limits.max_steps = 3;
  EXPECT_EQ(division_of(spec), "closed");
  spec.workers = 3;  // not among the task's
  EXPECT_EQ(division_of(spec), "open");
  spec.workers = 4;
  for (const Communication& one : {Communication{.wire_dtype = "float16"}, Communication{.netem = "latency=1ms"}}) {
    spec.communication = one;
    EXPECT_EQ(division_of(spec), "open");
  }
  spec.communication = {.check = true, .algorithm = "ring", .links = 2};
  EXPECT_EQ(division_of(spec), "closed");
  spec.fixed_batch = true;
  EXPECT_EQ(division_of(spec), "throughput");
  spec.fixed_batch = false;
  spec.emulated_step_s = 0.15;
  EXPECT_EQ(division_of(spec), "throughput");
}

TEST(RunSpec, OlderSpecificationsCommunicateAsEver) {
  Json json = to_json(full_spec());
  json.erase("communication");
  EXPECT_EQ(run_spec_from_json(json).communication, Communication());
}

TEST(RunSpec, AFormerNameOfTheFrameworkIsReadAsThePresentOne) {
  Json json = to_json(full_spec());
  json["framework"] = "onednn";
  EXPECT_EQ(run_spec_from_json(json), full_spec());
}

TEST(RunSpec, ATaskThatIsNotOfficialIsOnesOwn) {
  const std::string text(embedded_tasks().front().text);
  const auto with = [&](const std::string& more, const std::vector<Override>& overrides = {}) {
    RunSpec spec;
    spec.workers = 2;
    set_task(spec, parse_task({"copy.toml", text + more}, "", overrides), overrides);
    return spec;
  };
  EXPECT_EQ(with("# a copy\n").division, "closed");
  const std::string variant = "[variant.v1-20]\nepochs = 1\n";
  EXPECT_EQ(with(variant).division, "own");
  EXPECT_EQ(with(variant, {{"optimizer.lr", "0.3"}}).division, "own");
  RunSpec batch = with(variant);
  batch.fixed_batch = true;
  EXPECT_EQ(division_of(batch), "throughput");
}

// A run's file that was edited is refused, or the run gets the division that is due.
TEST(RunSpec, ABenchmarkOfCollectivesIsAKindOfItsOwn) {
  RunSpec run;
  EXPECT_TRUE(trains(run));
  run.workers = 4;
  set_collectives(run, task_0a());
  EXPECT_EQ(*collectives_of(run), task_0a());
  EXPECT_TRUE(uses_worker(run));
  EXPECT_FALSE(trains(run));
  EXPECT_EQ(run.task.task.name, "0a");
  EXPECT_EQ(run.division, "closed");
  EXPECT_EQ(run_spec_from_json(to_json(run)), run);

  run.workers = 3;
  set_collectives(run, task_0a());
  EXPECT_EQ(run.division, "open") << "3 is not one of its numbers of workers";

  CollectivesSpec capped = task_0a();
  capped.most_seconds_per_size = 1;
  set_collectives(run, capped);
  EXPECT_EQ(run.task.task.name, "collectives");
  EXPECT_EQ(run.division, "own");

  Json changed = to_json(run);
  changed["task"]["canonical"]["collectives"]["iterations"] = 7;
  EXPECT_THAT([&] { run_spec_from_json(changed); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("changed after the run was made")));
}

TEST(RunSpec, WhatDoesNotFitTheTasksHashIsRefused) {
  const auto read = [](bool open, const char* pointer, const Json& value) -> std::string {
    RunSpec spec = full_spec();
    spec.emulated_step_s = 0;  // else the division is throughput
    if (!open) {
      spec.communication = {};
      set_task(spec, find_task("fashion-mnist", "", "", {}), {});
    }
    Json json = to_json(spec);
    json[Json::json_pointer(pointer)] = value;
    try {
      return run_spec_from_json(json).division;
    } catch (const UserError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(read(false, "/seed", 1), "closed");
  EXPECT_EQ(read(false, "/division", "open"), "closed");
  EXPECT_EQ(read(false, "/task/open", true), "closed");
  for (const auto& [pointer, value] :
       {std::pair("/task/canonical/goal/target", 90.0), std::pair("/task/canonical/goal/light_target", 80.0),
        std::pair("/task/canonical/epochs", 80.0), std::pair("/task/canonical/optimizer/lr", 0.1)}) {
    EXPECT_THAT(read(false, pointer, value),
                testing::AllOf(testing::StartsWith("spec.json: task.hash is "),
                               testing::HasSubstr("the file was changed after the run was made")));
  }
  EXPECT_THAT(read(false, "/task/canonical/name", "1a"), testing::HasSubstr("task.hash is "));
  EXPECT_THAT(read(false, "/task/hash", std::string(64, 'a')), testing::HasSubstr("task.hash is "));
  EXPECT_EQ(read(false, "/precision", "bf16"),
            "spec.json: precision is bf16, but its task's is float32: the file was changed after the run was made");
  EXPECT_EQ(read(true, "/division", "closed"), "open");
  EXPECT_EQ(read(true, "/task/open", false), "open");
  EXPECT_THAT(read(true, "/overrides", Json::array()), testing::HasSubstr("task.hash is "));
}

}  // namespace
}  // namespace mlbench::spec
