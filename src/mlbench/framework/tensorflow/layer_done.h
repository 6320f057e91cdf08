#pragma once

// An operation of our own, without outputs: it tells a listener that a layer is done, in the middle of a session's run,
// and hands it the gradients that the layer computed.

#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

#include "mlbench/framework/tensorflow/graph.h"

namespace mlbench::framework::tensorflow_framework {

class LayerListener {
 public:
  virtual ~LayerListener() = default;

  // Calls layer_done() for the operation, by one thread at a time. Returns false where that threw; then the run is to
  // end.
  bool tell(size_t layer, const std::vector<std::span<const float>>& gradients) noexcept;
  // Throws what layer_done() threw in the run that ended, where it did.
  void rethrow();

 protected:
  virtual void layer_done(size_t layer, const std::vector<std::span<const float>>& gradients) = 0;

 private:
  std::mutex mutex_;
  std::exception_ptr thrown_;
};

// Adds the operation to the graph: it runs when the values `gradients` are there and the operations `after` have run,
// and calls `listener`, which must outlive the graph, with the number `layer`.
TF_Operation* add_layer_done(Graph& graph, LayerListener& listener, size_t layer, const std::vector<Output>& gradients,
                             const std::vector<TF_Operation*>& after);

}  // namespace mlbench::framework::tensorflow_framework
