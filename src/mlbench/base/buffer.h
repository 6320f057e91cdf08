#pragma once

// Views of memory that cross module borders. A view owns nothing and needs no tensor library.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mlbench {

enum class DType : uint8_t { kUInt8, kInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64 };

size_t size_of(DType dtype);
std::string_view name_of(DType dtype);  // "uint8" ... "float64"

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::kUInt8;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::kInt8;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kFloat64;
}

struct Device {
  enum class Kind : uint8_t { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// An order of execution on a device. `handle` is the native stream (cudaStream_t); it is null on the CPU, where the
// calling thread orders the work.
struct Stream {
  Device device;
  void* handle = nullptr;
};

// `count` elements of `dtype` at `data`, to be accessed in the order of `stream`. The memory must outlive the view.
struct BufferView {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  Stream stream;

  size_t size_bytes() const { return static_cast<size_t>(count) * size_of(dtype); }
  // The elements [first, first + n).
  BufferView slice(int64_t first, int64_t n) const {
    return {static_cast<std::byte*>(data) + static_cast<size_t>(first) * size_of(dtype), n, dtype, stream};
  }
};

struct ConstBufferView {
  const void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  Stream stream;

  ConstBufferView() = default;
  ConstBufferView(const void* d, int64_t n, DType t, Stream s = {}) : data(d), count(n), dtype(t), stream(s) {}
  ConstBufferView(const BufferView& view)  // NOLINT: a writable view is a readable one
      : data(view.data), count(view.count), dtype(view.dtype), stream(view.stream) {}
  size_t size_bytes() const { return static_cast<size_t>(count) * size_of(dtype); }
  // The elements [first, first + n).
  ConstBufferView slice(int64_t first, int64_t n) const {
    return {static_cast<const std::byte*>(data) + static_cast<size_t>(first) * size_of(dtype), n, dtype, stream};
  }
};

template <typename T>
BufferView view_of(std::span<T> values) {
  return {values.data(), static_cast<int64_t>(values.size()), dtype_of<T>(), {}};
}
template <typename T>
ConstBufferView const_view_of(std::span<const T> values) {
  return {values.data(), static_cast<int64_t>(values.size()), dtype_of<T>()};
}

}  // namespace mlbench
