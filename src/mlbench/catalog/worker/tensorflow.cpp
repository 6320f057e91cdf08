#include "mlbench/catalog/worker/tensorflow.h"

#include <iterator>

#include "mlbench/framework/tensorflow/factory.h"

namespace mlbench::catalog {

const std::vector<FrameworkRow>& tensorflow_frameworks() {
  static const std::vector<FrameworkRow> kRows = {
      {.name = "tensorflow",
       .available = framework::tensorflow_framework::available,
       .make = framework::tensorflow_framework::make,
       .about = "TensorFlow's kernels and gradients, for CPUs",
       .inter_op = true,
       .precisions = {std::begin(framework::tensorflow_framework::kPrecisions),
                      std::end(framework::tensorflow_framework::kPrecisions)},
       .devices = {std::begin(framework::tensorflow_framework::kDevices),
                   std::end(framework::tensorflow_framework::kDevices)},
       .layers = framework::tensorflow_framework::layers},
  };
  return kRows;
}

}  // namespace mlbench::catalog
