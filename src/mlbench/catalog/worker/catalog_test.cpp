#include "mlbench/catalog/worker/every_framework_test.h"
#include "mlbench/catalog/worker/frameworks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/shape.h"
#include "mlbench/framework/sample_batch_test.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/token_batch_test.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/algorithm.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/task.h"

namespace mlbench::catalog {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

const WorkerProgram kProgram{"mlbench-worker", frameworks()};

// One step of plain gradient descent lowers the loss on its batch.
void expect_one_step(const FrameworkRow& row, const spec::TaskSpec& task) {
  framework::FrameworkOptions options;
  options.model = models::describe_model(task);
  options.threads = 2;
  options.dropout = false;
  if (!has_layers_of(row, options.model)) return;
  const auto framework = row.make(options);
  framework->initialise();

  constexpr int64_t kSamples = 6;
  RandomSequence random(1);
  std::vector<float> features(static_cast<size_t>(kSamples * volume_of(task.data.sample_shape)));
  for (float& value : features) value = static_cast<float>(random.normal());
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < kSamples; ++i) labels.push_back(i % task.data.classes);
  const framework::TokenBatch tokens =
      task.model.name == "awd-lstm"
          ? framework::language_batch(options.model.outputs, 5, kSamples)
          : framework::translation_batch({framework::sentence_pair(options.model.outputs, 4, 5, 1),
                                          framework::sentence_pair(options.model.outputs, 2, 3, 2)});
  const bool text = options.model.is_graph();
  const BatchView batch =
      text ? tokens.view() : framework::samples_view(features.data(), labels.data(), task.data.sample_shape, kSamples);

  framework->begin_step(0);
  framework->forward(batch, framework::Mode::kTrain);
  const double first = framework->loss();
  framework->backward({});
  const double norm = framework::flat_tensor(framework->gradients()).norm().item<double>();
  if (!text) {
    EXPECT_EQ(framework->outputs().size(), static_cast<size_t>(kSamples * options.model.outputs));
  }
  if (row.name == std::string("null")) return;
  EXPECT_TRUE(std::isfinite(first) && std::isfinite(norm) && norm > 0) << first << ", " << norm;
  framework::flat_tensor(framework->parameters()).sub_(framework::flat_tensor(framework->gradients()), 1e-3 / norm);
  framework->forward(batch, framework::Mode::kTrain);
  EXPECT_LT(framework->loss(), first);
}

TEST(Catalog, EachTaskDoesAStepOnEachFramework) {
  for (const FrameworkRow& row : every_framework()) {
    if (!row.available().available) continue;
    for (const spec::TaskSource& source : spec::embedded_tasks()) {
      spec::TaskSpec task = spec::parse_task(source, "", {}).task;
      SCOPED_TRACE(std::string(row.name) + ", task " + task.name + " " + task.rules);
      if (!task.data.sample_shape.empty()) {
        // The full images of 1b take seconds each.
        for (int64_t& extent : task.data.sample_shape) extent = extent == 224 ? 64 : extent;
        expect_one_step(row, task);
        continue;
      }
      task.model.options["size"] = "tiny";  // the full ones have up to 210 million parameters
      expect_one_step(row, task);
    }
  }
}

TEST(Catalog, AnUnknownFrameworkIsRefusedWithTheNamesOfAll) {
  EXPECT_THAT(
      [] { make_framework(kProgram, "keras", {}); },
      ThrowsMessage<UserError>(HasSubstr("unknown framework 'keras'; valid: torch, native, null (of mlbench-worker; "
                                         "all ranks are of the program that has the run's framework")));
  EXPECT_THAT([] { make_framework(kProgram, "onednn", {}); },
              ThrowsMessage<UserError>(HasSubstr("it is called 'native'")));
}

TEST(Catalog, AFrameworkIsRefusedConvolutionsThatItHasNot) {
  framework::FrameworkOptions options;
  options.convolution = "winograd";
  for (const FrameworkRow& row : frameworks()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(row.convolutions.front(), "auto");
    for (const std::string_view order : row.convolutions) EXPECT_EQ(std::ranges::count(spec::kConvolutions, order), 1);
    if (!row.available().available || row.convolutions.size() > 1) continue;
    EXPECT_THAT([&] { make_framework(kProgram, row.name, options); },
                ThrowsMessage<UserError>(HasSubstr("unknown convolution 'winograd'; valid: auto")));
  }
  const Json described = describe(kProgram);
  EXPECT_EQ(described["frameworks"][0]["convolutions"], Json::array({"auto"}));
  EXPECT_EQ(described["frameworks"][1]["convolutions"], Json::array({"auto", "direct", "winograd"}));
}

TEST(Catalog, AFrameworkIsRefusedSparseRowsThatItDoesNotTake) {
  framework::FrameworkOptions options;
  options.sparse_rows = true;
  WorkerProgram toy = {"mlbench-worker-toy", frameworks()};
  toy.frameworks[0].sparse_rows = false;
  EXPECT_THAT([&] { make_framework(toy, "torch", options); },
              ThrowsMessage<UserError>(HasSubstr("framework 'torch' takes no sparse rows; valid: native, null")));
}

