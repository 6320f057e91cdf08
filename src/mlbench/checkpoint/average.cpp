#include "mlbench/checkpoint/average.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <map>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/checkpoint/checkpoint.h"

namespace mlbench::checkpoint {

namespace {

// The checkpoints up to `newest`, by step.
std::vector<CheckpointInfo> last_checkpoints(const std::filesystem::path& newest, int64_t count) {
  std::vector<CheckpointInfo> found;
  for (const CheckpointInfo& info : list_checkpoints(newest.parent_path())) {
    found.push_back(info);
    if (info.path.filename() == newest.filename()) break;
  }
  if (found.empty() || found.back().path.filename() != newest.filename()) {
    throw UserError(
        fmt::format("{} is not among the checkpoints of its folder: its name is to be step-N", newest.string()));
  }
  if (static_cast<int64_t>(found.size()) < count) {
    std::vector<int64_t> steps;
    for (const CheckpointInfo& info : found) steps.push_back(info.step);
    throw UserError(fmt::format("{} checkpoints are to be averaged; up to {} there are {}: of steps {}", count,
                                newest.string(), found.size(), fmt::join(steps, ", ")));
  }
  found.erase(found.begin(), found.end() - count);
  return found;
}

void add(const HostTensor& tensor, const FlatRange& range, const std::filesystem::path& from,
         std::vector<double>& sum) {
  const auto count = static_cast<size_t>(range.count);
  if (tensor.dtype != DType::kFloat32 || tensor.shape != range.shape || tensor.bytes.size() != count * sizeof(float)) {
    throw UserError(fmt::format("{}: tensor '{}' is {} of shape [{}]; the model's is float32 of shape [{}]",
                                from.string(), range.name, name_of(tensor.dtype), fmt::join(tensor.shape, ", "),
                                fmt::join(range.shape, ", ")));
  }
  std::vector<float> values(count);
  if (count > 0) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  sum.resize(count);
  for (size_t i = 0; i < count; ++i) sum[i] += values[i];
}

HostTensor mean_of(const std::vector<double>& sum, int64_t count, const FlatRange& range) {
  HostTensor tensor{DType::kFloat32, range.shape, {}};
  std::vector<float> values(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) values[i] = static_cast<float>(sum[i] / static_cast<double>(count));
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  tensor.bytes.assign(bytes, bytes + values.size() * sizeof(float));
  return tensor;
}

}  // namespace

AveragedCheckpoints read_average(const std::filesystem::path& newest, int64_t count, const FlatLayout& layout) {
  MLBENCH_CHECK(count >= 1, "a mean of no checkpoints");
  AveragedCheckpoints averaged;
  std::map<std::string, std::vector<double>> sums;
  std::string task;
  for (const CheckpointInfo& info : last_checkpoints(newest, count)) {
    NamedState state = read_checkpoint(info.path);
    const std::string& its_task = state.text("train/task_hash");
    if (!averaged.steps.empty() && its_task != task) {
      throw UserError(fmt::format("{} is a checkpoint of another task than those before it", info.path.string()));
    }
    task = its_task;
    for (const FlatRange& range : layout.ranges) add(state.tensor(range.name), range, info.path, sums[range.name]);
    averaged.state.scalars = std::move(state.scalars);
    averaged.steps.push_back(info.step);
  }
  for (const FlatRange& range : layout.ranges) {
    averaged.state.tensors[range.name] = mean_of(sums.at(range.name), count, range);
  }
  return averaged;
}

}  // namespace mlbench::checkpoint
