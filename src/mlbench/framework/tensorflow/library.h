#pragma once

// TensorFlow's C API as a table of functions. The library is loaded when it is first asked for, so that none of what it
// exports (BoringSSL, zlib, protobuf, hwloc and more) reaches other libraries of the process, and none of theirs it.

#include <tensorflow/c/c_api.h>
#include <tensorflow/c/kernels.h>
#include <tensorflow/c/ops.h>

#include <filesystem>

namespace mlbench::framework::tensorflow_framework {

#define TENSORFLOW_FUNCTIONS(X)                      \
  X(TF_Version)                                      \
  X(TF_NewStatus)                                    \
  X(TF_DeleteStatus)                                 \
  X(TF_SetStatus)                                    \
  X(TF_GetCode)                                      \
  X(TF_Message)                                      \
  X(TF_NewTensor)                                    \
  X(TF_DeleteTensor)                                 \
  X(TF_TensorData)                                   \
  X(TF_TensorByteSize)                               \
  X(TF_NumDims)                                      \
  X(TF_Dim)                                          \
  X(TF_NewBufferFromString)                          \
  X(TF_DeleteBuffer)                                 \
  X(TF_NewGraph)                                     \
  X(TF_DeleteGraph)                                  \
  X(TF_GraphNextOperation)                           \
  X(TF_NewOperation)                                 \
  X(TF_FinishOperation)                              \
  X(TF_AddInput)                                     \
  X(TF_AddInputList)                                 \
  X(TF_AddControlInput)                              \
  X(TF_SetAttrType)                                  \
  X(TF_SetAttrInt)                                   \
  X(TF_SetAttrFloat)                                 \
  X(TF_SetAttrBool)                                  \
  X(TF_SetAttrString)                                \
  X(TF_SetAttrIntList)                               \
  X(TF_SetAttrShape)                                 \
  X(TF_SetAttrTensor)                                \
  X(TF_OperationNumInputs)                           \
  X(TF_OperationInput)                               \
  X(TF_OperationOpType)                              \
  X(TF_OperationOutputType)                          \
  X(TF_AddGradients)                                 \
  X(TF_NewSessionOptions)                            \
  X(TF_DeleteSessionOptions)                         \
  X(TF_SetConfig)                                    \
  X(TF_NewSession)                                   \
  X(TF_CloseSession)                                 \
  X(TF_DeleteSession)                                \
  X(TF_SessionRun)                                   \
  X(TF_NewOpDefinitionBuilder)                       \
  X(TF_OpDefinitionBuilderAddInput)                  \
  X(TF_OpDefinitionBuilderAddAttr)                   \
  X(TF_OpDefinitionBuilderSetIsStateful)             \
  X(TF_OpDefinitionBuilderSetShapeInferenceFunction) \
  X(TF_RegisterOpDefinition)                         \
  X(TF_NewKernelBuilder)                             \
  X(TF_RegisterKernelBuilder)                        \
  X(TF_OpKernelConstruction_GetAttrInt64)            \
  X(TF_OpKernelConstruction_Failure)                 \
  X(TF_OpKernelContext_Failure)                      \
  X(TF_NumInputs)                                    \
  X(TF_GetInput)

struct Library {
#define TENSORFLOW_MEMBER(name) decltype(&::name) name = nullptr;
  TENSORFLOW_FUNCTIONS(TENSORFLOW_MEMBER)
#undef TENSORFLOW_MEMBER
};

// The library's file: in a folder beside the program where it was installed there, else where the build found it.
std::filesystem::path library_file();
// The library's functions; the first call loads it, which takes some tenths of a second. Throws UserError, with the
// loader's reason, where that fails.
const Library& library();

}  // namespace mlbench::framework::tensorflow_framework
