#include "mlbench/models/resnet_cifar.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/models/basic_block.h"
#include "mlbench/models/chain.h"

namespace mlbench::models {

namespace {

constexpr int64_t kStageChannels[] = {16, 32, 64};

}  // namespace

ModelDescription describe_resnet_cifar(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const std::string version = options.text("version", "v1");
  const int64_t depth = options.integer("depth", 20, {8, 1202});
  options.finish();
  if (version != "v1" && version != "v2" && version != "v2-mlbench") {
    throw UserError(fmt::format("model '{}' has no version '{}'; valid: v1, v2, v2-mlbench", task.model.name, version));
  }
  if (depth % 6 != 2) {
    throw UserError(fmt::format("model '{}' has depth {}; expected 6n + 2: 8, 14, 20, 32, 44, 56, 110 ...",
                                task.model.name, depth));
  }
  const bool v1 = version == "v1";
  Chain chain = chain_of_images(task);
  chain.conv2d_normal("stem.conv", kStageChannels[0], 3, 1);
  if (version != "v2") chain.batch_norm2d("stem.bn").activation("relu");
  for (int64_t stage = 0; stage < 3; ++stage) {
    for (int64_t i = 0; i < (depth - 2) / 6; ++i) {
      const bool widens = stage > 0 && i == 0;
      BasicBlock block{fmt::format("stage{}.block{}", stage + 1, i + 1), kStageChannels[stage]};
      if (widens) {
        block.stride = 2;
        block.shortcut = BasicBlock::Shortcut::kNormalisedProjection;
      }
      (v1 ? add_block_v1 : add_block_v2)(chain, block);
    }
  }
  if (version == "v2") chain.batch_norm2d("final.bn").activation("relu");
  return chain.global_avg_pool2d().linear("fc", task.data.classes).finish();
}

}  // namespace mlbench::models
