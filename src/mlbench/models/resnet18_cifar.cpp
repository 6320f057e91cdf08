#include "mlbench/models/resnet18_cifar.h"

#include <fmt/format.h>

#include <array>

#include "mlbench/base/options.h"
#include "mlbench/models/basic_block.h"
#include "mlbench/models/chain.h"

namespace mlbench::models {

namespace {

constexpr int64_t kStemChannels = 64;
constexpr int64_t kBlocksPerStage = 2;

void add_stages(Chain& chain, const std::array<int64_t, 4>& channels, bool v1, BasicBlock::Convolution convolution) {
  for (size_t stage = 0; stage < channels.size(); ++stage) {
    for (int64_t i = 0; i < kBlocksPerStage; ++i) {
      BasicBlock block{fmt::format("stage{}.block{}", stage + 1, i + 1), channels[stage]};
      block.convolution = convolution;
      if (stage > 0 && i == 0) {
        block.stride = 2;
        block.shortcut = v1 ? BasicBlock::Shortcut::kNormalisedProjection : BasicBlock::Shortcut::kProjection;
      }
      (v1 ? add_block_v1 : add_block_v2)(chain, block);
    }
  }
}

}  // namespace

ModelDescription describe_resnet18_cifar(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const bool v1 = options.choice("version", "v1", {"v1", "v2-mlbench"}) == "v1";
  options.finish();
  const BasicBlock::Convolution convolution = v1 ? &Chain::conv2d_normal : &Chain::conv2d_uniform;
  Chain chain = chain_of_images(task);
  (chain.*convolution)("stem.conv", kStemChannels, 3, 1).batch_norm2d("stem.bn").activation("relu");
  if (v1) {
    add_stages(chain, {64, 128, 256, 512}, v1, convolution);
    chain.global_avg_pool2d();
  } else {
    add_stages(chain, {64, 128, 256, 256}, v1, convolution);
    chain.global_avg_max_pool2d();
  }
  return chain.linear("fc", task.data.classes).finish();
}

}  // namespace mlbench::models
