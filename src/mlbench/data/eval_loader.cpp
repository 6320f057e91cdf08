#include "mlbench/data/eval_loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "mlbench/data/batch.h"

namespace mlbench::data {

namespace {

class ShardEvalLoader final : public EvalLoader {
 public:
  ShardEvalLoader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform, const Shard& shard,
                  int64_t batch_size)
      : split_(split),
        transform_(std::move(transform)),
        begin_(shard.rank * split.samples / shard.workers),
        end_((shard.rank + 1) * split.samples / shard.workers),
        row_(begin_),
        buffer_(split, *transform_, std::min(batch_size, end_ - begin_)),
        batch_size_(batch_size) {}

  void restart() override { row_ = begin_; }

  const BatchView* next() override {
    if (row_ == end_) return nullptr;
    if (!buffer_.owns_features()) return piece_of_cache();
    rows_.clear();
    for (; row_ < end_ && static_cast<int64_t>(rows_.size()) < batch_size_; ++row_) rows_.push_back(row_);
    buffer_.fill(split_, *transform_, rows_, 0);
    return &buffer_.batch.view;
  }

 private:
  const BatchView* piece_of_cache() {
    BatchView& view = buffer_.batch.view;
    const int64_t volume = split_.sample_volume();
    view.samples = std::min(batch_size_, end_ - row_);
    view.features = ConstBufferView(static_cast<const float*>(split_.features.data) + row_ * volume,
                                    view.samples * volume, DType::kFloat32);
    view.labels = ConstBufferView(split_.labels.data() + row_, view.samples, DType::kInt64);
    row_ += view.samples;
    return &view;
  }

  const dataset::CachedSplit& split_;
  std::unique_ptr<Transform> transform_;
  int64_t begin_, end_, row_;
  BatchBuffer buffer_;
  int64_t batch_size_;
  std::vector<int64_t> rows_;
};

}  // namespace

std::unique_ptr<EvalLoader> make_eval_loader(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform,
                                             const Shard& shard, int64_t batch_size) {
  steps_per_epoch(split.samples, {shard.workers, shard.rank, batch_size});  // refuses what makes no sense
  return std::make_unique<ShardEvalLoader>(split, std::move(transform), shard, batch_size);
}

}  // namespace mlbench::data
