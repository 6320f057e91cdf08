#include "mlbench/data/eval_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"

namespace mlbench::data {

namespace {

void check_shard(const EvalShard& shard, int64_t batch_size) {
  if (shard.workers <= 0 || shard.rank < 0 || shard.rank >= shard.workers || batch_size <= 0) {
    throw UserError(
        fmt::format("batches of {} on rank {} of {} workers: all must be positive, and the rank below the "
                    "number of workers",
                    batch_size, shard.rank, shard.workers));
  }
}

// Rank r takes [r*N/k, (r+1)*N/k).
Part shard_of(int64_t samples, const EvalShard& shard) {
  const int64_t begin = shard.rank * samples / shard.workers;
  return {begin, (shard.rank + 1) * samples / shard.workers - begin};
}

// Returns dense pieces of the mapped cache.
class CachePieceLoader final : public EvalLoader {
 public:
  CachePieceLoader(const dataset::CachedSplit& split, int64_t begin, int64_t end, int64_t batch_size)
      : features_(split.column<dataset::FixedColumn>("features")),
        labels_(split.labels()),
        begin_(begin),
        end_(end),
        row_(begin),
        batch_size_(batch_size) {
    std::vector<int64_t> shape = {0};
    shape.insert(shape.end(), features_.shape.begin(), features_.shape.end());
    view_.tensors = {{"features", std::move(shape), {}, {}}, {"labels", {0}, {}, {}}};
  }

  void restart() override { row_ = begin_; }

  const BatchView* next() override {
    if (row_ == end_) return nullptr;
    const int64_t count = std::min(batch_size_, end_ - row_), volume = features_.volume();
    view_.samples = view_.weight = count;
    BatchTensor &features = view_.tensors[0], &labels = view_.tensors[1];
    features.shape[0] = labels.shape[0] = count;
    features.values = features_.values.slice(row_ * volume, count * volume);
    labels.values = const_view_of(labels_.subspan(static_cast<size_t>(row_), static_cast<size_t>(count)));
    row_ += count;
    return &view_;
  }

 private:
  const dataset::FixedColumn& features_;
  std::span<const int64_t> labels_;
  int64_t begin_, end_, row_, batch_size_;
  BatchView view_;
};

// Returns micro-batches that are known beforehand.
class PieceLoader final : public EvalLoader {
 public:
  PieceLoader(std::shared_ptr<const SampleSource> source, std::vector<int64_t> rows, std::vector<Piece> pieces,
              const EvalShard& shard)
      : source_(std::move(source)),
        rows_(std::move(rows)),
        pieces_(std::move(pieces)),
        bad_(shard.bad),
        threads_(shard.threads, shard.cores) {}

  void restart() override { next_ = 0; }

  const BatchView* next() override {
    if (next_ == pieces_.size()) return nullptr;
    const Piece& piece = pieces_[next_++];
    records_ = std::span(rows_).subspan(static_cast<size_t>(piece.begin), static_cast<size_t>(piece.count));
    source_->fill({records_, piece, 0, threads_, bad_}, view_, memory_);
    return &view_;
  }

  std::span<const int64_t> records() const override { return records_; }

 private:
  std::shared_ptr<const SampleSource> source_;
  std::vector<int64_t> rows_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
  std::span<const int64_t> records_;
  BadSampleRule bad_;
  DecodingThreads threads_;
  BatchView view_;
  BatchMemory memory_;
};

}  // namespace

std::unique_ptr<EvalLoader> make_piece_eval_loader(std::shared_ptr<const SampleSource> source,
                                                   std::vector<int64_t> rows, std::vector<Piece> pieces,
                                                   const EvalShard& shard) {
  return std::make_unique<PieceLoader>(std::move(source), std::move(rows), std::move(pieces), shard);
}

std::unique_ptr<EvalLoader> make_sample_eval_loader(const dataset::CachedSplit& split,
                                                    std::unique_ptr<Transform> transform, const EvalShard& shard,
                                                    int64_t batch_size) {
  check_shard(shard, batch_size);
  if (!split.encoded() && !split.sparse() && transform->leaves_as_is(split.column<dataset::FixedColumn>("features"))) {
    const Part own = shard_of(split.samples, shard);
    return std::make_unique<CachePieceLoader>(split, own.first, own.first + own.count, batch_size);
  }
  std::vector<int64_t> records(static_cast<size_t>(split.samples));
  std::iota(records.begin(), records.end(), 0);
  return make_sample_eval_loader(make_sample_source(split, std::move(transform)), records, shard, batch_size);
}

std::unique_ptr<EvalLoader> make_sample_eval_loader(std::shared_ptr<const SampleSource> source,
                                                    const std::vector<int64_t>& records, const EvalShard& shard,
                                                    int64_t batch_size) {
  check_shard(shard, batch_size);
  const Part own = shard_of(std::ssize(records), shard);
  std::vector<int64_t> rows(records.begin() + own.first, records.begin() + own.first + own.count);
  std::vector<Piece> pieces;
  for (int64_t row = 0; row < own.count; row += batch_size) {
    pieces.push_back({.begin = row, .count = std::min(batch_size, own.count - row)});
  }
  return make_piece_eval_loader(std::move(source), std::move(rows), std::move(pieces), shard);
}

std::unique_ptr<EvalLoader> make_sentence_eval_loader(std::shared_ptr<const SentenceSource> source,
                                                      const EvalShard& shard, int64_t batch_size) {
  check_shard(shard, batch_size);
  std::vector<int64_t> rows = source->kept();
  std::ranges::stable_sort(rows, std::greater<>(), [&](int64_t one) { return source->length(one); });
  std::vector<Piece> pieces;
  const auto count = std::ssize(rows);
  for (int64_t batch = shard.rank; batch * batch_size < count; batch += shard.workers) {
    const int64_t begin = batch * batch_size;
    pieces.push_back({.begin = begin, .count = std::min(batch_size, count - begin)});
  }
  return make_piece_eval_loader(std::move(source), std::move(rows), std::move(pieces), shard);
}

std::unique_ptr<EvalLoader> make_column_eval_loader(std::span<const int32_t> text, int64_t columns, int64_t bptt,
                                                    const EvalShard& shard) {
  check_shard(shard, bptt);
  auto source = make_column_source(text, columns);
  const int64_t positions = column_height(std::ssize(text), columns) - 1;
  const int64_t begin = shard.rank * columns / shard.workers, end = (shard.rank + 1) * columns / shard.workers;
  std::vector<int64_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  std::vector<Piece> pieces;
  for (int64_t first = 0; first < positions && begin < end; first += bptt) {
    pieces.push_back({0, end - begin, first, std::min(bptt, positions - first), first > 0});
  }
  return make_piece_eval_loader(std::move(source), std::move(rows), std::move(pieces), shard);
}

}  // namespace mlbench::data
