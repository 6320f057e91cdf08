#include "mlbench/framework/tensors/graph_order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace mlbench::framework {

GraphOrder::GraphOrder(const models::ModelDescription& model, std::vector<Step> steps) {
  std::set<std::string> of_decoder = {model.decoder_input};
  for (Step& made : steps) {
    Known step{std::move(made), {}, false};
    step.decodes = std::ranges::any_of(step.inputs, [&](const auto& value) { return of_decoder.contains(value); });
    if (step.decodes) of_decoder.insert(step.output);
    steps_.push_back(std::move(step));
  }
  // A value is freed when the last step that takes it has run.
  const std::vector<std::string>& last = model.layers.back().inputs;
  std::set<std::string> taken(last.begin(), last.end());
  taken.insert(model.penalties.begin(), model.penalties.end());
  for (size_t i = steps_.size(); i-- > 0;) {
    for (const std::string& value : steps_[i].inputs) {
      if (taken.insert(value).second) steps_[i].last_uses.push_back(value);
    }
  }
}

bool GraphOrder::is_needed_by_decoder(const std::string& value) const {
  return std::ranges::any_of(steps_, [&](const Known& step) {
    return step.decodes && std::ranges::find(step.inputs, value) != step.inputs.end();
  });
}

}  // namespace mlbench::framework
