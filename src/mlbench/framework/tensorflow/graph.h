#pragma once

// A TensorFlow graph and the session that runs it, over the plain C API.

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "mlbench/framework/tensorflow/library.h"

namespace mlbench::framework::tensorflow_framework {

// The result of a call of the C API.
class Status {
 public:
  Status() : status_(library().TF_NewStatus()) {}
  ~Status() { library().TF_DeleteStatus(status_); }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  operator TF_Status*() { return status_; }  // NOLINT: calls take it
  bool ok() const { return library().TF_GetCode(status_) == TF_OK; }
  // Throws std::runtime_error with TensorFlow's message where the call, for which `what` stands, failed.
  void check(const std::string& what) const;

 private:
  TF_Status* status_;
};

struct DeleteTensor {
  void operator()(TF_Tensor* tensor) const { library().TF_DeleteTensor(tensor); }
};
using Tensor = std::unique_ptr<TF_Tensor, DeleteTensor>;

// A tensor over memory that must outlive it. TensorFlow copies memory that is not aligned to 64 bytes.
Tensor alias(TF_DataType type, const std::vector<int64_t>& shape, const void* data, size_t bytes);

using Output = TF_Output;

// Writes one operation: inputs, control inputs and attributes, then finish().
class OperationWriter {
 public:
  OperationWriter(TF_Graph* graph, std::string kind, const std::string& name);

  OperationWriter& input(Output value);
  OperationWriter& inputs(const std::vector<Output>& values);  // one input that is a list
  OperationWriter& after(const std::vector<TF_Operation*>& operations);
  OperationWriter& set(const char* attribute, TF_DataType value);
  OperationWriter& set(const char* attribute, int64_t value);
  OperationWriter& set(const char* attribute, float value);
  OperationWriter& set(const char* attribute, bool value);
  OperationWriter& set(const char* attribute, const char* value);
  OperationWriter& set(const char* attribute, const std::vector<int64_t>& values);
  OperationWriter& set_shape(const char* attribute, const std::vector<int64_t>& shape);  // -1: any extent
  OperationWriter& set_tensor(const char* attribute, const Tensor& value);

  // Throws std::runtime_error where TensorFlow refuses the operation.
  TF_Operation* finish();
  Output output() { return {finish(), 0}; }

 private:
  TF_OperationDescription* description_;
  std::string kind_;
};

class Graph {
 public:
  Graph() : graph_(library().TF_NewGraph()) {}
  ~Graph() { library().TF_DeleteGraph(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  TF_Graph* get() const { return graph_; }
  OperationWriter operation(const std::string& kind);
  Output placeholder(TF_DataType type, const std::vector<int64_t>& shape);  // -1: any extent
  Output integers(const std::vector<int32_t>& values);                      // [values.size()]
  Output integer(int32_t value);                                            // a scalar, as are the next
  Output long_integer(int64_t value);
  Output constant(float value);
  Output constant(double value);
  Output vector(const std::vector<float>& values);
  Output matrix(const std::vector<float>& values, int64_t rows);
  Output integer_matrix(const std::vector<int32_t>& values, int64_t rows);
  Output unary(const char* kind, Output x) { return operation(kind).input(x).output(); }
  Output binary(const char* kind, Output a, Output b) { return operation(kind).input(a).input(b).output(); }
  Output cast(Output x, TF_DataType to) { return operation("Cast").input(x).set("DstT", to).output(); }
  // A sum of products, which the equation describes by letters for extents: "btd,od->bto".
  Output einsum(const char* equation, Output a, Output b);
  // The gradients with respect to `xs`, where `dy` is that of `y`, by TensorFlow's own rules.
  std::vector<Output> gradients(Output y, Output dy, const std::vector<Output>& xs);
  std::vector<TF_Operation*> operations() const;

 private:
  Output constant_of(TF_DataType type, const std::vector<int64_t>& shape, const void* data, size_t bytes);

  TF_Graph* graph_;
  int64_t made_ = 0;
};

class Session {
 public:
  // `threads` run one operation (a pool that all sessions of the process share: the first one sets it),
  // `inter_op_threads` run operations at once. Where that is 1, operations run in the thread that calls run().
  Session(const Graph& graph, int threads, int inter_op_threads);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Gives `inputs` the values `fed`, runs `targets` and returns the values of `fetches`. Throws std::runtime_error
  // where an operation fails.
  std::vector<Tensor> run(const std::vector<Output>& inputs, const std::vector<TF_Tensor*>& fed,
                          const std::vector<Output>& fetches, const std::vector<TF_Operation*>& targets);

 private:
  TF_Session* session_ = nullptr;
  TF_Buffer* run_options_ = nullptr;  // null: TensorFlow's own
};

}  // namespace mlbench::framework::tensorflow_framework
