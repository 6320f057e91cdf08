#include "mlbench/optim/exchange/part_coders.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mlbench::optim {

FlatLayout layout_of_part(const FlatLayout& layout, const FlatPart& part) {
  FlatLayout own;
  own.parameter_elements = part.count;
  for (const FlatRange& range : layout.ranges) {
    const int64_t begin = std::max(range.offset, part.offset);
    const int64_t end = std::min(range.offset + range.count, part.offset + part.count);
    if (!range.trainable || begin >= end) continue;
    const int64_t row = range.shape.size() > 1 ? range.count / range.shape.front() : range.count;
    const int64_t first_row = (begin - range.offset + row - 1) / row, end_row = (end - range.offset) / row;
    std::array<int64_t, 4> cuts = {begin, range.offset + first_row * row, range.offset + end_row * row, end};
    if (first_row > end_row) cuts[1] = cuts[2] = end;  // within one row
    for (size_t piece = 0; piece + 1 < cuts.size(); ++piece) {
      const int64_t count = cuts[piece + 1] - cuts[piece];
      if (count == 0) continue;
      FlatRange cut{range.name, {count}, cuts[piece] - part.offset, count, true, range.use};
      if (piece == 1 && count > row) cut.shape = {count / row, row};
      own.ranges.push_back(std::move(cut));
    }
  }
  return own;
}

void export_coder(const std::string& key, const compress::GradientCoder& coder, NamedState& state) {
  NamedState own;
  coder.export_state(own);
  for (auto& [name, tensor] : own.tensors) state.tensors[key + name] = std::move(tensor);
  for (auto& [name, scalar] : own.scalars) state.scalars[key + name] = std::move(scalar);
}

void import_coder(const std::string& key, const NamedState& state, compress::GradientCoder& coder) {
  NamedState own;
  for (const auto& [name, tensor] : state.tensors) {
    if (name.starts_with(key)) own.tensors[name.substr(key.size())] = tensor;
  }
  for (const auto& [name, scalar] : state.scalars) {
    if (name.starts_with(key)) own.scalars[name.substr(key.size())] = scalar;
  }
  coder.import_state(own);
}

}  // namespace mlbench::optim
