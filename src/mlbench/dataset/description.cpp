#include "mlbench/dataset/description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "mlbench/base/choices.h"
#include "mlbench/base/embedded_file.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/shape.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/images.h"
#include "mlbench/dataset/text/moses.h"
#include "mlbench/spec/fields.h"
#include "mlbench/spec/toml_document.h"

namespace mlbench {
std::span<const EmbeddedFile> dataset_descriptions();  // by mlbench_embed()
}

namespace mlbench::dataset {

namespace {

// The number of values in a whole data set stays below 2^53.
constexpr Range kExtents{1, 1e9}, kClasses{1, 1e7}, kSamples{1, 1e10}, kBytes{1, 1e15};
constexpr Range kFirstLabels{0, 1e7};
constexpr Range kWordsOfSentence{0, 1e6}, kSentenceTokens{1, 100}, kRatio{0, 1e6};
constexpr double kMostValuesPerSample = 1e9, kMostValues = 1e15;

const spec::Rule kFilled{.required = true, .filled = true};

void describe_file(spec::FieldReader& reader, FileSource& file) {
  reader.field("pattern", file.pattern, kFilled);
  reader.field("sha256", file.sha256);
  reader.field("bytes", file.bytes, {.range = kBytes});
  reader.field("content_sha256", file.content_sha256);
  reader.field("url", file.url);
}

void describe(spec::FieldReader& reader, DatasetDescription& description) {
  reader.field("name", description.name, kFilled);
  reader.field("title", description.title, kFilled);
  reader.field("format", description.format, kFilled);
  reader.field("sample_shape", description.sample_shape, {.range = kExtents});
  reader.field("classes", description.classes, {.required = true, .range = kClasses});
  reader.field("fingerprint", description.fingerprint);
  reader.field("system_package", description.system_package);
  reader.field("system_path", description.system_path);
  reader.field("licence", description.licence);
  reader.field("source", description.source);
  reader.field("synthetic_seed", description.synthetic_seed);
  reader.field("synthetic_length", description.synthetic_length, {.range = kSentenceTokens});
  reader.optional_table("text", [&] {
    TextSpec& text = description.text;
    reader.field("source_language", text.source_language);
    reader.field("target_language", text.target_language);
    reader.field("dictionary", text.dictionary);
    reader.field("pieces", text.pieces, {.range = kClasses});
    reader.field("least_words", text.cleaning.least_words, {.range = kWordsOfSentence});
    reader.field("most_words", text.cleaning.most_words, {.range = kWordsOfSentence});
    reader.field("most_ratio", text.cleaning.most_ratio, {.range = kRatio});
    reader.field("latin1", text.cleaning.latin1);
  });
  reader.optional_table("archive", [&] {
    ArchiveSource& archive = description.archive;
    reader.field("pattern", archive.pattern, kFilled);
    reader.field("folder", archive.folder);
    reader.field("sha256", archive.sha256);
    reader.field("bytes", archive.bytes, {.range = kBytes});
    reader.field("url", archive.url);
  });
  reader.list("lookalike", description.lookalikes,
              [&](Lookalike& lookalike) {
                reader.field("pattern", lookalike.pattern, kFilled);
                reader.field("advice", lookalike.advice, kFilled);
              },
              {});
  reader.list(
      "split", description.splits,
      [&](SplitSpec& split) {
        reader.field("name", split.name, kFilled);
        reader.field("samples", split.samples, {.required = true, .range = kSamples});
        reader.field("container", split.container);
        reader.field("first_label", split.first_label, {.range = kFirstLabels});
        reader.field("synthetic_samples", split.synthetic_samples, {.range = kSamples});
        reader.list("file", split.files, [&](FileSource& file) { describe_file(reader, file); }, {});
      },
      kFilled);
  reader.field("folder", description.folder, description.only_made() ? spec::Rule{} : kFilled);
}

void check_hash(const spec::FieldReader& reader, const std::string& path, const std::string& value) {
  const bool good = value.size() == 64 &&
                    std::ranges::all_of(value, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (value.empty() || good) return;
  reader.fail(path, fmt::format("'{}' is '{}': expected 64 lower-case hexadecimal digits", path, value));
}

void check_relative(const spec::FieldReader& reader, const std::string& path, const std::string& value) {
  const std::filesystem::path given = value;
  if (!given.is_absolute() && std::ranges::find(given, "..") == given.end()) return;
  reader.fail(path, fmt::format("'{}' is '{}': must be relative, without '..'", path, value));
}

void check_split(const spec::FieldReader& reader, const DatasetDescription& description, size_t index,
                 const Format& format, double volume) {
  const SplitSpec& split = description.splits[index];
  const std::string path = fmt::format("split.{}.", index);
  for (size_t i = 0; i < split.files.size(); ++i) {
    const std::string of_file = fmt::format("{}file.{}.", path, i);
    check_hash(reader, of_file + "sha256", split.files[i].sha256);
    check_hash(reader, of_file + "content_sha256", split.files[i].content_sha256);
    check_relative(reader, of_file + "pattern", split.files[i].pattern);
  }
  if (static_cast<double>(split.samples) * volume > kMostValues) {
    reader.fail(path + "samples", fmt::format("split '{}' has {} samples of {:g} values; expected at most {:g} values",
                                              split.name, split.samples, volume, kMostValues));
  }
  const auto before = std::span(description.splits).first(index);
  if (std::ranges::any_of(before, [&](const SplitSpec& other) { return other.name == split.name; })) {
    reader.fail(path + "name", fmt::format("split '{}' is there twice", split.name));
  }
  if (description.only_made()) return;
  const auto files = static_cast<int64_t>(split.files.size());
  if (files == 0) {
    reader.fail(path + "name", fmt::format("split '{}' has no 'file', and another split has", split.name));
  }
  if (format.files_per_split != 0 && split.files.size() != format.files_per_split) {
    reader.fail(path + "file", fmt::format("split '{}' has {} files: format {} expects {}", split.name, files,
                                           format.name, format.files_per_split));
  }
  if (format.encoded) {
    check_container(split, [&](const std::string& key, const std::string& text) { reader.fail(path + key, text); });
  }
  if (format.files_per_split == 0 && format.read != nullptr && split.samples % files != 0) {
    reader.fail(path + "file", fmt::format("split '{}' has {} files for {} samples: expected as many in each file",
                                           split.name, files, split.samples));
  }
}

void check_images(const spec::FieldReader& reader, const DatasetDescription& description, const Format& format) {
  for (size_t i = 0; i < description.splits.size() && !format.encoded; ++i) {
    if (description.splits[i].container.empty()) continue;
    reader.fail(fmt::format("split.{}.container", i),
                fmt::format("format {} has no 'container': format images has one", format.name));
  }
  if (!format.encoded) return;
  if (description.sample_shape.size() != 3 || description.sample_shape[0] != 3) {
    reader.fail("sample_shape", fmt::format("'sample_shape' is [{}]; expected [3, height, width] of format images",
                                            fmt::join(description.sample_shape, ", ")));
  }
  if (!description.archive.pattern.empty()) {
    reader.fail("archive", "format images is read at its places, not from an archive: unpack it");
  }
}

void check_text(const spec::FieldReader& reader, const DatasetDescription& description, const Format& format) {
  const bool text = format.make_tokens != nullptr;
  if (description.sample_shape.empty() != text) {
    reader.fail("sample_shape", text ? fmt::format("format {} is of text, which has no 'sample_shape'", format.name)
                                     : "'sample_shape' is []; expected a list that is not empty");
  }
  if (text && !description.archive.pattern.empty()) {
    reader.fail("archive", fmt::format("format {} is of text, which is not read from an archive", format.name));
  }
  const TextSpec& spec = description.text;
  check_relative(reader, "text.dictionary", spec.dictionary);
  if (spec.pieces > description.classes) {
    reader.fail("text.pieces",
                fmt::format("{} pieces do not fit into 'classes', {}", spec.pieces, description.classes));
  }
  if (spec.source_language.empty() != spec.target_language.empty()) {
    reader.fail("text.source_language", "'source_language' and 'target_language' go together");
  }
  const bool tokenized_here = format.make_tokens == text::make_pairs;
  if (tokenized_here && spec.source_language.empty()) {
    reader.fail("text.source_language", fmt::format("format {} needs 'source_language' and 'target_language': {}",
                                                    format.name, fmt::join(text::moses_languages(), ", ")));
  }
}

// Checks fields against each other.
void check_relations(const spec::FieldReader& reader, const DatasetDescription& description) {
  check_hash(reader, "fingerprint", description.fingerprint);
  check_hash(reader, "archive.sha256", description.archive.sha256);
  check_relative(reader, "archive.pattern", description.archive.pattern);
  check_relative(reader, "archive.folder", description.archive.folder);
  const double volume = unchecked_volume_of(description.sample_shape);
  if (volume > kMostValuesPerSample) {
    reader.fail("sample_shape", fmt::format("'sample_shape' is a sample of {:g} values; expected at most {:g}", volume,
                                            kMostValuesPerSample));
  }
  if (description.system_package.empty() != description.system_path.empty()) {
    reader.fail("system_package", "'system_package' and 'system_path' go together");
  }
  const Format* format = find_format(description.format);
  if (format == nullptr) {
    reader.fail("format", unknown_text("format", description.format, format_names()));
  }
  check_text(reader, description, *format);
  check_images(reader, description, *format);
  for (size_t i = 0; i < description.splits.size(); ++i) check_split(reader, description, i, *format, volume);
}

}  // namespace

int64_t DatasetDescription::sample_volume() const { return volume_of(sample_shape); }

bool DatasetDescription::only_made() const {
  return std::ranges::all_of(splits, [](const SplitSpec& split) { return split.files.empty(); });
}

DatasetDescription parse_description(const std::string& file, std::string_view text) {
  const spec::TomlDocument document = spec::read_toml(file, text, inputs::kDataDescription);
  spec::FieldReader reader(document.root,
                           [&](const std::string& path, spec::Part part) { return document.locate(path, part); });
  DatasetDescription description;
  describe(reader, description);
  reader.finish();
  check_relations(reader, description);
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
  return row_named(descriptions, "data set", name);
}

void require_files(const DatasetDescription& description) {
  if (!description.only_made()) return;
  throw UserError(fmt::format("data set {} has no files, it is only made: run with --synthetic", description.name));
}

}  // namespace mlbench::dataset
