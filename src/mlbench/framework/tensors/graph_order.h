#pragma once

// The lifetimes of a graph's values, for code that runs the graph's steps one after the other. A step is a layer, or
// several layers that are computed as one.

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
  // `steps` are all steps but the model's last layer. The inputs of that layer and the model's penalties are used after
  // the last step, so no step is their last use.
  GraphOrder(const models::ModelDescription& model, std::vector<Step> steps);

  // Whether the step depends on the decoder's input.
  bool decodes(size_t step) const { return steps_[step].decodes; }
  // The values that nobody takes after this step, which may be freed then.
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
