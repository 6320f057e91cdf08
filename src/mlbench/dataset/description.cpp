#include "mlbench/dataset/description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "mlbench/base/embedded_file.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/dataset/format.h"
#include "mlbench/spec/toml_text.h"

namespace mlbench {
std::span<const EmbeddedFile> dataset_descriptions();  // by mlbench_embed()
}

namespace mlbench::dataset {

namespace {

[[noreturn]] void fail(const std::string& file, const toml::source_region& where, const std::string& text) {
  throw UserError(fmt::format("{}:{}:{}: {}", file, where.begin.line, where.begin.column, text));
}

// The values of a whole set stay below 2^53.
constexpr Range kExtents{1, 1e9}, kClasses{1, 1e7}, kSamples{1, 1e10}, kBytes{1, 1e15};
constexpr double kMostValuesPerSample = 1e9, kMostValues = 1e15;

// A table whose keys are taken one by one; what nobody took is a misspelt key.
class Keys {
 public:
  Keys(const std::string& file, const toml::table& table) : file_(file), table_(table) {}

  std::string text(std::string_view key, bool required = true) {
    const toml::node* node = take(key, required);
    if (node == nullptr) return {};
    const auto* value = node->as_string();
    if (value == nullptr) fail(file_, node->source(), fmt::format("'{}' must be a string", key));
    if (required && value->get().empty()) fail(file_, node->source(), fmt::format("'{}' must not be empty", key));
    return value->get();
  }

  int64_t count(std::string_view key, const Range& range, bool required = true) {
    const toml::node* node = take(key, required);
    return node == nullptr ? 0 : count(*node, key, range);
  }

  std::vector<int64_t> counts(std::string_view key, const Range& range) {
    const toml::node* node = take(key, true);
    const auto* array = node->as_array();
    if (array == nullptr || array->empty()) {
      fail(file_, node->source(), fmt::format("'{}' must be a list of whole numbers {}", key, to_text(range)));
    }
    std::vector<int64_t> values;
    for (const toml::node& item : *array) values.push_back(count(item, key, range));
    return values;
  }

  const toml::table* table(std::string_view key) {
    const toml::node* node = take(key, false);
    if (node == nullptr) return nullptr;
    if (node->as_table() == nullptr) fail(file_, node->source(), fmt::format("'{0}' must be a table ([{0}])", key));
    return node->as_table();
  }

  std::vector<const toml::table*> tables(std::string_view key, bool required = true) {
    const toml::node* node = take(key, required);
    if (node == nullptr) return {};
    const auto* array = node->as_array();
    if (array == nullptr || !array->is_array_of_tables()) {
      fail(file_, node->source(), fmt::format("'{0}' must be a list of tables ([[{0}]])", key));
    }
    std::vector<const toml::table*> tables;
    for (const toml::node& item : *array) tables.push_back(item.as_table());
    return tables;
  }

  void finish() const {
    for (const auto& [key, node] : table_) {
      if (!known_.contains(key.str())) {
        fail(file_, key.source(), fmt::format("unknown key '{}'; valid: {}", key.str(), fmt::join(known_, ", ")));
      }
    }
  }

  [[noreturn]] void refuse(std::string_view key, const std::string& text) const {
    const toml::node* node = table_.get(key);
    fail(file_, node != nullptr ? node->source() : table_.source(), text);
  }

 private:
  const toml::node* take(std::string_view key, bool required) {
    known_.insert(std::string(key));
    const toml::node* node = table_.get(key);
    if (node == nullptr && required) fail(file_, table_.source(), fmt::format("'{}' is missing", key));
    return node;
  }

  int64_t count(const toml::node& node, std::string_view key, const Range& range) const {
    const auto* value = node.as_integer();
    if (value == nullptr || !range.contains(static_cast<double>(value->get()))) {
      fail(file_, node.source(), fmt::format("'{}' must be a whole number {}", key, to_text(range)));
    }
    return value->get();
  }

