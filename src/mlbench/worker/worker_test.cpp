// Tests the real worker, started by hand with torchrun's variables: training on synthetic data, resume, missing ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <tuple>

#include "mlbench/base/build_info.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/base/processor.h"
#include "mlbench/base/read_bytes.h"
#include "mlbench/base/storage.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/record/bfloat16_speed.h"
#include "mlbench/record/spool.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::worker {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

fs::path worker_program() {
  const char* path = std::getenv("MLBENCH_TEST_WORKER");
  if (path == nullptr) throw std::runtime_error("MLBENCH_TEST_WORKER is not set: run this test through ctest");
  return path;
}

class WorkerTest : public testing::Test {
 protected:
  spec::RunSpec make_run(const std::string& name, int64_t workers) {
    spec::RunSpec run;
    run.id = 7;
    run.name = name;
    run.created_at = "2026-01-01T00:00:00.000000Z";
    run.task = spec::find_task("fashion-mnist", "", "", {});
    run.division = "closed";
    run.workers = workers;
    run.seed = 3;
    run.limits.max_steps = 6;
    run.comm_timeout_s = 20;
    run.data_name = "made-images";
    run.cache_dir = (folder_ / "cache").string();
    run.synthetic = true;
    run.run_dir = (folder_ / name).string();
    fs::create_directories(run.run_dir);
    return run;
  }

