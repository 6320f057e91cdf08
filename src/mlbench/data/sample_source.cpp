#include "mlbench/data/sample_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/sparse_rows.h"
#include "mlbench/image/image.h"
#include "mlbench/image/index/sample_index.h"

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

// Samples of one shape with their labels. A subclass knows what the samples are made of.
class LabelledSource : public SampleSource {
 public:
  int64_t size() const override { return split_.samples; }

  void fill(const SampleRequest& request, BatchView& view, BatchMemory& memory) const override {
    const std::span<const int64_t> rows = request.rows;
    const auto count = std::ssize(rows);
    if (view.tensors.empty()) view.tensors = {{"features", shape_, {}, {}}, {"labels", {0}, {}, {}}};
    view.samples = view.weight = count;
    BatchTensor &features = view.tensors[0], &labels = view.tensors[1];
    features.shape[0] = labels.shape[0] = count;
    const std::span<int64_t> own = memory.integers(0, count);
    for (size_t i = 0; i < own.size(); ++i) own[i] = labels_[static_cast<size_t>(rows[i])];
    fill_features(request, features, own, memory);
    labels.values = const_view_of(std::span<const int64_t>(own));
  }

 protected:
  LabelledSource(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform, std::vector<int64_t> part)
      : split_(split), labels_(split.labels()), transform_(std::move(transform)), part_(std::move(part)) {
    shape_.push_back(0);
    shape_.insert(shape_.end(), transform_->output_shape().begin(), transform_->output_shape().end());
  }

  // Decodes the samples into the memory, and sets the labels of those that stand in for others.
  virtual void fill_features(const SampleRequest& request, BatchTensor& features, std::span<int64_t> labels,
                             BatchMemory& memory) const {
    const auto count = std::ssize(request.rows), volume = features.row_volume();
    float* const floats = memory.floats(count * volume);
    std::mutex mutex;
    std::vector<BadSample> bad;
    const auto found = [&](BadSample one) {
      const std::lock_guard lock(mutex);
      bad.push_back(std::move(one));
    };
    request.threads.each(count, [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      const std::span<float> out(floats + i * volume, static_cast<size_t>(volume));
      const int64_t decoded = decode_or_stand_in(request.rows[at], request, out, found);
      if (decoded != request.rows[at]) labels[at] = labels_[static_cast<size_t>(decoded)];
    });
    features.values = ConstBufferView(floats, count * volume, DType::kFloat32);
    std::ranges::sort(bad, {}, &BadSample::number);  // which thread found one first says nothing
    for (const BadSample& one : bad) request.bad.tell(one);
  }
  virtual void decode(int64_t number, int64_t epoch, std::span<float> out) const = 0;

  const dataset::CachedSplit& split_;
  std::span<const int64_t> labels_;
  std::unique_ptr<Transform> transform_;

 private:
  std::string named(int64_t number, const std::exception& error) const {
    return fmt::format("sample {} of split '{}': {}", number, split_.name, error.what());
  }

  void decode_named(int64_t number, int64_t epoch, std::span<float> out) const {
    MLBENCH_CHECK(number >= 0 && number < size(), fmt::format("sample {} of {}", number, size()));
    try {
      decode(number, epoch, out);
    } catch (const image::BadImage&) {
      throw;
    } catch (const UserError& error) {
      throw UserError(named(number, error));
    } catch (const IoError& error) {
      throw IoError(named(number, error));
    }
  }

  // Decodes the sample, or the next one that can be decoded, and returns its number. `found` takes those that cannot.
  int64_t decode_or_stand_in(int64_t number, const SampleRequest& request, std::span<float> out,
                             const std::function<void(BadSample)>& found) const {
    std::vector<BadSample> bad;
    for (int64_t next = number;; next = after(next)) {
      try {
        decode_named(next, request.epoch, out);
        for (BadSample& one : bad) {
          one.stand_in = next;
          found(std::move(one));
        }
        return next;
      } catch (const image::BadImage& error) {
        bad.push_back({split_.name, next, 0, error.reason()});
        if (std::ssize(bad) > request.bad.most) refuse(next, error, std::ssize(bad));
        if (after(next) == number) throw UserError(named(next, error) + ": nor can any other sample be decoded");
      }
    }
  }

