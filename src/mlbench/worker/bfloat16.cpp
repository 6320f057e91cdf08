#include "mlbench/worker/bfloat16.h"

#include <time.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/framework.h"
#include "mlbench/models/graph.h"
#include "mlbench/models/layer_kinds.h"
#include "mlbench/models/model.h"
#include "mlbench/record/collectives.h"

namespace mlbench::worker {

namespace {

constexpr std::chrono::milliseconds kEnoughTime(200);

// A network with its batch. The networks are small enough for a processor that emulates bfloat16.
struct Probe {
  models::ModelDescription model;
  std::vector<float> features;
  std::vector<int64_t> tokens, targets;
  BatchView batch;  // a view of the others
};

// The smallest of the networks of task 1a.
void describe_convolutions(Probe& probe) {
  constexpr int64_t kSamples = 2;
  spec::TaskSpec task;
  task.data.name = "images";
  task.data.sample_shape = {3, 32, 32};
  task.data.classes = 10;
  task.model.name = "resnet-cifar";
  task.model.options = {{"depth", 8}};
  task.loss = "cross_entropy";
  probe.model = models::describe_model(task);
  const std::vector<int64_t> shape = {kSamples, 3, 32, 32};
  for (int64_t i = 0; i < volume_of(shape); ++i) {
    probe.features.push_back(static_cast<float>(std::sin(static_cast<double>(i))));
  }
  probe.targets = {1, 2};
  probe.batch.samples = probe.batch.weight = kSamples;
  probe.batch.tensors = {{"features", shape, {probe.features.data(), volume_of(shape), DType::kFloat32}, {}},
                         {"labels", {kSamples}, {probe.targets.data(), kSamples, DType::kInt64}, {}}};
}

// Linear layers over tokens, as wide as those of the larger models over tokens are after division by four.
void describe_products(Probe& probe) {
  constexpr int64_t kVocabulary = 64, kWidth = 256, kPositions = 16, kColumns = 16;
  models::Graph graph;
  std::string x = graph.input("tokens", {models::kAny, models::kAny});
  x = graph.add("embedding", "embedding", {x},
                {.options = {{"vocabulary", kVocabulary}, {"features", kWidth}, {"scale", 1}, {"row_dropout", 0}},
                 .initialisers = {{"weight", models::normal(1)}}});
  const auto linear = [&](const std::string& name, int64_t outputs) {
    x = graph.add(
        "linear", name, {x},
        {.options = {{"in", kWidth}, {"out", outputs}, {"bias", true}},
         .initialisers = {{"weight", models::uniform(1 / std::sqrt(double{kWidth}))}, {"bias", models::zeros()}}});
  };
  for (const char* name : {"hidden1", "hidden2"}) {
    linear(name, kWidth);
    x = graph.add("relu", std::string(name) + ".relu", {x});
  }
  linear("logits", kVocabulary);
  probe.model = graph.finish();
  probe.model.loss.kind = "token_cross_entropy";
  probe.model.loss.targets = "targets";
  for (int64_t i = 0; i < kPositions * kColumns; ++i) {
    probe.tokens.push_back(i % kVocabulary);
    probe.targets.push_back((i + 1) % kVocabulary);
  }
  const std::vector<int64_t> shape = {kPositions, kColumns};
  probe.batch.samples = kColumns;
  probe.batch.weight = kPositions * kColumns;
  for (const auto& [name, values] : {std::pair("tokens", &probe.tokens), std::pair("targets", &probe.targets)}) {
    probe.batch.tensors.push_back({name, shape, {values->data(), volume_of(shape), DType::kInt64}, {}});
  }
}

std::unique_ptr<framework::Framework> framework_in(const catalog::FrameworkRow& row, const Probe& probe,
                                                   const char* precision) {
  framework::FrameworkOptions options;
  options.model = probe.model;
  options.precision = precision;
  auto framework = row.make(options);
  framework->initialise();
  return framework;
}

// The processor time of this process.
class ProcessorTime final : public Clock {
 public:
  TimePoint now() const override {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return TimePoint(std::chrono::seconds(used.tv_sec) + Nanoseconds(used.tv_nsec));
  }
  std::chrono::system_clock::time_point wall_now() const override { return SystemClock().wall_now(); }
};

double seconds_of(const Step& step, const Clock& clock) {
  const TimePoint begin = clock.now();
  step();
  return to_seconds(clock.now() - begin);
}

}  // namespace

record::Bfloat16Speed compare_steps(std::string_view work, const Step& float32, const Step& bfloat16,
                                    const Clock& clock) {
  float32();
  bfloat16();
  std::vector<record::TimedPair> pairs;
  const TimePoint begin = clock.now();
  while (std::ssize(pairs) < kEnoughPairs &&
         (clock.now() - begin < kEnoughTime || !record::median_interval(pairs.size()))) {
    record::TimedPair pair;
    const bool float32_first = pairs.size() % 2 == 0;
    if (float32_first) pair.float32_s = seconds_of(float32, clock);
    pair.bfloat16_s = seconds_of(bfloat16, clock);
    if (!float32_first) pair.float32_s = seconds_of(float32, clock);
    pairs.push_back(pair);
  }
  return record::bfloat16_speed(work, pairs);
}

record::Bfloat16Speed measure_bfloat16(const catalog::FrameworkRow& framework, std::string_view work,
                                       const Clock& clock) {
  Probe probe;
  (work == models::kConvolutions ? describe_convolutions : describe_products)(probe);
  try {
    const auto float32 = framework_in(framework, probe, "float32"), bfloat16 = framework_in(framework, probe, "bf16");
    const auto step_of = [&probe](framework::Framework& one) {
      return [&probe, &one] {
        one.begin_step(0);
        one.forward(probe.batch, framework::Mode::kTrain);
        one.loss();
        one.backward({});
      };
    };
    return compare_steps(work, step_of(*float32), step_of(*bfloat16), clock);
  } catch (const std::exception& error) {
    return record::bfloat16_speed_not_known(work, error.what());
  }
}

Json measure_bfloat16(const catalog::WorkerProgram& program, const std::string& framework) {
  const catalog::FrameworkRow& row = catalog::find_framework(program, framework);
  Json answer = Json::array();
  for (const std::string_view work : {models::kConvolutions, models::kProducts}) {
    answer.push_back(record::to_json(measure_bfloat16(row, work, ProcessorTime())));
  }
  return answer;
}

}  // namespace mlbench::worker
