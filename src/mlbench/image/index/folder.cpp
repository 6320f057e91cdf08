#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/relative_key.h"
#include "mlbench/base/text.h"
#include "mlbench/image/index/labels.h"
#include "mlbench/image/index/sample_index.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

// What torchvision takes for an image, by the end of its name.
constexpr std::array kOtherImages = {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
constexpr int kDeepestFolder = 32;
constexpr int64_t kMostClasses = 1'000'000;  // of a list that numbers them

bool is_number(const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; }

bool is_other_image(const fs::path& file) {
  return std::ranges::find(kOtherImages, lower_extension(file.extension().string())) != kOtherImages.end();
}

// Throws UserError unless the entry is a folder or a plain file. A link may lead anywhere, also to a folder above
// itself.
void refuse_links(const fs::directory_entry& entry) {
  if (entry.is_symlink()) throw UserError(entry.path().string() + ": is a link, which image folders may not hold");
  if (!entry.is_directory() && !entry.is_regular_file()) {
    throw UserError(entry.path().string() + ": is neither a folder nor a plain file");
  }
}

int64_t checked_size(const fs::directory_entry& file) {
  const auto size = file.file_size();
  if (size == 0 || size > static_cast<uintmax_t>(kMostImageBytes)) {
    throw UserError(fmt::format("{}: {} bytes, expected 1 to {}", file.path().string(), size, kMostImageBytes));
  }
  return static_cast<int64_t>(size);
}

// Adds the images below a class's folder.
void add_class(const fs::path& root, const std::string& name, int64_t label, SampleIndex& index) {
  std::vector<std::tuple<std::string, std::string, int64_t>> files;  // folder, name, size
  for (auto at = fs::recursive_directory_iterator(root / name); at != fs::recursive_directory_iterator(); ++at) {
    refuse_links(*at);
    if (at.depth() >= kDeepestFolder) throw UserError(at->path().string() + ": more than 32 folders within each other");
    if (at->is_directory()) continue;
    if (is_other_image(at->path())) {
      throw UserError(at->path().string() + ": expected images that end in .jpg, .jpeg or .png");
    }
    if (!has_image_name(at->path().string())) continue;
    const fs::path folder = at->path().parent_path().lexically_relative(root);
    files.emplace_back(folder.string(), at->path().filename().string(), checked_size(*at));
  }
  if (files.empty()) throw UserError(fmt::format("{}: holds no images (.jpg, .jpeg, .png)", (root / name).string()));
  std::ranges::sort(files);
  for (const auto& [folder, file, size] : files) {
    std::string key = folder + "/" + file;
    check_key(root.string(), key);
    index.samples.push_back({0, 0, size, label, std::move(key)});
  }
}

// A class by its name or number.
int64_t label_named(const std::string& text, const std::map<std::string, int64_t>& numbers, const std::string& where) {
  if (const auto found = numbers.find(text); found != numbers.end()) return found->second;
  return label_in(text, std::ssize(numbers), where);
}

// A line of a list.
struct ListedImage {
  std::string key, label;
  size_t line = 0;    // from 1
  std::string where;  // "LIST:LINE", for errors
};

std::vector<ListedImage> read_list(const fs::path& list) {
  std::vector<ListedImage> images;
  const std::vector<std::string> lines = split_at(read_file(list, kImageList), '\n');
  for (size_t number = 1; number <= lines.size(); ++number) {
    const std::string line = trimmed(lines[number - 1]);
    if (line.empty() && number == lines.size()) break;
    std::vector<std::string> words = split_at(line, line.find('\t') != std::string::npos ? '\t' : ' ');
    if (words.size() == 1) words.insert(words.begin(), fmt::format("ILSVRC2012_val_{:08}.JPEG", number));
    images.push_back({words[0], words[1], number, fmt::format("{}:{}", list.string(), number)});
  }
  return images;
}

// The file that a list names. A folder on the way to it may be a link, too.
fs::directory_entry listed_file(const fs::path& folder, const std::string& key, const std::string& where) {
  std::error_code failed;
  const fs::directory_entry file(folder / key, failed);
  if (failed || !fs::exists(file.symlink_status())) {
    throw UserError(fmt::format("{}: there is no '{}'", where, printable((folder / key).string(), 300)));
  }
  refuse_links(file);
  if (fs::canonical(file.path()) != fs::canonical(folder) / fs::path(key).lexically_normal()) {
    throw UserError(
        fmt::format("{}: '{}' goes by a link, which image folders may not hold", where, printable(key, 100)));
  }
  return file;
}

}  // namespace

SampleIndex index_image_folder(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw UserError(folder.string() + ": no such folder, expected one that holds a folder per class");
  }
  SampleIndex index;
  index.shards = {folder};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    refuse_links(entry);
    if (!entry.is_directory()) continue;
    index.classes.push_back(entry.path().filename().string());
    check_key(folder.string(), index.classes.back());
  }
  if (index.classes.empty()) throw UserError(folder.string() + ": holds no folder, expected one per class");
  std::ranges::sort(index.classes);
  index.labels = std::ssize(index.classes);
  for (int64_t label = 0; label < index.labels; ++label) {
    add_class(folder, index.classes[static_cast<size_t>(label)], label, index);
  }
  return index;
}

SampleIndex index_listed_folder(const fs::path& folder, const fs::path& list, const std::vector<std::string>& classes) {
  std::map<std::string, int64_t> numbers;
  for (const std::string& name : classes) numbers.emplace(name, std::ssize(numbers));
  MLBENCH_CHECK(numbers.size() == classes.size(), "a class that stands twice");
  SampleIndex index;
  index.shards = {folder};
  index.classes = classes;
  index.labels = std::ssize(classes);
  std::map<std::string, size_t> seen;
  for (const ListedImage& image : read_list(list)) {
    check_key(image.where, image.key);
    if (const auto [before, fresh] = seen.emplace(image.key, image.line); !fresh) {
      throw UserError(
          fmt::format("{}: '{}' stands in line {} already", image.where, printable(image.key, 100), before->second));
    }
    const int64_t label = label_named(image.label, numbers, image.where);
    const fs::directory_entry file = listed_file(folder, image.key, image.where);
    index.samples.push_back({0, 0, checked_size(file), label, image.key});
  }
  if (index.samples.empty()) throw UserError(list.string() + ": lists no images");
  return index;
}

std::vector<std::string> classes_of_list(const fs::path& list) {
  std::set<std::string> names;
  int64_t classes = 0;  // of numbers
  for (const ListedImage& image : read_list(list)) {
    check_key(image.where, image.label);
    names.insert(image.label);
    if (is_number(image.label)) classes = std::max(classes, label_in(image.label, kMostClasses, image.where) + 1);
  }
  if (!std::ranges::all_of(names, is_number)) return {names.begin(), names.end()};
  std::vector<std::string> numbers;
  for (int64_t label = 0; label < classes; ++label) numbers.push_back(std::to_string(label));
  return numbers;
}

}  // namespace mlbench::image