  // The sample that is looked at next for a stand-in.
  int64_t after(int64_t number) const {
    if (part_.empty()) return (number + 1) % size();
    const auto next = std::ranges::upper_bound(part_, number);
    return next == part_.end() ? part_.front() : *next;
  }

  [[noreturn]] void refuse(int64_t number, const image::BadImage& error, int64_t in_a_row) const {
    const std::string others = in_a_row > 1 ? fmt::format(" (nor can the {} before it be decoded)", in_a_row - 1) : "";
    throw UserError(fmt::format("{}{}: mend or remove what cannot be decoded, or allow it by --max-bad {}",
                                named(number, error), others, in_a_row));
  }

  std::vector<int64_t> part_;   // of the split, from which stand-ins are; empty: all of it
  std::vector<int64_t> shape_;  // of features; each batch sets the first extent
};

// Features are the values of a column, or what a transform makes of them.
class ValuesSource final : public LabelledSource {
 public:
  ValuesSource(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform)
      : LabelledSource(split, std::move(transform), {}),
        column_(split.column<dataset::FixedColumn>("features")),
        as_it_is_(transform_->leaves_as_is(column_)) {}

  bool points_into_cache() const override { return as_it_is_; }

 private:
  void fill_features(const SampleRequest& request, BatchTensor& features, std::span<int64_t> labels,
                     BatchMemory& memory) const override {
    if (!as_it_is_) return LabelledSource::fill_features(request, features, labels, memory);
    features.values = column_.values;
    features.rows = request.rows;
  }
  void decode(int64_t number, int64_t epoch, std::span<float> out) const override {
    transform_->apply({number, column_.shape, column_.record(number)}, epoch, out);
  }

  const dataset::FixedColumn& column_;
  bool as_it_is_;
};

// Sparse rows with their labels. Both stay in the cache until the framework reads them.
class SparseSource final : public SampleSource {
 public:
  SparseSource(const dataset::CachedSplit& split, const Transform& transform)
      : column_(split.column<dataset::SparseColumn>("features")), labels_(split.labels()) {
    if (transform.leaves_sparse(column_)) return;
    throw UserError(
        fmt::format("split '{}' has sparse rows, which are not transformed: expected empty lists data.train_transform "
                    "and data.eval_transform",
                    split.name));
  }

  int64_t size() const override { return column_.records(); }
  bool points_into_cache() const override { return true; }

  void fill(const SampleRequest& request, BatchView& view, BatchMemory& memory) const override {
    const std::span<int64_t> labels = memory.integers(0, std::ssize(request.rows));
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = labels_[static_cast<size_t>(request.rows[i])];
    if (view.tensors.empty()) view.tensors = {{"labels", {0}, {}, {}}};
    view.tensors[0].shape[0] = view.weight = std::ssize(labels);
    view.tensors[0].values = const_view_of(std::span<const int64_t>(labels));
    set_sparse_rows(view, column_.matrix(), request.rows);
  }

 private:
  const dataset::SparseColumn& column_;
  std::span<const int64_t> labels_;
};

constexpr int kMostReads = 2;  // of a stored image, until its bytes are those of the index

// Features are what a transform makes of encoded images, which are read whenever they are asked for.
class ImageSource final : public LabelledSource {
 public:
  ImageSource(const dataset::CachedSplit& split, std::unique_ptr<Transform> transform, std::vector<int64_t> part)
      : LabelledSource(split, std::move(transform), std::move(part)),
        shards_(numbers("shard")),
        offsets_(numbers("offset")),
        lengths_(numbers("length")),
        keys_(split.column<dataset::BytesColumn>("key")) {
    if (split.stored == nullptr) files_.emplace(index_);
  }

 private:
  std::span<const int64_t> numbers(const char* column) const {
    return split_.column<dataset::FixedColumn>(column).as<int64_t>();
  }

