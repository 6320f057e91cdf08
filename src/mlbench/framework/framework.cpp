#include "mlbench/framework/framework.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"

namespace mlbench::framework {

double l2_penalty(const models::ModelDescription& model, const at::Tensor& parameters) {
  return model.l2 > 0 ? model.l2 / 2 * parameters.dot(parameters).item<double>() : 0;
}

bool begin_gradients(const models::ModelDescription& model, const at::Tensor& parameters, at::Tensor& gradients,
                     const BackwardOptions& options) {
  if (model.l2 <= 0) return options.accumulate;
  const double scale = options.scale * model.l2;
  if (options.accumulate) {
    gradients.add_(parameters, scale);
  } else {
    at::mul_out(gradients, parameters, at::scalar_tensor(scale, at::kFloat));
  }
  return true;
}

void refuse_outputs(const models::ModelDescription& model) {
  throw UserError(
      fmt::format("model '{}' has no outputs per sample: its loss is over tokens; metrics of it: loss, perplexity, "
                  "BLEU",
                  model.name));
}

std::unique_ptr<Decoder> Framework::make_decoder() {
  throw UserError("framework '" + effective().at("name").get<std::string>() +
                  "' writes no sequences of this model; decoding takes the models gnmt and transformer, --framework "
                  "torch or native");
}

}  // namespace mlbench::framework
