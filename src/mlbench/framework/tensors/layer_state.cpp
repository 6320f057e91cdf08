#include "mlbench/framework/tensors/layer_state.h"

#include "mlbench/base/errors.h"

namespace mlbench::framework {

std::vector<float> values_of(const std::vector<LayerState>& states) {
  std::vector<float> all;
  for (const LayerState& state : states) {
    for (const at::Tensor& one : state.rows) {
      const at::Tensor host = one.to(at::kCPU).contiguous();
      all.insert(all.end(), host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel());
    }
  }
  return all;
}

std::vector<LayerState> states_of(const models::ModelDescription& model, std::span<const float> values,
                                  int64_t sequences, const at::Device& device) {
  std::vector<LayerState> states(model.layers.size());
  size_t used = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    const Json& options = model.layers[i].options;
    if (!options.value("carried", false) || values.empty()) continue;
    const auto hidden = options.at("hidden").get<int64_t>();
    const auto count = static_cast<size_t>(sequences * hidden);
    for (int part = 0; part < 2; ++part, used += count) {
      MLBENCH_CHECK(used + count <= values.size(), "a carried state of another model or batch");
      states[i].rows.push_back(
          at::tensor(at::ArrayRef<float>(values.data() + used, count)).view({sequences, hidden}).to(device));
    }
  }
  MLBENCH_CHECK(used == values.size(), "a carried state of another model or batch");
  return states;
}

}  // namespace mlbench::framework
