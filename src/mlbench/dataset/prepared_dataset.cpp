#include "mlbench/dataset/prepared_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/format.h"

namespace mlbench::dataset {

namespace {

// Whether the records are those of the published files. Hashes all of them; false where a checksum is not known.
bool follow_published_files(const DatasetDescription& description, const std::vector<CachedSplit>& splits) {
  const Format* format = find_format(description.format);
  if (format == nullptr || format->hash_file == nullptr) return false;
  for (size_t i = 0; i < splits.size(); ++i) {
    const auto& files = description.splits[i].files;
    for (size_t file = 0; file < files.size(); ++file) {
      Sha256 hash;
      format->hash_file(splits[i], file, files.size(), hash);
      if (hash.hex() != files[file].content_sha256) return false;
    }
  }
  return true;
}

}  // namespace

template <typename T>
const T& CachedSplit::column(std::string_view wanted) const {
  for (const Column& one : columns) {
    if (const T* found = std::get_if<T>(&one); found != nullptr && found->name == wanted) return *found;
  }
  std::vector<std::string> texts;
  for (const Column& one : columns) texts.push_back(text_of(one));
  throw UserError(fmt::format("split '{}' has no {} '{}'; it has {}", name, T::kType, wanted,
                              texts.empty() ? "no columns" : fmt::format("{}", fmt::join(texts, ", "))));
}
template const FixedColumn& CachedSplit::column(std::string_view wanted) const;
template const BytesColumn& CachedSplit::column(std::string_view wanted) const;
template const TokenColumn& CachedSplit::column(std::string_view wanted) const;
template const SparseColumn& CachedSplit::column(std::string_view wanted) const;

bool CachedSplit::sparse() const {
  return std::ranges::any_of(columns, [](const Column& one) { return std::holds_alternative<SparseColumn>(one); });
}

PreparedDataset::PreparedDataset(const DatasetDescription& description, std::shared_ptr<const void> cache,
                                 std::vector<CachedSplit> splits, std::string fingerprint, std::string generator,
                                 std::optional<bool> known_official)
    : name_(description.name),
      fingerprint_(std::move(fingerprint)),
      generator_(std::move(generator)),
      official_(!synthetic() && (!description.fingerprint.empty() ? fingerprint_ == description.fingerprint
                                 : known_official.has_value()     ? *known_official
                                                                  : follow_published_files(description, splits))),
      classes_(description.classes),
      cache_(std::move(cache)),
      splits_(std::move(splits)) {}

const CachedSplit& PreparedDataset::split(const std::string& name) const {
  const auto found = std::ranges::find(splits_, name, &CachedSplit::name);
  if (found != splits_.end()) return *found;
  throw UserError(fmt::format("data set {} has no split '{}'{}", name_, name, valid_text(name, names_of(splits_))));
}

Json PreparedDataset::record() const {
  Json samples = Json::object();
  for (const CachedSplit& split : splits_) samples[split.name] = split.samples;
  Json record = {{"name", name_},
                 {"fingerprint", fingerprint_},
                 {"official", official_},
                 {"synthetic", synthetic()},
                 {"samples", std::move(samples)}};
  if (synthetic()) record["generator"] = generator_;
  return record;
}

}  // namespace mlbench::dataset