  ChildProcess start(const spec::RunSpec& run, int rank, const std::vector<std::string>& more = {}) {
    write_json_file(fs::path(run.run_dir) / "spec.json", spec::to_json(run));
    ProcessOptions options;
    options.arguments = {worker_program(), "--run-dir", run.run_dir};
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    options.environment = {{"RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(run.workers)},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(port_)}};
    if (!cores_.empty()) options.environment["MLBENCH_CORES"] = cores_;
    options.output = log_of(run, rank);
    options.die_with_parent = true;
    return ChildProcess::start(options);
  }

  static fs::path log_of(const spec::RunSpec& run, int rank) {
    return fs::path(run.run_dir) / ("rank-" + std::to_string(rank) + ".log");
  }

  // Starts all ranks, waits, expects success and returns the record that rank 0 wrote.
  Json train(const spec::RunSpec& run, const std::vector<std::string>& more = {}) {
    std::vector<ChildProcess> ranks;
    for (int rank = 0; rank < run.workers; ++rank) ranks.push_back(start(run, rank, more));
    for (int rank = 0; rank < run.workers; ++rank) {
      const auto end = ranks[static_cast<size_t>(rank)].wait(seconds(120));
      EXPECT_TRUE(end && end->code == 0) << read_file(log_of(run, rank));
    }
    return read_json_file(fs::path(run.run_dir) / "run.json");
  }

  TemporaryFolder folder_;
  const int port_ = net::free_port();
  std::string cores_;
};

TEST_F(WorkerTest, two_ranks_train_the_same_weights_again_and_again) {
  const Json first = train(make_run("first", 2));
  const Json second = train(make_run("second", 2));
  EXPECT_EQ(first["state"], "finished");
  EXPECT_EQ(first["weights_sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(first["weights_sha256"], second["weights_sha256"]);
  EXPECT_EQ(first["parameters"], 3274634);
  EXPECT_TRUE(first["data"]["synthetic"]);
  EXPECT_FALSE(first["data"]["official"]);
  EXPECT_EQ(first["evaluations"].size(), 1u);
  EXPECT_EQ(first["evaluations"][0]["step"], 6);
  EXPECT_EQ(first["evaluations"][0]["samples"], 1200);
  EXPECT_GT(first["steps_s"]["agg"], 0);
}

// The time is recorded for each step, also of those that share a record, and is within what the step clock counts as
// aggregation.
TEST_F(WorkerTest, records_how_long_each_exchange_took) {
  for (const int64_t workers : {1, 2}) {
    spec::RunSpec run = make_run("exchange" + std::to_string(workers), workers);
    train(run);
    for (int64_t rank = 0; rank < workers; ++rank) {
      const record::RankSpool spool = record::read_spool(run.run_dir, 1, rank);
      uint64_t steps = 0;
      for (const record::StepRecord& step : spool.steps) {
        steps += step.count;
        int64_t exchange_ns = 0;
        for (uint64_t i = 0; i < step.count; ++i) {
          EXPECT_EQ(step.exchange_ns[i] > 0, workers > 1) << "step " << step.first_step + i << " of rank " << rank;
          exchange_ns += step.exchange_ns[i];
        }
        EXPECT_LE(exchange_ns, step.kinds_ns[static_cast<size_t>(record::StepKind::kAggregate)]);
      }
      EXPECT_EQ(steps, 6U) << rank;
    }
  }
}

TEST_F(WorkerTest, stops_within_a_few_steps_of_its_time) {
  for (const std::string framework : {"null", "torch", "native"}) {
    for (const int64_t workers : {1, 2}) {
      spec::RunSpec run = make_run(framework + std::to_string(workers), workers);
      run.framework = framework;
      run.limits.max_steps = 0;
      run.limits.max_time_s = 1;
      run.limits.to_the_end = true;
      const Json record = train(run);
      SCOPED_TRACE(run.name + ", " + record["throughput"].dump());
      EXPECT_EQ(record["stop_reason"], "max_time");
      const Json& last = record["evaluations"].back();
      // Time may run out in an evaluation that was due. Otherwise the weights of that moment are evaluated afterwards.
      const double before_s = last["elapsed_s"].get<double>() - last["duration_s"].get<double>();
      EXPECT_GE(last["cadence"] == true ? last["elapsed_s"].get<double>() : before_s, 1.0);
      double longest_s = 0;
      for (const record::StepRecord& step : record::read_spool(run.run_dir, 1, 0).steps) {
        longest_s = std::max(longest_s, static_cast<double>(step.total_ns()) * 1e-9);
      }
      EXPECT_LE(before_s, 1.01 + longest_s + 0.5) << "half a second for a machine that does other things, too";
    }
  }
}

TEST_F(WorkerTest, an_unknown_metric_ends_it_before_data_are_prepared) {
  spec::RunSpec run = make_run("metric", 1);
  const std::vector<spec::Override> overrides = {{"evaluation.metrics", R"(["Prec@1", "Prec@2"])"}};
  spec::set_task(run, spec::find_task("fashion-mnist", "", "", overrides), overrides);
  const auto end = start(run, 0).wait(seconds(60));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, static_cast<int>(ExitCode::kUserError));
  EXPECT_THAT(read_file(log_of(run, 0)),
              testing::HasSubstr("unknown metric 'Prec@2': did you mean 'Prec@1' or 'Prec@5'? valid: loss, Prec@1"));
  EXPECT_FALSE(fs::exists(run.cache_dir));
}

TEST_F(WorkerTest, a_framework_of_another_program_ends_it_before_data_are_prepared) {
  spec::RunSpec run = make_run("framework", 1);
  run.framework = "tensorflow";
  const auto end = start(run, 0).wait(seconds(60));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, static_cast<int>(ExitCode::kUserError));
  EXPECT_THAT(
      read_file(log_of(run, 0)),
      testing::HasSubstr("unknown framework 'tensorflow'; valid: torch, native, null (of mlbench-worker; all "
                         "ranks are of the program that has the run's framework: see mlbench list frameworks)"));
  EXPECT_FALSE(fs::exists(run.cache_dir));
}

TEST_F(WorkerTest, threads_are_bound_where_the_run_has_the_cores_to_itself) {
  EXPECT_EQ(train(make_run("free", 1))["effective"]["pinned"], false);
  const std::vector<int> cores = allowed_cores();
  cores_ = Json(cores).dump();
  EXPECT_EQ(train(make_run("bound", 1))["effective"]["pinned"], true);
  const auto too_many = std::ssize(cores) + 1;
  spec::RunSpec many = make_run("many", 1);
  many.threads_per_worker = too_many;
  EXPECT_EQ(train(many)["effective"]["pinned"], false);

  cores_ = "0-1";
  const spec::RunSpec run = make_run("wrong", 1);
  const auto end = start(run, 0).wait(seconds(60));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, static_cast<int>(ExitCode::kUserError));
  EXPECT_THAT(read_file(log_of(run, 0)), testing::HasSubstr("as in [0,1]"));
}

// Without a supervisor, ranks learn who they are from mpirun's own variables alone.
TEST_F(WorkerTest, ranks_of_a_plain_mpirun_know_who_they_are) {
  if (!program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
  for (const std::string backend : {"mpi", "gloo", "shm"}) {
    spec::RunSpec run = make_run("mpirun-" + backend, 2);
    run.backend = backend;
    write_json_file(fs::path(run.run_dir) / "spec.json", spec::to_json(run));
    ProcessOptions options;
    options.arguments = {"mpirun",         "-n",        "2",        "--host", "localhost:2", "--bind-to", "none",
                         worker_program(), "--run-dir", run.run_dir};
    options.environment = {{"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(port_)},
                           {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    ProcessOutput output = run_process(options, seconds(120));
    // Another process took the port meanwhile.
    for (int again = 0; again < 3 && output.standard_error.find("Address already in use") != std::string::npos;
         ++again) {
      options.environment["MASTER_PORT"] = std::to_string(net::free_port());
      output = run_process(options, seconds(120));
    }
    if (output.standard_error.find("built without MPI") != std::string::npos) {
      GTEST_SKIP() << "missing capability: a worker with MPI";
    }
    ASSERT_EQ(output.end.code, 0) << output.standard_error;
    for (const std::string rank : {"0", "1"}) {
      EXPECT_THAT(output.standard_error, testing::HasSubstr("rank " + rank + " of 2 (from OMPI_COMM_WORLD_*)"));
    }
    const Json record = read_json_file(fs::path(run.run_dir) / "run.json");
    EXPECT_EQ(record["state"], "finished");
    EXPECT_THAT(record["comm_stack"].get<std::string>(), testing::StartsWith(backend));
  }
}

TEST_F(WorkerTest, resume_in_the_middle_of_an_epoch_gives_the_same_weights) {
  const Json whole = train(make_run("whole", 1));
  spec::RunSpec run = make_run("parts", 1);
  run.checkpoint.every_steps = 4;
  train(run);
  fs::remove(fs::path(run.run_dir) / "run.json");
  const Json resumed = train(run, {"--segment", "2", "--resume-step", "4"});
  EXPECT_EQ(resumed["weights_sha256"], whole["weights_sha256"]);
}

TEST_F(WorkerTest, another_seed_gives_other_weights) {
  spec::RunSpec run = make_run("seed", 1);
  const Json one = train(run);
  spec::RunSpec other = make_run("other", 1);
  other.seed = 4;
  EXPECT_NE(train(other)["weights_sha256"], one["weights_sha256"]);
}

TEST_F(WorkerTest, the_record_says_what_data_and_run_lie_on) {
  const spec::RunSpec run = make_run("lies", 1);
  const Json storage = train(run)["storage"];
  EXPECT_EQ(storage["data"], storage_kind(run.cache_dir));
  EXPECT_EQ(storage["run"], storage_kind(run.run_dir));
}

// Without a penalty the gradient is zero in the columns that no row of a batch has.
TEST_F(WorkerTest, sparse_rows_give_the_same_weights_whether_zeros_are_sent_or_not) {
  constexpr uint64_t kDimension = 47236, kSteps = 6;
  const auto train_with = [&](const std::string& coder) {
    spec::RunSpec run = make_run(coder, 2);
    const std::vector<spec::Override> overrides = {
        {"data.sample_shape", "[47236]"}, {"model.l2", "0"}, {"optimizer.compression", coder}};
    spec::set_task(run, spec::find_task("2a", "2021", "", overrides), overrides);
    run.data_name = "rcv1";
    run.framework = "native";
    const Json record = train(run);
    EXPECT_EQ(record["state"], "finished");
    EXPECT_EQ(record["effective"]["layout"], "sparse rows");
    uint64_t bytes = 0;
    for (const record::StepRecord& step : record::read_spool(run.run_dir, 1, 0).steps) bytes += step.bytes;
    return std::pair(record["weights_sha256"], bytes);
  };
  const auto [weights, bytes] = train_with("none");
  EXPECT_EQ(bytes, kSteps * kDimension * 4);
  const auto [same, fewer] = train_with("nonzero");
  EXPECT_EQ(same, weights) << "two numbers have only one sum";
  EXPECT_GT(fewer, 0U);
  EXPECT_LT(fewer, bytes / 3);
  EXPECT_EQ(fewer % 8, 0U) << "indices and values";
}

TEST_F(WorkerTest, a_gradient_in_buckets_gives_the_same_weights) {
  const auto with_buckets = [&](const std::string& name, int64_t workers, const char* key, const char* value,
                                bool overlap = false) {
    spec::RunSpec run = make_run(name, workers);
    std::vector<spec::Override> overrides = {{key, value}};
    if (overlap) overrides.push_back({"optimizer.overlap", "true"});
    spec::set_task(run, spec::find_task("fashion-mnist", "", "", overrides), overrides);
    return train(run);
  };
  // The dense layers fill the first bucket, the convolutions are the second.
  const Json whole = train(make_run("whole", 2));
  const Json buckets = with_buckets("buckets", 2, "optimizer.bucket_mb", "25");
  EXPECT_EQ(whole["effective"]["buckets"], 1);
  EXPECT_EQ(buckets["effective"]["buckets"], 2);
  EXPECT_EQ(buckets["effective"]["overlap"], false);
  EXPECT_EQ(buckets["effective"]["by_layer"], false);
  EXPECT_EQ(buckets["requested"]["bucket_mb"], 25);
  EXPECT_EQ(buckets["division"], "closed");
  EXPECT_EQ(buckets["task_hash"], whole["task_hash"]);
  // Two numbers have only one sum.
  EXPECT_EQ(buckets["weights_sha256"], whole["weights_sha256"]);

  // Three numbers are added in an order that depends on where they lie.
  const Json three = train(make_run("three", 3));
  const Json by_layer = with_buckets("layers", 3, "optimizer.by_layer", "true");
  const Json first = with_buckets("first", 3, "optimizer.bucket_mb", "0.1");
  const Json second = with_buckets("second", 3, "optimizer.bucket_mb", "0.1");
  EXPECT_EQ(by_layer["effective"]["buckets"], 8);
  EXPECT_EQ(by_layer["effective"]["by_layer"], true);
  EXPECT_EQ(first["weights_sha256"], second["weights_sha256"]);
  // Beside the backward pass, the same pieces are added in the same order.
  for (const auto& [record, name, key, value] : {std::tuple(by_layer, "layers-o", "optimizer.by_layer", "true"),
                                                 std::tuple(first, "first-o", "optimizer.bucket_mb", "0.1"),
                                                 std::tuple(three, "three-o", "optimizer.bucket_mb", "0")}) {
    const Json overlapped = with_buckets(name, 3, key, value, true);
    EXPECT_EQ(overlapped["effective"]["overlap"], true);
    EXPECT_EQ(overlapped["requested"]["overlap"], true);
    EXPECT_EQ(overlapped["task_hash"], whole["task_hash"]);
    EXPECT_EQ(overlapped["weights_sha256"], record["weights_sha256"]);
    EXPECT_EQ(overlapped["exchange"]["exact"], false);
    EXPECT_EQ(overlapped["effective"]["buckets"], record["effective"]["buckets"]);
  }
  for (const Json& record : {by_layer, first}) {
    const double loss = three["evaluations"][0]["metrics"]["loss"];
    EXPECT_NEAR(record["evaluations"][0]["metrics"]["loss"], loss, 1e-5 * loss);
  }
}

// The times that are reported for an exchange beside the backward pass add up to its whole time.
TEST_F(WorkerTest, what_of_the_exchange_is_hidden_and_what_exposed) {
  spec::RunSpec run = make_run("hidden", 2);
  const std::vector<spec::Override> overrides = {{"optimizer.by_layer", "true"}, {"optimizer.overlap", "true"}};
  spec::set_task(run, spec::find_task("fashion-mnist", "", "", overrides), overrides);
  const Json record = train(run);
  const Json& exchange = record["exchange"];
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_GT(exchange["hidden_s"][rank], 0) << "the dense layers' gradients, which are large and come first";
    EXPECT_NEAR(exchange["hidden_s"][rank].get<double>() + exchange["exposed_s"][rank].get<double>(),
                exchange["wait_s"][rank].get<double>() + exchange["transfer_s"][rank].get<double>(), 1e-9);
  }
  EXPECT_LE(exchange["exposed_s"][0], record["steps_s"]["agg"]);
  EXPECT_EQ(record["division"], "closed");

  const Json plain = train(make_run("plain", 2));
  EXPECT_EQ(plain["exchange"]["hidden_s"], (Json{0.0, 0.0}));
}

TEST_F(WorkerTest, bf16_trains_to_the_light_goal) {
  const std::string processor = read_file("/proc/cpuinfo");
  if (processor.find(" sse2 ") != std::string::npos && processor.find(" avx512f ") == std::string::npos) {
    GTEST_SKIP() << "missing capability: AVX-512 (bfloat16 takes minutes without, on x86-64)";
  }
  spec::RunSpec run = make_run("bf16", 1);
  const std::vector<spec::Override> overrides = {{"precision", "bf16"}, {"evaluation.every_samples", "3000"}};
  spec::set_task(run, spec::find_task("fashion-mnist", "", "", overrides), overrides);
  run.limits.max_steps = 300;
  run.limits.light = true;
  const Json record = train(run);
  EXPECT_TRUE(record["goal"]["reached"].get<bool>()) << record["evaluations"].dump();
  EXPECT_EQ(record["requested"]["precision"], "bf16");
  EXPECT_EQ(record["effective"]["precision"], "bf16");
  EXPECT_EQ(record["division"], "open");
  const Json& speed = record["effective"]["bfloat16_speed"];
  EXPECT_EQ(speed["work"], "convolutions");
  EXPECT_EQ(speed["verdict"], "not known") << "nobody measured it in this home";
  EXPECT_EQ(record["notes"].dump().find("bfloat16"), std::string::npos);
}

// What is measured by one process of the worker is found by another.
TEST_F(WorkerTest, the_record_says_how_fast_bfloat16_is) {
  spec::RunSpec run = make_run("bf16", 1);
  const std::vector<spec::Override> overrides = {{"precision", "bf16"}};
  spec::set_task(run, spec::find_task("fashion-mnist", "", "", overrides), overrides);
  run.limits.max_steps = 1;
  ProcessOptions options;
  options.arguments = {worker_program(), "--bfloat16-speed", run.framework};
  const ProcessOutput output = run_process(options, seconds(120));
  ASSERT_EQ(output.end.code, 0) << output.standard_error;
  const Json measured = Json::parse(output.standard_output);
  ASSERT_EQ(measured.size(), 2U);
  EXPECT_EQ(measured[0]["work"], "convolutions");
  EXPECT_EQ(measured[1]["work"], "products");
  for (const Json& one : measured) {
    EXPECT_NE(one["verdict"], "not known") << one.dump();
    EXPECT_GT(one["ratio"].get<double>(), 0);
  }
  if (processor_kind().empty()) GTEST_SKIP() << "missing capability: /proc/cpuinfo with the processor's model";

  record::Bfloat16Speed kept = record::bfloat16_speed_from_json(measured[0], "measured");
  kept.verdict = "slower";
  record::keep_bfloat16_speed({run.cache_dir, elf_build_id(worker_program()).value(), run.framework}, kept);
  const Json record = train(run);
  EXPECT_EQ(record["effective"]["bfloat16_speed"], record::to_json(kept));
  EXPECT_NE(record["notes"].dump().find("bfloat16 is slower than float32 on this processor"), std::string::npos);
}

TEST_F(WorkerTest, adam_resumes_in_the_middle_of_an_epoch) {
  const auto mnist = [&](const std::string& name) {
    spec::RunSpec run = make_run(name, 2);
    spec::set_task(run, spec::find_task("mnist", "", "", {}), {});
    return run;
  };
  const Json whole = train(mnist("whole"));
  EXPECT_EQ(whole["division"], "closed");
  spec::RunSpec run = mnist("parts");
  run.checkpoint.every_steps = 4;
  train(run);
  fs::remove(fs::path(run.run_dir) / "run.json");
  EXPECT_EQ(train(run, {"--segment", "2", "--resume-step", "4"})["weights_sha256"], whole["weights_sha256"]);
}

TEST_F(WorkerTest, a_missing_rank_is_named_within_the_bound) {
  spec::RunSpec run = make_run("missing", 3);
  run.comm_timeout_s = 2;
  ChildProcess zero = start(run, 0);
  ChildProcess two = start(run, 2);
  const auto end = zero.wait(seconds(40));
  ASSERT_TRUE(end.has_value()) << "still waiting for rank 1";
  EXPECT_EQ(end->code, static_cast<int>(ExitCode::kCommError));
  EXPECT_THAT(read_file(log_of(run, 0)), testing::HasSubstr("rank 1"));
  two.stop(seconds(5));
}

TEST_F(WorkerTest, a_rank_that_fails_says_what_it_has_read) {
  if (!read_bytes_so_far()) GTEST_SKIP() << "missing capability: /proc/self/io";
  spec::RunSpec run = make_run("fails", 2);
  run.limits.max_steps = 1'000'000;
  run.limits.to_the_end = true;
  ChildProcess zero = start(run, 0), one = start(run, 1);
  const auto until = std::chrono::steady_clock::now() + seconds(60);
  while (record::read_spool(run.run_dir, 1, 0).steps.empty() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  one.signal(SIGKILL);
  const auto end = zero.wait(seconds(60));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, static_cast<int>(ExitCode::kCommError)) << read_file(log_of(run, 0));
  const record::RankSpool spool = record::read_spool(run.run_dir, 1, 0);
  ASSERT_FALSE(spool.events.empty());
  EXPECT_EQ(spool.events.back()["event"], "failure");
  EXPECT_TRUE(spool.events.back().contains("device_read_bytes")) << spool.events.back();
  EXPECT_TRUE(spool.events.back().contains("call_read_bytes"));
}

TEST_F(WorkerTest, a_checkpoint_of_no_such_step_lists_those_that_exist) {
  spec::RunSpec run = make_run("steps", 1);
  train(run);
  ChildProcess rank = start(run, 0, {"--segment", "2", "--resume-step", "5"});
  const auto end = rank.wait(seconds(60));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, static_cast<int>(ExitCode::kUserError));
  EXPECT_THAT(read_file(log_of(run, 0)), testing::HasSubstr("no checkpoint at step 5"));
  EXPECT_THAT(read_file(log_of(run, 0)), testing::HasSubstr("there are steps 6"));
}

}  // namespace
}  // namespace mlbench::worker
