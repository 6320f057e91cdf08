#include "mlbench/models/vgg16.h"

#include <fmt/format.h>

#include "mlbench/base/options.h"
#include "mlbench/models/chain.h"

namespace mlbench::models {

namespace {

struct Vgg16Stage {
  int64_t channels;
  int64_t convolutions;
};
constexpr Vgg16Stage kVgg16Stages[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
constexpr int64_t kVgg16Windows = 7;  // along each side of what the dense layers take
constexpr double kDenseDeviation = 0.01;

}  // namespace

ModelDescription describe_vgg16(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const double dropout = options.number("dropout", 0.5, {0, 1});
  const int64_t hidden = options.integer("hidden", 4096, {1, 65536});
  options.finish();
  Chain chain = chain_of_images(task);
  int64_t stage = 0;
  for (const auto& [channels, convolutions] : kVgg16Stages) {
    ++stage;
    for (int64_t i = 1; i <= convolutions; ++i) {
      chain.conv2d_same_normal(fmt::format("stage{}.conv{}", stage, i), channels, 3).activation("relu");
    }
    chain.pool2d("max_pool2d", 2);
  }
  chain.adaptive_avg_pool2d(kVgg16Windows).flatten();
  for (const char* name : {"fc1", "fc2"}) {
    chain.linear_normal(name, hidden, kDenseDeviation).activation("relu").dropout(dropout);
  }
  return chain.linear_normal("fc3", task.data.classes, kDenseDeviation).finish();
}

}  // namespace mlbench::models
