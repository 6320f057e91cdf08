#include "mlbench/spec/loss.h"

#include <algorithm>
#include <iterator>

namespace mlbench::spec {

namespace {

constexpr LossKind kLosses[] = {
    {.name = "cross_entropy", .classifies = true},
    {.name = "binary_cross_entropy", .classifies = true, .one_output = true},
    {.name = "mean_squared_error", .one_output = true},
    {.name = "token_cross_entropy", .over_tokens = true},
};

}  // namespace

LossKind loss_kind(std::string_view name) {
  const auto* found = std::ranges::find(kLosses, name, &LossKind::name);
  return found == std::end(kLosses) ? LossKind{.name = name} : *found;
}

}  // namespace mlbench::spec
