#include "mlbench/framework/tensorflow/layer_done.h"

#include <mutex>
#include <utility>

namespace mlbench::framework::tensorflow_framework {

namespace {

constexpr const char* kLayerDone = "MlbenchLayerDone";

struct Kernel {
  LayerListener* listener = nullptr;
  size_t layer = 0;
};

void* create_kernel(TF_OpKernelConstruction* construction) {
  Status status;
  int64_t listener = 0, layer = 0;
  library().TF_OpKernelConstruction_GetAttrInt64(construction, "listener", &listener, status);
  if (status.ok()) library().TF_OpKernelConstruction_GetAttrInt64(construction, "layer", &layer, status);
  if (!status.ok()) {
    library().TF_OpKernelConstruction_Failure(construction, status);
    return nullptr;
  }
  return new Kernel{reinterpret_cast<LayerListener*>(listener), static_cast<size_t>(layer)};
}

void run_kernel(void* kernel, TF_OpKernelContext* context) {
  const Kernel& self = *static_cast<Kernel*>(kernel);
  Status status;
  std::vector<Tensor> kept;
  std::vector<std::span<const float>> gradients;
  for (int i = 0; i < library().TF_NumInputs(context); ++i) {
    TF_Tensor* tensor = nullptr;
    library().TF_GetInput(context, i, &tensor, status);
    if (!status.ok()) return library().TF_OpKernelContext_Failure(context, status);
    kept.emplace_back(tensor);
    gradients.emplace_back(static_cast<const float*>(library().TF_TensorData(tensor)),
                           library().TF_TensorByteSize(tensor) / sizeof(float));
  }
  if (self.listener->tell(self.layer, gradients)) return;
  library().TF_SetStatus(status, TF_ABORTED, "the listener of a layer failed");
  library().TF_OpKernelContext_Failure(context, status);
}

void delete_kernel(void* kernel) { delete static_cast<Kernel*>(kernel); }

void register_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    Status status;
    TF_OpDefinitionBuilder* const definition = library().TF_NewOpDefinitionBuilder(kLayerDone);
    library().TF_OpDefinitionBuilderAddAttr(definition, "N: int >= 0");
    library().TF_OpDefinitionBuilderAddAttr(definition, "listener: int");
    library().TF_OpDefinitionBuilderAddAttr(definition, "layer: int");
    library().TF_OpDefinitionBuilderAddInput(definition, "gradients: N * float");
    // TensorFlow neither drops nor joins operations with a state.
    library().TF_OpDefinitionBuilderSetIsStateful(definition, true);
    library().TF_OpDefinitionBuilderSetShapeInferenceFunction(
        definition, [](TF_ShapeInferenceContext*, TF_Status* made) { library().TF_SetStatus(made, TF_OK, ""); });
    library().TF_RegisterOpDefinition(definition, status);
    status.check("the definition of an operation");
    TF_KernelBuilder* const builder =
        library().TF_NewKernelBuilder(kLayerDone, "CPU", create_kernel, run_kernel, delete_kernel);
    library().TF_RegisterKernelBuilder(kLayerDone, builder, status);
    status.check("the kernel of an operation");
  });
}

}  // namespace

bool LayerListener::tell(size_t layer, const std::vector<std::span<const float>>& gradients) noexcept {
  const std::lock_guard lock(mutex_);
  if (thrown_ != nullptr) return false;
  try {
    layer_done(layer, gradients);
  } catch (...) {  // no exception may pass TensorFlow's frames
    thrown_ = std::current_exception();
  }
  return thrown_ == nullptr;
}

void LayerListener::rethrow() {
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

TF_Operation* add_layer_done(Graph& graph, LayerListener& listener, size_t layer, const std::vector<Output>& gradients,
                             const std::vector<TF_Operation*>& after) {
  register_once();
  return graph.operation(kLayerDone)
      .inputs(gradients)
      .after(after)
      .set("listener", static_cast<int64_t>(reinterpret_cast<intptr_t>(&listener)))
      .set("layer", static_cast<int64_t>(layer))
      .finish();
}

}  // namespace mlbench::framework::tensorflow_framework
