#pragma once

// The columns of a split. A column is one datum of each record, and its type says how records are stored. Columns are
// views of mapped memory, which must outlive them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"
#include "mlbench/base/sparse_rows.h"

namespace mlbench::dataset {

// Values of one shape per record, back to back, row-major.
struct FixedColumn {
  static constexpr std::string_view kType = "values";

  std::string name;            // "features"; "labels" (int64, one value, in [0, classes))
  std::vector<int64_t> shape;  // of a record; empty: one value
  ConstBufferView values;      // records() * volume() elements

  int64_t volume() const { return volume_of(shape); }
  int64_t records() const { return values.count / volume(); }
  ConstBufferView record(int64_t number) const { return values.slice(number * volume(), volume()); }
  // All values. Precondition: they are of this type.
  template <typename T>
  std::span<const T> as() const {
    MLBENCH_CHECK(values.dtype == dtype_of<T>(), name);
    return {static_cast<const T*>(values.data), static_cast<size_t>(values.count)};
  }
};

// Any number of elements per record.
template <typename Element>
struct VariableColumn {
  static constexpr std::string_view kType = std::is_same_v<Element, std::byte> ? "bytes" : "tokens";

  std::string name;
  std::span<const Element> elements;  // those of all records, back to back
  std::span<const int64_t> offsets;   // [records + 1]: record i is elements [offsets[i], offsets[i + 1])

  int64_t records() const { return std::ssize(offsets) - 1; }
  int64_t length(int64_t record) const {
    return offsets[static_cast<size_t>(record) + 1] - offsets[static_cast<size_t>(record)];
  }
  std::span<const Element> record(int64_t number) const {
    return elements.subspan(static_cast<size_t>(offsets[static_cast<size_t>(number)]),
                            static_cast<size_t>(length(number)));
  }
};
using BytesColumn = VariableColumn<std::byte>;  // "key": what names an encoded image in its shard
using TokenColumn = VariableColumn<int32_t>;    // "source" and "target"; "tokens", a whole text as one record

// Rows of `dimension` values, of which only those that are not zero are stored: "features".
struct SparseColumn : VariableColumn<SparseEntry> {
  static constexpr std::string_view kType = "sparse rows";

  int64_t dimension = 0;

  SparseMatrix matrix() const { return {elements, offsets}; }
};

using Column = std::variant<FixedColumn, BytesColumn, TokenColumn, SparseColumn>;

const std::string& name_of(const Column& column);
// Name and type, for messages: "features (uint8 [3, 32, 32])", "encoded (bytes)", "source (tokens)",
// "features (sparse rows [47236])".
std::string text_of(const Column& column);

}  // namespace mlbench::dataset