TEST(Catalog, RowsOfAlgorithmsHaveTheirNamesElsewhere) {
  const Json described = describe(kProgram);
  for (const spec::NameElsewhere& name : spec::names_elsewhere()) {
    size_t found = 0;
    for (const char* list : {"optimizers", "coders", "patterns"}) {
      for (const Json& row : described[list]) {
        for (const Json& also : row["also"]) {
          if (also["name"] != name.name) continue;
          ++found;
          EXPECT_EQ(row["name"], name.stands_for);
        }
      }
    }
    EXPECT_EQ(found, 1U) << name.name;
  }
}

TEST(Catalog, HelpNamesTheFrameworksWithInterOpThreads) {
  const std::string_view help = spec::run_option(&spec::RunOptions::inter_op_threads).help;
  for (const FrameworkRow& row : every_framework()) {
    EXPECT_EQ(help.find(row.name) != std::string_view::npos, row.inter_op) << row.name;
  }
}

TEST(Catalog, SaysWhichTasksAFrameworkTrains) {
  const auto without_layers = [] { return std::vector<std::string_view>(); };
  const auto of_small_images = [] {
    return std::vector<std::string_view>{"conv2d", "relu", "max_pool2d", "flatten", "linear", "dropout"};
  };
  std::vector<FrameworkRow> rows = {frameworks()[0], frameworks()[0], frameworks()[2]};
  rows[0].layers = without_layers;
  rows[0].sparse_rows = false;
  rows[1].layers = of_small_images;
  const Json described = describe({"mlbench-worker-toy", rows})["frameworks"];
  EXPECT_EQ(described[0]["tasks"], Json::array());
  EXPECT_EQ(described[0]["layers"], Json::array());
  EXPECT_THAT(described[1]["tasks"].get<std::vector<std::string>>(),
              AllOf(Contains("fashion-mnist"), Contains("mnist"), Not(Contains("1a")), Not(Contains("4a"))));
  EXPECT_EQ(described[2]["layers"], nullptr) << "all that there are";
  EXPECT_EQ(described[2]["decodes"], false);
  EXPECT_EQ(described[0]["computes"], true);
  EXPECT_EQ(described[2]["computes"], false);
  EXPECT_EQ(described[0]["sparse_rows"], false);
  EXPECT_EQ(described[2]["sparse_rows"], true);
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    const std::string task = spec::parse_task(source, "", {}).task.name;
    EXPECT_THAT(described[2]["tasks"].get<std::vector<std::string>>(), Contains(task));
  }
}

// Overlap is off where spinning takes a core from the threads that compute (worker/ingredients.h).
TEST(Catalog, SaysWhichBackEndsSpin) {
  EXPECT_FALSE(backend_spins("gloo"));
  for (const BackendRow& row : backends()) {
    if (row.available().available) {
      EXPECT_EQ(backend_spins(row.name), row.name != std::string("gloo")) << row.name;
    }
  }
}

TEST(Catalog, WhatStandsAroundABackEndIsNamedOutermostFirst) {
  const auto stack = [](const spec::Communication& communication) {
    return make_backend("gloo", {}, nullptr, communication)->description();
  };
  EXPECT_EQ(stack({}), "gloo");
  EXPECT_EQ(stack({.check = true}), "check(gloo)");
  EXPECT_EQ(stack({.wire_dtype = "float16"}), "cast[float16](gloo)");
  EXPECT_EQ(stack({.netem = "latency=1us"}), "netem(ring(gloo))");
  EXPECT_EQ(stack({.wire_dtype = "bfloat16", .check = true, .netem = "bandwidth=1Gbit"}),
            "check(cast[bfloat16](netem(ring(gloo))))");
}

TEST(Catalog, ABackEndIsRefusedWhatItCannotBeTunedFor) {
  for (const BackendRow& row : backends()) {
    if (!row.available().available) continue;
    SCOPED_TRACE(row.name);
    for (const std::string_view algorithm : row.algorithms) {
      EXPECT_TRUE(std::ranges::count(spec::kAlgorithms, algorithm) == 1) << algorithm;
    }
    if (std::ranges::count(row.algorithms, "bcube") > 0) continue;
    EXPECT_THAT([&] { make_backend(row.name, {}, nullptr, {.algorithm = "bcube"}); },
                ThrowsMessage<UserError>(HasSubstr("; valid: auto")));
  }
  const Json described = describe(kProgram);
  for (const Json& row : described["backends"]) EXPECT_TRUE(row["algorithms"].is_array()) << row;
}

// By this name the supervisor notices that ranks do not come up.
TEST(Catalog, TheBoardShowsWhatABackEndWaitsInWhileItIsMade) {
  for (const BackendRow& row : backends()) {
    EXPECT_EQ(std::string(row.waits_in), row.name == std::string("mpi") ? "MPI_Init" : "");
    if (!row.available().available) continue;
    const auto board = std::make_shared<comm::OperationBoard>();
    const auto comm = make_backend(row.name, {}, board);
    EXPECT_EQ(&comm->board(), board.get());
    EXPECT_EQ(board->read().operation, row.waits_in);
    EXPECT_EQ(board->read().sequence, *row.waits_in != '\0' ? 1 : 0);
    EXPECT_FALSE(board->read().in_progress);
  }
}

}  // namespace
}  // namespace mlbench::catalog
