#include "mlbench/models/resnet50.h"

#include <fmt/format.h>

#include "mlbench/base/options.h"
#include "mlbench/models/chain.h"

namespace mlbench::models {

namespace {

struct BottleneckStage {
  int64_t width;
  int64_t blocks;
};
constexpr BottleneckStage kBottleneckStages[] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
constexpr int64_t kExpansion = 4;  // the last convolution has so many times the channels of the others

struct Bottleneck {
  std::string name;  // prefix of the names of its layers
  int64_t width = 0;
  int64_t first_stride = 1, second_stride = 1;  // of the first two convolutions
  bool projected = false;
};

void add_bottleneck(Chain& chain, const Bottleneck& block) {
  const auto body = [&](Chain& part) {
    part.conv2d_normal(block.name + ".conv1", block.width, 1, block.first_stride)
        .batch_norm2d(block.name + ".bn1")
        .activation("relu")
        .conv2d_normal(block.name + ".conv2", block.width, 3, block.second_stride)
        .batch_norm2d(block.name + ".bn2")
        .activation("relu")
        .conv2d_normal(block.name + ".conv3", kExpansion * block.width, 1, 1)
        .batch_norm2d(block.name + ".bn3");
  };
  const Chain::Part projection = [&](Chain& part) {
    part.conv2d_normal(block.name + ".shortcut.conv", kExpansion * block.width, 1,
                       block.first_stride * block.second_stride)
        .batch_norm2d(block.name + ".shortcut.bn");
  };
  chain.residual(body, block.projected ? projection : Chain::Part()).activation("relu");
}

}  // namespace

ModelDescription describe_resnet50(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const bool v1 = options.choice("version", "v1.5", {"v1", "v1.5"}) == "v1";
  options.finish();
  Chain chain = chain_of_images(task);
  chain.conv2d_normal("stem.conv", 64, 7, 2).batch_norm2d("stem.bn").activation("relu").pool2d("max_pool2d", {3, 2, 1});
  int64_t stage = 0;
  for (const auto& [width, blocks] : kBottleneckStages) {
    ++stage;
    for (int64_t i = 1; i <= blocks; ++i) {
      Bottleneck block{fmt::format("stage{}.block{}", stage, i), width};
      block.projected = i == 1;
      if (i == 1 && stage > 1) (v1 ? block.first_stride : block.second_stride) = 2;
      add_bottleneck(chain, block);
    }
  }
  return chain.global_avg_pool2d().linear("fc", task.data.classes).finish();
}

}  // namespace mlbench::models
