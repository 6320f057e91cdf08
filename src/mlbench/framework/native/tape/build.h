#pragma once

// From a model's description to its tape.

#include <memory>

#include "mlbench/base/flat_layout.h"
#include "mlbench/framework/native/tape/tape.h"
#include "mlbench/framework/native/tape/vector_kernels.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::native_framework {

struct NetworkOptions {
  models::ModelDescription model;
  FlatLayout layout;
  // The flat buffers; they outlive the network.
  float* parameters = nullptr;
  float* gradients = nullptr;
  float* buffers = nullptr;
  int threads = 1;
  uint64_t seed = 42;
  int rank = 0;
  bool bfloat16 = false;  // activations and copies of weights; all else is float32
  bool dropout = true;
  bool frozen_batch_norm = false;
};

// T: type of activations and copies of weights. UserError for a layer kind that this framework lacks, naming those that
// it has.
template <typename T>
std::unique_ptr<Tape> build_tape(const NetworkOptions& options, InstructionSet set);

}  // namespace mlbench::framework::native_framework
