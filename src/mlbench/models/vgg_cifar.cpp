#include "mlbench/models/vgg_cifar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mlbench/base/errors.h"
#include "mlbench/base/options.h"
#include "mlbench/models/chain.h"

namespace mlbench::models {

namespace {

constexpr std::array<int64_t, 5> kVggChannels = {64, 128, 256, 512, 512};

struct VggRow {
  int64_t depth;
  std::array<int64_t, 5> convolutions;  // of each stage
};
constexpr VggRow kVggRows[] = {
    {11, {1, 1, 2, 2, 2}},
    {13, {2, 2, 2, 2, 2}},
    {16, {2, 2, 3, 3, 3}},
    {19, {2, 2, 4, 4, 4}},
};

}  // namespace

ModelDescription describe_vgg_cifar(const spec::TaskSpec& task) {
  OptionReader options(fmt::format("model '{}'", task.model.name), task.model.options);
  const int64_t depth = options.integer("depth", 16, {11, 19});
  options.finish();
  const VggRow* row = std::ranges::find(kVggRows, depth, &VggRow::depth);
  if (row == std::end(kVggRows)) {
    throw UserError(fmt::format("model '{}' has no depth {}; valid: 11, 13, 16, 19", task.model.name, depth));
  }
  Chain chain = chain_of_images(task);
  for (size_t stage = 0; stage < kVggChannels.size(); ++stage) {
    for (int64_t i = 1; i <= row->convolutions[stage]; ++i) {
      const std::string place = fmt::format("stage{}.", stage + 1);
      chain.conv2d_same(fmt::format("{}conv{}", place, i), kVggChannels[stage], 3)
          .batch_norm2d(fmt::format("{}bn{}", place, i))
          .activation("relu");
    }
    chain.pool2d("max_pool2d", 2);
  }
  return chain.flatten().linear("fc", task.data.classes).finish();
}

}  // namespace mlbench::models