  const std::string& file_;
  const toml::table& table_;
  std::set<std::string, std::less<>> known_;
};

void check_hash(const Keys& keys, std::string_view key, const std::string& value) {
  const bool good = value.size() == 64 &&
                    std::ranges::all_of(value, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!value.empty() && !good) {
    keys.refuse(key, fmt::format("'{}' is '{}': expected 64 lower-case hexadecimal digits", key, value));
  }
}

void check_relative(const Keys& keys, std::string_view key, const std::string& value) {
  const std::filesystem::path path = value;
  if (path.is_absolute() || std::ranges::find(path, "..") != path.end()) {
    keys.refuse(key, fmt::format("{} '{}' must be relative, without '..'", key, value));
  }
}

ArchiveSource parse_archive(const std::string& file, const toml::table& table) {
  Keys keys(file, table);
  ArchiveSource source;
  source.pattern = keys.text("pattern");
  source.folder = keys.text("folder", false);
  source.sha256 = keys.text("sha256", false);
  source.bytes = keys.count("bytes", kBytes, false);
  source.url = keys.text("url", false);
  keys.finish();
  check_hash(keys, "sha256", source.sha256);
  check_relative(keys, "pattern", source.pattern);
  check_relative(keys, "folder", source.folder);
  return source;
}

FileSource parse_file(const std::string& file, const toml::table& table) {
  Keys keys(file, table);
  FileSource source;
  source.pattern = keys.text("pattern");
  source.sha256 = keys.text("sha256", false);
  source.bytes = keys.count("bytes", kBytes, false);
  source.content_sha256 = keys.text("content_sha256", false);
  source.url = keys.text("url", false);
  keys.finish();
  check_hash(keys, "sha256", source.sha256);
  check_hash(keys, "content_sha256", source.content_sha256);
  check_relative(keys, "pattern", source.pattern);
  return source;
}

}  // namespace

int64_t DatasetDescription::sample_volume() const {
  int64_t volume = 1;
  for (const int64_t extent : sample_shape) volume *= extent;
  return volume;
}

DatasetDescription parse_description(const std::string& file, std::string_view text) {
  const toml::table root = spec::parse_toml(text, file, inputs::kDataDescription);
  Keys keys(file, root);
  DatasetDescription description;
  description.name = keys.text("name");
  description.title = keys.text("title");
  description.format = keys.text("format");
  description.sample_shape = keys.counts("sample_shape", kExtents);
  description.classes = keys.count("classes", kClasses);
  description.fingerprint = keys.text("fingerprint", false);
  description.folder = keys.text("folder");
  description.system_package = keys.text("system_package", false);
  description.system_path = keys.text("system_path", false);
  description.licence = keys.text("licence", false);
  description.source = keys.text("source", false);
  const auto splits = keys.tables("split");
  if (const toml::table* table = keys.table("archive")) description.archive = parse_archive(file, *table);
  for (const toml::table* table : keys.tables("lookalike", false)) {
    Keys lookalike(file, *table);
    description.lookalikes.push_back({lookalike.text("pattern"), lookalike.text("advice")});
    lookalike.finish();
  }
  keys.finish();
  check_hash(keys, "fingerprint", description.fingerprint);
  const double volume = std::accumulate(description.sample_shape.begin(), description.sample_shape.end(), 1.0,
                                        [](double product, int64_t extent) { return product * double(extent); });
  if (volume > kMostValuesPerSample) {
    keys.refuse("sample_shape", fmt::format("'sample_shape' is a sample of {:g} values; expected at most {:g}", volume,
                                            kMostValuesPerSample));
  }
  if (description.system_package.empty() != description.system_path.empty()) {
    keys.refuse("system_package", "'system_package' and 'system_path' go together");
  }
  const Format* format = find_format(description.format);
  if (format == nullptr) {
    keys.refuse("format",
                fmt::format("unknown format '{}'; valid: {}", description.format, fmt::join(format_names(), ", ")));
  }
  for (const toml::table* table : splits) {
    Keys split_keys(file, *table);
    SplitSpec split;
    split.name = split_keys.text("name");
    split.samples = split_keys.count("samples", kSamples);
    for (const toml::table* source : split_keys.tables("file")) split.files.push_back(parse_file(file, *source));
    split_keys.finish();
    if (static_cast<double>(split.samples) * volume > kMostValues) {
      split_keys.refuse("samples", fmt::format("split '{}' has {} samples of {:g} values; expected at most {:g} values",
                                               split.name, split.samples, volume, kMostValues));
    }
    if (format->files_per_split != 0 && split.files.size() != format->files_per_split) {
      split_keys.refuse("file", fmt::format("split '{}' has {} files: format {} expects {}", split.name,
                                            split.files.size(), format->name, format->files_per_split));
    }
    if (split.files.empty() ||
        (format->files_per_split == 0 && split.samples % static_cast<int64_t>(split.files.size()) != 0)) {
      split_keys.refuse("file", fmt::format("split '{}' has {} files for {} samples: expected as many in each file",
                                            split.name, split.files.size(), split.samples));
    }
    if (std::ranges::any_of(description.splits, [&](const SplitSpec& other) { return other.name == split.name; })) {
      split_keys.refuse("name", fmt::format("split '{}' is there twice", split.name));
    }
    description.splits.push_back(std::move(split));
  }
  return description;
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : dataset_descriptions()) {
    names.emplace_back(file.name.substr(0, file.name.rfind(".toml")));
  }
  return names;
}

const DatasetDescription& find_description(const std::string& name) {
  static const std::vector<DatasetDescription> descriptions = [] {
    std::vector<DatasetDescription> all;
    for (const EmbeddedFile& file : dataset_descriptions()) {
      all.push_back(parse_description("tasks/data/" + std::string(file.name), file.text));
      MLBENCH_CHECK(all.back().name + ".toml" == file.name, "a description is named as its file");
    }
    return all;
  }();
  for (const DatasetDescription& description : descriptions) {
    if (description.name == name) return description;
  }
  throw UserError(fmt::format("unknown data set '{}'; valid: {}", name, fmt::join(dataset_names(), ", ")));
}

}  // namespace mlbench::dataset
