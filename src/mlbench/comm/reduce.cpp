#include "mlbench/comm/reduce.h"

#include "mlbench/comm/reduce_element.h"

namespace mlbench::comm {

namespace {

template <typename Format, ReduceOp op>
void accumulate_portable(void* accumulator, const void* other, size_t count, bool other_first) {
  auto* __restrict a = static_cast<Element<Format>*>(accumulator);
  const auto* __restrict b = static_cast<const Element<Format>*>(other);
  for (size_t i = 0; i < count; ++i) accumulate_one<Format, op>(a[i], b[i], other_first);
}

template <typename Format>
void divide_portable(void* values, size_t count, int divisor) {
  auto* v = static_cast<Element<Format>*>(values);
  for (size_t i = 0; i < count; ++i) divide_one<Format>(v[i], divisor);
}

template <typename Format>
void narrow_portable(uint16_t* narrow, const float* wide, size_t count) {
  for (size_t i = 0; i < count; ++i) narrow[i] = Format::store(wide[i]);
}

template <typename Format>
void widen_portable(float* wide, const uint16_t* narrow, size_t count) {
  for (size_t i = 0; i < count; ++i) wide[i] = Format::load(narrow[i]);
}

template <ReduceOp op>
AccumulateFunction portable_function(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return accumulate_portable<Plain<uint8_t>, op>;
    case DType::kInt8:
      return accumulate_portable<Plain<int8_t>, op>;
    case DType::kInt32:
      return accumulate_portable<Plain<int32_t>, op>;
    case DType::kInt64:
      return accumulate_portable<Plain<int64_t>, op>;
    case DType::kFloat16:
      return accumulate_portable<Float16, op>;
    case DType::kBFloat16:
      return accumulate_portable<BFloat16, op>;
    case DType::kFloat32:
      return accumulate_portable<Plain<float>, op>;
    case DType::kFloat64:
      return accumulate_portable<Plain<double>, op>;
  }
  return nullptr;
}

}  // namespace

AccumulateFunction portable_accumulate_function(DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return portable_function<ReduceOp::kSum>(dtype);
    case ReduceOp::kProd:
      return portable_function<ReduceOp::kProd>(dtype);
    case ReduceOp::kMin:
      return portable_function<ReduceOp::kMin>(dtype);
    case ReduceOp::kMax:
      return portable_function<ReduceOp::kMax>(dtype);
    case ReduceOp::kAvg:
      break;
  }
  return nullptr;
}

AccumulateFunction accumulate_function(DType dtype, ReduceOp op) {
  const AccumulateFunction fast = cpu_accumulate_function(dtype, op);
  return fast != nullptr ? fast : portable_accumulate_function(dtype, op);
}

DivideFunction portable_divide_function(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return divide_portable<Plain<uint8_t>>;
    case DType::kInt8:
      return divide_portable<Plain<int8_t>>;
    case DType::kInt32:
      return divide_portable<Plain<int32_t>>;
    case DType::kInt64:
      return divide_portable<Plain<int64_t>>;
    case DType::kFloat16:
      return divide_portable<Float16>;
    case DType::kBFloat16:
      return divide_portable<BFloat16>;
    case DType::kFloat32:
      return divide_portable<Plain<float>>;
    case DType::kFloat64:
      return divide_portable<Plain<double>>;
  }
  return nullptr;
}

DivideFunction divide_function(DType dtype) {
  const DivideFunction fast = cpu_divide_function(dtype);
  return fast != nullptr ? fast : portable_divide_function(dtype);
}

NarrowFunction portable_narrow_function(DType dtype) {
  if (dtype == DType::kFloat16) return narrow_portable<Float16>;
  if (dtype == DType::kBFloat16) return narrow_portable<BFloat16>;
  return nullptr;
}

WidenFunction portable_widen_function(DType dtype) {
  if (dtype == DType::kFloat16) return widen_portable<Float16>;
  if (dtype == DType::kBFloat16) return widen_portable<BFloat16>;
  return nullptr;
}

NarrowFunction narrow_function(DType dtype) {
  const NarrowFunction fast = cpu_narrow_function(dtype);
  return fast != nullptr ? fast : portable_narrow_function(dtype);
}

WidenFunction widen_function(DType dtype) {
  const WidenFunction fast = cpu_widen_function(dtype);
  return fast != nullptr ? fast : portable_widen_function(dtype);
}

}  // namespace mlbench::comm
