#include "mlbench/dataset/text/text_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/text/lines.h"
#include "mlbench/spec/split.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

TextFiles describe_files(const std::vector<fs::path>& files, const TextFileOptions& options) {
  std::error_code ignored;
  for (const fs::path& file : files) {
    if (!fs::is_regular_file(file, ignored)) throw UserError(file.string() + " is no file: expected text");
  }
  const bool tables = !files.empty() && std::ranges::all_of(files, is_table);
  if (!tables && files.size() != 1 && files.size() != 2) {
    throw UserError(
        fmt::format("{} files: expected one of words, two of source and target, or *.tsv files with both "
                    "in each line",
                    files.size()));
  }
  constexpr int64_t kMultiple = 8;
  TextFiles made;
  DatasetDescription& description = made.description;
  description.name = "files";
  description.title = "text files";
  description.format = files.size() == 1 && !tables ? "words" : "pairs";
  description.classes = (options.vocabulary + kMultiple - 1) / kMultiple * kMultiple;
  description.folder = ".";
  description.text.source_language = options.source_language;
  description.text.target_language = options.target_language;
  description.text.pieces = options.vocabulary;
  description.text.cleaning.most_words = options.most_words;
  SplitSpec& split = description.splits.emplace_back();
  split.name = spec::kTrainSplit;
  auto& located = made.located.files.emplace_back();
  for (const fs::path& file : files) {
    split.files.emplace_back().pattern = file.filename().string();
    located.push_back(fs::absolute(file).lexically_normal());
  }
  made.located.folder = located.front().parent_path();
  made.located.origin = "files";
  return made;
}

}  // namespace mlbench::dataset::text
