#include "mlbench/data/sample_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::data {

float* BatchMemory::floats(int64_t count) {
  if (count > float_capacity_ || floats_ == nullptr) {
    float_capacity_ = std::max<int64_t>(count, 1);
    const size_t bytes = static_cast<size_t>(float_capacity_) * sizeof(float);
    floats_.reset();
    floats_.reset(static_cast<float*>(operator new[](bytes, kAlignment)));
  }
  return floats_.get();
}

std::span<int64_t> BatchMemory::integers(size_t slot, int64_t count) {
  if (integers_.size() <= slot) integers_.resize(slot + 1);
  integers_[slot].resize(static_cast<size_t>(count));
  return integers_[slot];
}

namespace {

class RecordSource final : public SampleSource {
 public:
  RecordSource(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform)
      : split_(split),
        features_(split.column<dataset::FixedColumn>("features")),
        labels_(split.labels()),
        transform_(std::move(transform)),
        as_it_is_(transform_->leaves_as_is(features_)) {
    shape_.push_back(0);
    shape_.insert(shape_.end(), transform_->output_shape().begin(), transform_->output_shape().end());
  }

  int64_t size() const override { return features_.records(); }

  void fill(const SampleRequest& request, BatchView& view, BatchMemory& memory) const override {
    const std::span<const int64_t> rows = request.rows;
    const auto count = std::ssize(rows);
    if (view.tensors.empty()) view.tensors = {{"features", shape_, {}, {}}, {"labels", {0}, {}, {}}};
    view.samples = view.weight = count;
    BatchTensor &features = view.tensors[0], &labels = view.tensors[1];
    features.shape[0] = labels.shape[0] = count;
    if (as_it_is_) {
      features.values = features_.values;
      features.rows = rows;
    } else {
      const int64_t volume = features.row_volume();
      float* const floats = memory.floats(count * volume);
      request.threads.each(count, [&](int64_t i) {
        decode(rows[static_cast<size_t>(i)], request.epoch, {floats + i * volume, static_cast<size_t>(volume)});
      });
      features.values = ConstBufferView(floats, count * volume, DType::kFloat32);
    }
    const std::span<int64_t> own = memory.integers(0, count);
    for (size_t i = 0; i < own.size(); ++i) own[i] = labels_[static_cast<size_t>(rows[i])];
    labels.values = const_view_of(std::span<const int64_t>(own));
  }

  bool points_into_cache() const override { return as_it_is_; }

 private:
  void decode(int64_t number, int64_t epoch, std::span<float> out) const {
    MLBENCH_CHECK(number >= 0 && number < size(), fmt::format("sample {} of {}", number, size()));
    const auto named = [&](const std::exception& error) {
      return fmt::format("sample {} of split '{}': {}", number, split_.name, error.what());
    };
    try {
      transform_->apply({number, features_.shape, features_.record(number)}, epoch, out);
    } catch (const UserError& error) {
      throw UserError(named(error));
    } catch (const IoError& error) {
      throw IoError(named(error));
    }
  }

  const dataset::CachedSplit& split_;
  const dataset::FixedColumn& features_;
  std::span<const int64_t> labels_;
  std::unique_ptr<Transform> transform_;
  bool as_it_is_;
  std::vector<int64_t> shape_;  // the shape of features; each batch sets the first extent
};

}  // namespace

std::shared_ptr<const SampleSource> make_sample_source(const dataset::CachedSplit& split,
                                                       std::unique_ptr<Transform> transform) {
  return std::make_shared<RecordSource>(split, std::move(transform));
}

}  // namespace mlbench::data
