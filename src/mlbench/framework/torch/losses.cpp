#include "mlbench/framework/torch/losses.h"

#include <fmt/format.h>

#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"

namespace mlbench::framework::torch_framework {

namespace {

constexpr SampleLoss kLosses[] = {
    {"cross_entropy",
     [](const at::Tensor& logits, const at::Tensor& labels) { return at::cross_entropy_loss(logits, labels); },
     [](const at::Tensor& logits) { return logits; }},
    {"binary_cross_entropy",
     // On logits, this is max(z, 0) - z y + log(1 + exp(-|z|)), which neither overflows nor needs log(0).
     [](const at::Tensor& logits, const at::Tensor& labels) {
       return at::binary_cross_entropy_with_logits(logits, labels.to(at::kFloat).view_as(logits));
     },
     [](const at::Tensor& logits) { return at::sigmoid(logits); }},
    {"mean_squared_error",
     [](const at::Tensor& outputs, const at::Tensor& labels) {
       return at::mse_loss(outputs, labels.to(at::kFloat).view_as(outputs));
     },
     [](const at::Tensor& outputs) { return outputs; }},
    {"token_cross_entropy", nullptr, nullptr},
};

}  // namespace

const SampleLoss& find_loss(const models::ModelDescription& model) {
  std::vector<std::string> names;
  for (const SampleLoss& row : kLosses) {
    if ((row.mean == nullptr) != model.is_graph()) continue;
    if (row.name == model.loss.kind) return row;
    names.emplace_back(row.name);
  }
  throw UserError(fmt::format("framework 'torch' has no loss '{}' for model '{}'{}", model.loss.kind, model.name,
                              valid_text(model.loss.kind, names)));
}

}  // namespace mlbench::framework::torch_framework