  void decode(int64_t number, int64_t epoch, std::span<float> out) const override {
    const auto at = static_cast<size_t>(number);
    const std::span<const std::byte> key = keys_.record(number);
    image::Sample sample;
    sample.shard = static_cast<int32_t>(shards_[at]);
    sample.offset = offsets_[at];
    sample.length = lengths_[at];
    sample.key.assign(reinterpret_cast<const char*>(key.data()), key.size());
    std::vector<std::byte> bytes;
    if (files_) {
      files_->read(sample, bytes);
    } else {
      read_stored(sample, digest_of(number), bytes);
    }
    const int64_t length = std::ssize(bytes);
    const std::string file = (split_.shards[static_cast<size_t>(sample.shard)] / sample.key).string();
    try {
      transform_->apply({number, {&length, 1}, {bytes.data(), length, DType::kUInt8}, file}, epoch, out);
    } catch (const image::BadImage&) {
      check_bytes(number, file, bytes);
      throw;
    }
  }

  std::string_view digest_of(int64_t number) const {
    const ConstBufferView digest = split_.column<dataset::FixedColumn>("sha256").record(number);
    return {static_cast<const char*>(digest.data), static_cast<size_t>(digest.count)};
  }

  // A file may have changed without another size or time: such bytes are not those that the fingerprint stands for.
  void check_bytes(int64_t number, const std::string& file, const std::vector<std::byte>& bytes) const {
    const std::string found = sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (found == digest_of(number)) return;
    throw IoError(fmt::format(
        "{}: its bytes have the SHA-256 {}, expected {} of the index: they were damaged on their way or on the disk; "
        "put the file there again, with a new time (touch), so that the index is made anew",
        file, found, digest_of(number)));
  }

  // A store has no checksum of a range, and damage within a JPEG's data changes pixels alone: so the index is asked.
  void read_stored(const image::Sample& sample, std::string_view expected, std::vector<std::byte>& bytes) const {
    MLBENCH_CHECK(sample.length >= 0 && sample.length <= image::kMostImageBytes, "a sample of the index");
    const auto shard = static_cast<size_t>(sample.shard);
    bytes.resize(static_cast<size_t>(sample.length));
    std::string found;
    for (int reads = 0; reads < kMostReads; ++reads) {
      split_.stored->read(shard, sample.offset, bytes);
      found = split_.stored->images_checked->measure(sample.length, [&] {
        return sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      });
      if (found == expected) return;
    }
    throw IoError(fmt::format(
        "{}: the bytes {} to {} have the SHA-256 {}, expected {} of the index ({} reads): they were damaged on their "
        "way, in the store or in its cache; put the object there again, or empty the folder {}",
        split_.stored->address(shard), sample.offset, sample.offset + sample.length - 1, found, expected, kMostReads,
        variables::kObjectCache));
  }

  std::span<const int64_t> shards_, offsets_, lengths_;
  const dataset::BytesColumn& keys_;
  const image::SampleIndex index_{.shards = split_.shards};  // without samples: the columns have them
  std::optional<image::SampleFiles> files_;                  // empty: the images lie in an object store
};

}  // namespace

std::string image_name(const dataset::CachedSplit& split, int64_t number) {
  const auto shard = split.column<dataset::FixedColumn>("shard").as<int64_t>()[static_cast<size_t>(number)];
  const std::span<const std::byte> key = split.column<dataset::BytesColumn>("key").record(number);
  const std::string_view name(reinterpret_cast<const char*>(key.data()), key.size());
  return (split.shards[static_cast<size_t>(shard)].filename() / name).string();
}

std::shared_ptr<const SampleSource> make_sample_source(const dataset::CachedSplit& split,
                                                       std::unique_ptr<Transform> transform,
                                                       std::vector<int64_t> part) {
  if (split.sparse()) return std::make_shared<SparseSource>(split, *transform);
  if (split.encoded()) return std::make_shared<ImageSource>(split, std::move(transform), std::move(part));
  return std::make_shared<ValuesSource>(split, std::move(transform));
}

}  // namespace mlbench::data
