#include "mlbench/framework/tensorflow/graph.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/tensorflow/session_config.pb.h"

namespace mlbench::framework::tensorflow_framework {

void Status::check(const std::string& what) const {
  if (!ok()) throw std::runtime_error(fmt::format("TensorFlow: {}: {}", what, library().TF_Message(status_)));
}

Tensor alias(TF_DataType type, const std::vector<int64_t>& shape, const void* data, size_t bytes) {
  // TF_NewTensor takes a writable pointer; TensorFlow does not write to what it is fed.
  Tensor tensor(library().TF_NewTensor(
      type, shape.data(), static_cast<int>(shape.size()), const_cast<void*>(data), bytes, [](void*, size_t, void*) {},
      nullptr));
  MLBENCH_CHECK(tensor != nullptr, fmt::format("a tensor over {} bytes", bytes));
  return tensor;
}

OperationWriter::OperationWriter(TF_Graph* graph, std::string kind, const std::string& name)
    : description_(library().TF_NewOperation(graph, kind.c_str(), name.c_str())), kind_(std::move(kind)) {}

OperationWriter& OperationWriter::input(Output value) {
  library().TF_AddInput(description_, value);
  return *this;
}

OperationWriter& OperationWriter::inputs(const std::vector<Output>& values) {
  library().TF_AddInputList(description_, values.data(), static_cast<int>(values.size()));
  return *this;
}

OperationWriter& OperationWriter::after(const std::vector<TF_Operation*>& operations) {
  for (TF_Operation* operation : operations) library().TF_AddControlInput(description_, operation);
  return *this;
}

OperationWriter& OperationWriter::set(const char* attribute, TF_DataType value) {
  library().TF_SetAttrType(description_, attribute, value);
  return *this;
}

OperationWriter& OperationWriter::set(const char* attribute, int64_t value) {
  library().TF_SetAttrInt(description_, attribute, value);
  return *this;
}

OperationWriter& OperationWriter::set(const char* attribute, float value) {
  library().TF_SetAttrFloat(description_, attribute, value);
  return *this;
}

OperationWriter& OperationWriter::set(const char* attribute, bool value) {
  library().TF_SetAttrBool(description_, attribute, static_cast<unsigned char>(value));
  return *this;
}

OperationWriter& OperationWriter::set(const char* attribute, const char* value) {
  library().TF_SetAttrString(description_, attribute, value, std::strlen(value));
  return *this;
}

OperationWriter& OperationWriter::set(const char* attribute, const std::vector<int64_t>& values) {
  library().TF_SetAttrIntList(description_, attribute, values.data(), static_cast<int>(values.size()));
  return *this;
}

OperationWriter& OperationWriter::set_shape(const char* attribute, const std::vector<int64_t>& shape) {
  library().TF_SetAttrShape(description_, attribute, shape.data(), static_cast<int>(shape.size()));
  return *this;
}

OperationWriter& OperationWriter::set_tensor(const char* attribute, const Tensor& value) {
  Status status;
  library().TF_SetAttrTensor(description_, attribute, value.get(), status);
  status.check(kind_);
  return *this;
}

TF_Operation* OperationWriter::finish() {
  Status status;
  TF_Operation* const operation = library().TF_FinishOperation(description_, status);
  status.check(kind_);
  return operation;
}

OperationWriter Graph::operation(const std::string& kind) {
  return {graph_, kind, fmt::format("{}_{}", kind, made_++)};
}

Output Graph::placeholder(TF_DataType type, const std::vector<int64_t>& shape) {
  return operation("Placeholder").set("dtype", type).set_shape("shape", shape).output();
}

Output Graph::constant_of(TF_DataType type, const std::vector<int64_t>& shape, const void* data, size_t bytes) {
  // The operation keeps a copy of its own.
  return operation("Const").set_tensor("value", alias(type, shape, data, bytes)).set("dtype", type).output();
}

Output Graph::integers(const std::vector<int32_t>& values) {
  return constant_of(TF_INT32, {static_cast<int64_t>(values.size())}, values.data(), values.size() * sizeof(int32_t));
}

Output Graph::integer(int32_t value) { return constant_of(TF_INT32, {}, &value, sizeof(value)); }

Output Graph::long_integer(int64_t value) { return constant_of(TF_INT64, {}, &value, sizeof(value)); }

Output Graph::constant(float value) { return constant_of(TF_FLOAT, {}, &value, sizeof(value)); }

Output Graph::constant(double value) { return constant_of(TF_DOUBLE, {}, &value, sizeof(value)); }

Output Graph::einsum(const char* equation, Output a, Output b) {
  return operation("Einsum").inputs({a, b}).set("equation", equation).output();
}

Output Graph::vector(const std::vector<float>& values) {
  return constant_of(TF_FLOAT, {static_cast<int64_t>(values.size())}, values.data(), values.size() * sizeof(float));
}

Output Graph::matrix(const std::vector<float>& values, int64_t rows) {
  return constant_of(TF_FLOAT, {rows, static_cast<int64_t>(values.size()) / rows}, values.data(),
                     values.size() * sizeof(float));
}

Output Graph::integer_matrix(const std::vector<int32_t>& values, int64_t rows) {
  return constant_of(TF_INT32, {rows, static_cast<int64_t>(values.size()) / rows}, values.data(),
                     values.size() * sizeof(int32_t));
}

std::vector<Output> Graph::gradients(Output y, Output dy, const std::vector<Output>& xs) {
  std::vector<Output> found(xs.size());
  Status status;
  std::vector<Output> to = xs;  // the call takes writable arrays
  library().TF_AddGradients(graph_, &y, 1, to.data(), static_cast<int>(to.size()), &dy, status, found.data());
  status.check(fmt::format("the gradient of {}", library().TF_OperationOpType(y.oper)));
  return found;
}

std::vector<TF_Operation*> Graph::operations() const {
  std::vector<TF_Operation*> all;
  size_t position = 0;
  while (TF_Operation* const one = library().TF_GraphNextOperation(graph_, &position)) all.push_back(one);
  return all;
}

Session::Session(const Graph& graph, int threads, int inter_op_threads) {
  tensorflow::ConfigProto config;
  config.set_intra_op_parallelism_threads(threads);
  config.set_inter_op_parallelism_threads(inter_op_threads);
  config.set_use_per_session_threads(true);
  const std::string bytes = config.SerializeAsString();
  TF_SessionOptions* const options = library().TF_NewSessionOptions();
  Status status;
  library().TF_SetConfig(options, bytes.data(), bytes.size(), status);
  if (status.ok()) session_ = library().TF_NewSession(graph.get(), options, status);
  library().TF_DeleteSessionOptions(options);
  status.check("a session");
  if (inter_op_threads == 1) {
    tensorflow::RunOptions run;
    run.set_inter_op_thread_pool(-1);
    const std::string run_bytes = run.SerializeAsString();
    run_options_ = library().TF_NewBufferFromString(run_bytes.data(), run_bytes.size());
  }
}

Session::~Session() {
  Status status;
  library().TF_CloseSession(session_, status);
  library().TF_DeleteSession(session_, status);
  if (run_options_ != nullptr) library().TF_DeleteBuffer(run_options_);
}

std::vector<Tensor> Session::run(const std::vector<Output>& inputs, const std::vector<TF_Tensor*>& fed,
                                 const std::vector<Output>& fetches, const std::vector<TF_Operation*>& targets) {
  MLBENCH_CHECK(inputs.size() == fed.size(), "a value for each input");
  std::vector<TF_Tensor*> fetched(fetches.size());
  Status status;
  library().TF_SessionRun(session_, run_options_, inputs.data(), fed.data(), static_cast<int>(inputs.size()),
                          fetches.data(), fetched.data(), static_cast<int>(fetches.size()), targets.data(),
                          static_cast<int>(targets.size()), nullptr, status);
  std::vector<Tensor> values;
  for (TF_Tensor* one : fetched) values.emplace_back(one);
  status.check("a run");
  return values;
}

}  // namespace mlbench::framework::tensorflow_framework
