#include "mlbench/base/errors.h"
#include "mlbench/data/sample_source.h"

namespace mlbench::data {

namespace {

class ColumnSource final : public SampleSource {
 public:
  ColumnSource(std::span<const int32_t> tokens, int64_t columns)
      : tokens_(tokens), columns_(columns), height_(column_height(std::ssize(tokens), columns)) {}

  int64_t size() const override { return columns_; }

  void fill(const SampleRequest& request, BatchView& view, BatchMemory& memory) const override {
    const std::span<const int64_t> rows = request.rows;
    const Piece& piece = request.piece;
    MLBENCH_CHECK(piece.first >= 0 && piece.first + piece.positions < height_, "positions beyond the columns");
    const size_t columns = rows.size();
    const auto elements = piece.positions * std::ssize(rows);
    const std::span<int64_t> tokens = memory.integers(0, elements), targets = memory.integers(1, elements);
    for (size_t column = 0; column < columns; ++column) {
      const int32_t* next = tokens_.data() + rows[column] * height_ + piece.first;
      for (size_t at = column; at < tokens.size(); at += columns, ++next) {
        tokens[at] = next[0];
        targets[at] = next[1];
      }
    }
    view.samples = std::ssize(rows);
    view.weight = elements;
    view.continues = piece.continues;
    const std::vector<int64_t> shape = {piece.positions, std::ssize(rows)};
    view.tensors = {{"tokens", shape, const_view_of(std::span<const int64_t>(tokens)), {}},
                    {"targets", shape, const_view_of(std::span<const int64_t>(targets)), {}}};
  }

 private:
  std::span<const int32_t> tokens_;
  int64_t columns_, height_;
};

}  // namespace

std::shared_ptr<const SampleSource> make_column_source(std::span<const int32_t> text, int64_t columns) {
  return std::make_shared<ColumnSource>(text, columns);
}

TextHoldout hold_out_end(std::span<const int32_t> text, double share) {
  const auto held_out = static_cast<size_t>(held_out_count(std::ssize(text), share));
  return {text.first(text.size() - held_out), text.last(held_out)};
}

}  // namespace mlbench::data
