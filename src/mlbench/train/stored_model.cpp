#include "mlbench/train/stored_model.h"

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/checkpoint/average.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/framework/host_values.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/split.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/snapshot.h"

namespace mlbench::train {

namespace {

Json unused_tensors(const std::map<std::string, HostTensor>& tensors, const FlatLayout& layout) {
  Json unused = Json::array();
  for (const auto& [name, tensor] : tensors) {
    const bool used = std::any_of(layout.ranges.begin(), layout.ranges.end(),
                                  [&name = name](const FlatRange& range) { return range.name == name; });
    if (!used) unused.push_back(name);
  }
  return unused;
}

}  // namespace

Json evaluate_stored(const std::filesystem::path& model, int64_t average, const spec::RunSpec& run,
                     framework::Framework& framework, const std::function<dataset::PreparedDataset()>& prepare) {
  NamedState state;
  Json step, trained_for, averaged, unused;
  if (std::filesystem::is_directory(model)) {
    if (average > 1) {
      checkpoint::AveragedCheckpoints mean = checkpoint::read_average(model, average, framework.layout());
      state = std::move(mean.state);
      averaged = mean.steps;
    } else {
      state = checkpoint::read_checkpoint(model);
    }
    step = state.integer("train/step");
    trained_for = state.text("train/task_hash");
  } else {
    state.tensors = checkpoint::read_safetensors(model);
    unused = unused_tensors(state.tensors, framework.layout());
  }
  try {
    import_averaged_model(state.tensors, framework);
  } catch (const UserError& error) {
    throw UserError(model.string() + " does not fit task " + run.task.task.name + ": " + error.what());
  }
  const std::string hash =
      models::weights_sha256(framework.layout(), framework::HostValues(framework, framework.parameters()).values(),
                             framework::HostValues(framework, framework.buffers()).values());
  const dataset::PreparedDataset data = prepare();
  return {{"samples", data.split(spec::kTestSplit).samples},
          {"data", data.record()},
          {"metrics", evaluate_whole(framework, run, data)},
          {"weights_sha256", hash},
          {"step", step},
          {"trained_for", trained_for},
          {"averaged", averaged},
          {"unused", unused}};
}

}  // namespace mlbench::train
