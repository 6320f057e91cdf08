#include "mlbench/base/buffer.h"

namespace mlbench {

namespace {
struct DTypeRow {
  size_t size;
  std::string_view name;
};
constexpr DTypeRow kDTypes[] = {{1, "uint8"},   {1, "int8"},     {4, "int32"},   {8, "int64"},
                                {2, "float16"}, {2, "bfloat16"}, {4, "float32"}, {8, "float64"}};
}  // namespace

size_t size_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

}  // namespace mlbench
