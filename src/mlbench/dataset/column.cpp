#include "mlbench/dataset/column.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mlbench::dataset {

namespace {

std::string type_text(const FixedColumn& column) {
  return fmt::format("{} [{}]", name_of(column.values.dtype), fmt::join(column.shape, ", "));
}
template <typename Element>
std::string_view type_text(const VariableColumn<Element>& column) {
  return column.kType;
}
std::string type_text(const SparseColumn& column) { return fmt::format("{} [{}]", column.kType, column.dimension); }

}  // namespace

const std::string& name_of(const Column& column) {
  return std::visit([](const auto& one) -> const std::string& { return one.name; }, column);
}

std::string text_of(const Column& column) {
  return std::visit([](const auto& one) { return fmt::format("{} ({})", one.name, type_text(one)); }, column);
}

}  // namespace mlbench::dataset
