#include "mlbench/comm/wrap/cast.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/comm/reduce.h"
#include "mlbench/comm/wrapper.h"

namespace mlbench::comm {

namespace {

bool is_cast(DType dtype) { return dtype == DType::kFloat32; }

// A buffer in 16 bits. Memory that was allocated once is used again.
class Halves {
 public:
  explicit Halves(DType wire) : wire_(wire) {}

  BufferView of(int64_t count) {
    if (values_.size() < static_cast<size_t>(count)) values_.resize(static_cast<size_t>(count));
    return {values_.data(), count, wire_, {}};
  }
  BufferView narrowed(const ConstBufferView& wide) {
    const BufferView view = of(wide.count);
    narrow_function(wire_)(values_.data(), static_cast<const float*>(wide.data), static_cast<size_t>(wide.count));
    return view;
  }
  void widen_to(const BufferView& wide) const {
    widen_function(wire_)(static_cast<float*>(wide.data), values_.data(), static_cast<size_t>(wide.count));
  }

 private:
  DType wire_;
  std::vector<uint16_t> values_;
};

class CastWork final : public Work {
 public:
  CastWork(Transport& inner, BufferView buffer, ReduceOp op, DType wire)
      : buffer_(buffer), halves_(wire), work_(inner.all_reduce_async(halves_.narrowed(buffer), op)) {}
  ~CastWork() override { await_silently(); }
  bool done() override { return work_->done(); }
  void synchronize() override {
    work_->synchronize();
    if (!std::exchange(widened_, true)) halves_.widen_to(buffer_);
  }

 private:
  BufferView buffer_;
  Halves halves_;
  std::unique_ptr<Work> work_;  // uses the halves
  bool widened_ = false;
};

class Cast final : public Wrapper {
 public:
  Cast(std::unique_ptr<Transport> inner, DType wire)
      : Wrapper(std::move(inner)), wire_(wire), input_(wire), output_(wire) {}
  std::string description() const override {
    return fmt::format("cast[{}]({})", name_of(wire_), inner().description());
  }
  // The host converts.
  bool supports(const Device& device) const override { return Transport::supports(device) && inner().supports(device); }

  void broadcast(BufferView buffer, int root) override {
    if (!is_cast(buffer.dtype)) return inner().broadcast(buffer, root);
    inner().broadcast(rank() == root ? output_.narrowed(buffer) : output_.of(buffer.count), root);
    output_.widen_to(buffer);
  }

  void all_reduce(BufferView buffer, ReduceOp op) override {
    if (!is_cast(buffer.dtype)) return inner().all_reduce(buffer, op);
    inner().all_reduce(output_.narrowed(buffer), op);
    output_.widen_to(buffer);
  }

  std::unique_ptr<Work> all_reduce_async(BufferView buffer, ReduceOp op) override {
    if (!is_cast(buffer.dtype)) return inner().all_reduce_async(buffer, op);
    return std::make_unique<CastWork>(inner(), buffer, op, wire_);
  }

  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    if (!is_cast(output.dtype)) return inner().all_gather_v(input, output, counts);
    inner().all_gather_v(input_.narrowed(input), output_.of(output.count), counts);
    output_.widen_to(output);
  }

  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override {
    if (!is_cast(output.dtype)) return inner().reduce_scatter(input, output, op);
    inner().reduce_scatter(input_.narrowed(input), output_.of(output.count), op);
    output_.widen_to(output);
  }

  std::unique_ptr<Transport> split(int colour, int key) override {
    return std::make_unique<Cast>(inner().split(colour, key), wire_);
  }

 private:
  DType wire_;
  Halves input_;
  Halves output_;
};

}  // namespace

std::unique_ptr<Transport> make_cast(std::unique_ptr<Transport> inner, DType wire) {
  MLBENCH_CHECK(wire == DType::kBFloat16 || wire == DType::kFloat16, fmt::format("a cast to {}", name_of(wire)));
  return std::make_unique<Cast>(std::move(inner), wire);
}

}  // namespace mlbench::comm
