#pragma once

// Builds the tape of a model from its description.

#include <memory>
#include <string>

#include "mlbench/base/flat_layout.h"
#include "mlbench/framework/native/tape/tape.h"
#include "mlbench/framework/native/tape/vector_kernels.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::native_framework {

struct NetworkOptions {
  models::ModelDescription model;
  FlatLayout layout;
  // The flat buffers, which must outlive the network.
  float* parameters = nullptr;
  float* gradients = nullptr;
  float* buffers = nullptr;
  int threads = 1;
  uint64_t seed = 42;
  int rank = 0;
  bool bfloat16 = false;  // for activations and copies of weights; all else is float32
  bool dropout = true;
  bool frozen_batch_norm = false;
  std::string convolution = "auto";  // as in FrameworkOptions
};

// Builds the tape with the kernels of `set`. T is the type of activations and of copies of weights. Throws UserError
// for a kind of layer that this framework lacks, naming those that it has.
template <typename T>
std::unique_ptr<Tape> build_tape(const NetworkOptions& options, InstructionSet set);

}  // namespace mlbench::framework::native_framework
