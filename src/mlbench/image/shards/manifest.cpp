#include "mlbench/image/shards/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/relative_key.h"
#include "mlbench/base/text.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/image/index/sample_index.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

constexpr Input kManifest{"a manifest of shards", 64 * inputs::kMiB};
constexpr Input kClasses{"a list of classes", 64 * inputs::kMiB};

constexpr int64_t kVersion = 1;

std::string file_of_shard(const Json& shard) {
  std::string file = text_member(shard, "file");
  check_key("shards", file);
  if (file.find('/') != std::string::npos) throw UserError("'" + file + "': expected a file of the same folder");
  return file;
}

ShardManifest manifest_of(const Json& json) {
  if (integer_member(json, "version") != kVersion) {
    throw UserError(fmt::format("a manifest of another version, expected {}", kVersion));
  }
  ShardManifest manifest;
  manifest.format = container_format_named(text_member(json, "format"));
  if (manifest.format == ContainerFormat::kFolder) throw UserError("format 'folder': expected tar or tfrecord");
  manifest.samples = integer_member(json, "samples");
  manifest.classes = integer_member(json, "classes");
  manifest.first_label = integer_member(json, "first_label");
  if (manifest.classes < 1 || (manifest.first_label != 0 && manifest.first_label != 1)) {
    throw UserError("expected at least one class, and a first label of 0 or 1");
  }
  if (const Json seed = json.value("seed", Json()); seed.is_number_unsigned()) manifest.seed = seed.get<uint64_t>();
  if (!json.contains("shards") || !json["shards"].is_array()) throw UserError("has no list 'shards'");
  for (const Json& shard : json["shards"]) {
    manifest.shards.push_back({file_of_shard(shard), integer_member(shard, "samples"), integer_member(shard, "bytes"),
                               text_member(shard, "sha256")});
  }
  return manifest;
}

}  // namespace

const ContainerFormatRow& row_of(ContainerFormat format) {
  return *std::ranges::find(kContainerFormats, format, &ContainerFormatRow::format);
}

ContainerFormat container_format_named(std::string_view name) {
  return row_named(kContainerFormats, "format", name).format;
}

int64_t first_label_of(ContainerFormat format) { return format == ContainerFormat::kTfrecord ? 1 : 0; }

Json to_json(const ShardManifest& manifest) {
  Json json = {{"version", kVersion},
               {"format", row_of(manifest.format).name},
               {"samples", manifest.samples},
               {"classes", manifest.classes},
               {"first_label", manifest.first_label},
               {"seed", manifest.seed ? Json(*manifest.seed) : Json()},
               {"shards", Json::array()}};
  for (const ShardManifest::Shard& shard : manifest.shards) {
    json["shards"].push_back(
        {{"file", shard.file}, {"samples", shard.samples}, {"bytes", shard.bytes}, {"sha256", shard.sha256}});
  }
  return json;
}

ShardManifest read_manifest(const fs::path& file) {
  const Json json = read_json_file(file, kManifest);
  try {
    return manifest_of(json);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

std::vector<std::string> read_classes(const fs::path& file) {
  std::vector<std::string> classes;
  std::set<std::string> seen;
  std::vector<std::string> lines = split_at(read_text_file(file, kClasses), '\n');
  if (lines.back().empty()) lines.pop_back();
  for (std::string& name : lines) {
    const std::string where = fmt::format("{}:{}", file.string(), classes.size() + 1);
    if (name.ends_with('\r')) name.pop_back();
    check_key(where, name);
    if (!seen.insert(name).second) throw UserError(fmt::format("{}: the class '{}' stands twice", where, name));
    classes.push_back(std::move(name));
  }
  if (classes.empty()) throw UserError(file.string() + ": is empty, expected a class on each line");
  return classes;
}

std::string shard_name(std::string_view name, int64_t shard, int64_t shards, ContainerFormat format) {
  return fmt::format("{}-{:05}-of-{:05}{}", name, shard, shards, row_of(format).ending);
}

}  // namespace mlbench::image
