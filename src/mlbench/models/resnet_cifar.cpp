#include "mlbench/models/resnet_cifar.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/models/basic_block.h"
#include "mlbench/models/chain.h"

namespace mlbench::models {

namespace {

constexpr int64_t kStageChannels[] = {16, 32, 64};
constexpr double kTensorFlowMomentum = 0.003;  // its own count is the other way round, 0.997
const std::vector<std::string> kVersions = {"v1", "v2", "v2-mlbench", "v2-tensorflow"};

// Where a version has norms outside of blocks, and what its blocks are.
struct Version {
  bool stem_norm, final_norm;
  void (*add_block)(Chain& chain, const BasicBlock& block);
  bool tensorflow = false;  // projections without norms begin each stage; starts and momentum are TensorFlow's
};

Version version_of(const std::string& name) {
  if (name == "v1") return {true, false, add_block_v1};
  if (name == "v2-mlbench") return {true, false, add_block_v2};
  return {false, true, add_block_v2, name == "v2-tensorflow"};
}

BasicBlock block_of(const Version& version, int64_t stage, int64_t i) {
  BasicBlock block{fmt::format("stage{}.block{}", stage + 1, i + 1), kStageChannels[stage]};
  if (stage > 0 && i == 0) block.stride = 2;
  if (version.tensorflow) {
    block.convolution = &Chain::conv2d_fan_in;
    block.norm_momentum = kTensorFlowMomentum;
    if (i == 0) block.shortcut = BasicBlock::Shortcut::kProjection;
  } else if (block.stride > 1) {
    block.shortcut = BasicBlock::Shortcut::kNormalisedProjection;
  }
  return block;
}

}  // namespace

ModelDescription describe_resnet_cifar(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const std::string name = options.choice("version", "v1", kVersions);
  const int64_t depth = options.integer("depth", 20, {8, 1202});
  const double l2 = options.number("l2", 0, {0, 1e6});
  options.finish();
  if (depth % 6 != 2) {
    throw UserError(fmt::format("model '{}' has depth {}; expected 6n + 2: 8, 14, 20, 32, 44, 56, 110 ...",
                                task.model.name, depth));
  }
  const Version version = version_of(name);
  const double momentum = block_of(version, 0, 0).norm_momentum;
  Chain chain = chain_of_images(task);
  (chain.*block_of(version, 0, 0).convolution)("stem.conv", kStageChannels[0], 3, 1);
  if (version.stem_norm) chain.batch_norm2d("stem.bn", momentum).activation("relu");
  for (int64_t stage = 0; stage < 3; ++stage) {
    for (int64_t i = 0; i < (depth - 2) / 6; ++i) version.add_block(chain, block_of(version, stage, i));
  }
  if (version.final_norm) chain.batch_norm2d("final.bn", momentum).activation("relu");
  chain.global_avg_pool2d();
  ModelDescription model =
      (version.tensorflow ? chain.linear_glorot("fc", task.data.classes) : chain.linear("fc", task.data.classes))
          .finish();
  model.l2 = l2;
  return model;
}

}  // namespace mlbench::models
