#include "mlbench/train/bad_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "mlbench/base/errors.h"

namespace mlbench::train {

namespace {

constexpr const char* kState = "train/bad_images";
constexpr size_t kNamed = 3;  // of the images that are too many

}  // namespace

BadImages::BadImages(const dataset::PreparedDataset& data, int64_t most)
    : data_(data), most_(std::ranges::any_of(data.splits(), &dataset::CachedSplit::encoded) ? most : 0) {}

std::string BadImages::name_of(const data::BadSample& bad) const {
  return data::image_name(data_.split(bad.split), bad.number);
}

BadImages::Image BadImages::image_of(const data::BadSample& bad) const {
  const auto split = std::ranges::find(data_.splits(), bad.split, &dataset::CachedSplit::name);
  MLBENCH_CHECK(split != data_.splits().end(), bad.split);
  return {split - data_.splits().begin(), bad.number};
}

bool BadImages::add(const data::BadSample& bad) {
  const Image image = image_of(bad);
  if (!known_.insert(image).second) return false;
  untold_.insert(untold_.end(), {image.first, image.second});
  return true;
}

void BadImages::share(comm::Communicator& comm) {
  if (most_ == 0) return;
  const auto own = static_cast<int64_t>(untold_.size());
  std::vector<int64_t> counts(static_cast<size_t>(comm.size()));
  comm.all_gather(const_view_of(std::span(&own, 1)), view_of(std::span(counts)));
  std::vector<int64_t> all(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
  if (all.empty()) return;
  comm.all_gather_v(const_view_of(std::span<const int64_t>(untold_)), view_of(std::span(all)), counts);
  know(all);
  untold_.clear();
  check_limit();
}

void BadImages::know(std::span<const int64_t> images) {
  const auto& splits = data_.splits();
  for (size_t i = 0; i + 1 < images.size(); i += 2) {
    const int64_t split = images[i], number = images[i + 1];
    if (split < 0 || split >= std::ssize(splits)) continue;
    if (number >= 0 && number < splits[static_cast<size_t>(split)].samples) known_.insert({split, number});
  }
}

void BadImages::check_limit() const {
  if (count() <= most_) return;
  std::vector<std::string> named;
  for (const auto& [number, sample] : known_) {
    if (named.size() == kNamed) break;
    const dataset::CachedSplit& split = data_.splits()[static_cast<size_t>(number)];
    named.push_back(fmt::format("sample {} of split '{}' ({})", sample, split.name, data::image_name(split, sample)));
  }
  throw UserError(
      fmt::format("{} images cannot be decoded, at most {} expected: {}{}; mend or remove them ('mlbench data index "
                  "--check' names all), or allow them by --max-bad {} or more",
                  count(), most_, fmt::join(named, ", "), known_.size() > kNamed ? ", ..." : "", count()));
}

void BadImages::export_state(NamedState& state) const {
  if (known_.empty()) return;
  std::vector<int64_t> all;
  for (const auto& [split, number] : known_) all.insert(all.end(), {split, number});
  const auto bytes = std::as_bytes(std::span(all));
  state.tensors[kState] = {DType::kInt64, {std::ssize(all)}, {bytes.begin(), bytes.end()}};
}

void BadImages::import_state(const NamedState& state) {
  if (!state.tensors.contains(kState)) return;
  const HostTensor& stored = state.tensor(kState);
  std::vector<int64_t> all(stored.bytes.size() / sizeof(int64_t));
  std::memcpy(all.data(), stored.bytes.data(), all.size() * sizeof(int64_t));
  know(all);
}

}  // namespace mlbench::train
