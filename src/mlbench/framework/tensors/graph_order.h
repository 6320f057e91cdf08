#pragma once

// What of a graph's order matters to whoever runs its steps one after the other: layers, or several computed as one.

#include <cstddef>
#include <string>
#include <vector>

#include "mlbench/models/model.h"

namespace mlbench::framework {

class GraphOrder {
 public:
  struct Step {
    std::vector<std::string> inputs;
    std::string output;
  };
  // All steps but the model's last layer, whose inputs are taken behind them, as penalties are.
  GraphOrder(const models::ModelDescription& model, std::vector<Step> steps);

  // Depends on the decoder's input.
  bool decodes(size_t step) const { return steps_[step].decodes; }
  // Values that nobody takes after it.
  const std::vector<std::string>& last_uses(size_t step) const { return steps_[step].last_uses; }
  bool is_needed_by_decoder(const std::string& value) const;

 private:
  struct Known : Step {
    std::vector<std::string> last_uses;
    bool decodes = false;
  };
  std::vector<Known> steps_;
};

}  // namespace mlbench::framework
