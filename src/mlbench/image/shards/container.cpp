#include "mlbench/image/shards/container.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <tuple>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

// More than the data sets of today have.
constexpr int64_t kMostLabels = 1'000'000'000;

// Names of absent shards that are listed: one file's name may ask for 99,999.
constexpr size_t kMostAbsent = 1000;

constexpr size_t kTarMagicAt = 257, kHeadBytes = 512;
constexpr size_t kLengthBytes = sizeof(uint64_t), kChecksumBytes = sizeof(uint32_t);

std::string head_of(const fs::path& file) {
  std::string head(kHeadBytes, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), std::ssize(head));
  head.resize(static_cast<size_t>(in.gcount()));
  return head;
}

bool begins_with_record(std::string_view head) {
  if (head.size() < kLengthBytes + kChecksumBytes) return false;
  uint32_t checksum = 0;
  std::memcpy(&checksum, head.data() + kLengthBytes, sizeof checksum);
  return checksum == tfrecord::masked_checksum(head.substr(0, kLengthBytes));
}

// "NAME-00003-of-00064" and such.
struct NumberedName {
  std::string before, behind;
  int64_t number = 0, count = 0;
};
std::optional<NumberedName> numbered(const std::string& name) {
  static const std::regex form("(.*)-([0-9]{5})-of-([0-9]{5})(.*)");
  std::smatch parts;
  if (!std::regex_match(name, parts, form)) return std::nullopt;
  return NumberedName{parts[1], parts[4], std::stoll(parts[2]), std::stoll(parts[3])};
}

// By the name or, for other names, by the first bytes.
std::optional<ContainerFormat> format_of_shard(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.ends_with(".tar")) return ContainerFormat::kTar;
  if (name.ends_with(".tfrecord") || name.ends_with(".tfrecords")) return ContainerFormat::kTfrecord;
  const std::string head = head_of(file);
  if (head.size() > kTarMagicAt && std::string_view(head).substr(kTarMagicAt).starts_with("ustar")) {
    return ContainerFormat::kTar;
  }
  if (begins_with_record(head)) return ContainerFormat::kTfrecord;
  return std::nullopt;
}

// Names that lack of a numbered series.
std::vector<std::string> absent_of(const std::vector<fs::path>& shards) {
  std::map<std::tuple<std::string, int64_t, std::string>, std::set<int64_t>> series;
  for (const fs::path& shard : shards) {
    if (const auto name = numbered(shard.filename().string())) {
      series[{name->before, name->count, name->behind}].insert(name->number);
    }
  }
  std::vector<std::string> absent;
  for (const auto& [form, numbers] : series) {
    const auto& [before, count, behind] = form;
    for (int64_t number = 0; number < count && absent.size() < kMostAbsent; ++number) {
      if (!numbers.contains(number))
        absent.push_back(fmt::format("{}-{:05}-of-{:05}{}", before, number, count, behind));
    }
  }
  return absent;
}

std::string name_of_format(ContainerFormat format) { return std::string(row_of(format).name); }

// The shards of a folder, and its other files.
void find_shards(const fs::path& folder, std::optional<ContainerFormat> wanted, Container& container) {
  std::map<ContainerFormat, std::vector<fs::path>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const auto format = format_of_shard(entry.path());
    if (format && (!wanted || *wanted == *format)) {
      found[*format].push_back(entry.path());
    } else if (entry.path().filename() != kClassesFile) {
      container.ignored.push_back(entry.path().filename().string());
    }
  }
  if (found.size() > 1) {
    throw UserError(folder.string() + ": holds tar files and records: choose one by --format tar or --format tfrecord");
  }
  if (found.empty()) return;
  container.format = found.begin()->first;
  container.shards = std::move(found.begin()->second);
  std::ranges::sort(container.shards);
  std::ranges::sort(container.ignored);
  container.absent = absent_of(container.shards);
}

bool has_folder(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder),
                             [](const fs::directory_entry& entry) { return entry.is_directory(); });
}

void take_manifest(const fs::path& folder, Container& container) {
  container.manifest = read_manifest(folder / kManifestFile);
  container.format = container.manifest->format;
  container.labels = container.manifest->classes;
  container.first_label = container.manifest->first_label;
  for (const ShardManifest::Shard& shard : container.manifest->shards) {
    std::error_code ignored;  // a name may be too long for a file
    if (fs::is_regular_file(folder / shard.file, ignored)) {
      container.shards.push_back(folder / shard.file);
    } else {
      container.absent.push_back(shard.file);
    }
  }
}

void take_folder(const fs::path& folder, const ContainerRequest& request, Container& container) {
  if (request.list || request.format == ContainerFormat::kFolder) {
    container.format = ContainerFormat::kFolder;
  } else if (fs::exists(folder / kManifestFile)) {
    take_manifest(folder, container);
  } else {
    find_shards(folder, request.format, container);
  }
  if (container.format != ContainerFormat::kFolder) {
    if (fs::exists(folder / kClassesFile)) container.classes = read_classes(folder / kClassesFile);
    return;
  }
  if (!request.list && !request.format && !has_folder(folder)) {
    throw UserError(fmt::format(
        "{}: holds neither a folder per class nor shards (tar files that are not packed, TensorFlow's records){}",
        folder.string(), container.ignored.empty() ? "" : "; images of one folder want their labels by --list FILE"));
  }
  container.ignored.clear();
  container.shards = {folder};
  container.list = request.list;
}

void take_files(const ContainerRequest& request, Container& container) {
  std::set<ContainerFormat> formats;
  for (const fs::path& path : request.paths) {
    if (!fs::is_regular_file(path)) {
      const char* what =
          fs::is_directory(path) ? "is a folder, expected one folder or files alone" : "no such file or folder";
      throw UserError(fmt::format("{}: {}", printable(path.string(), 300), what));
    }
    const auto format = request.format ? request.format : format_of_shard(path);
    if (!format) {
      throw UserError(fmt::format("{}: neither a tar file nor TensorFlow's records; packed files have to be unpacked",
                                  printable(path.string(), 300)));
    }
    formats.insert(*format);
  }
  if (formats.size() > 1) throw UserError("tar files beside records: expected one or the other");
  if (request.list || *formats.begin() == ContainerFormat::kFolder) {
    throw UserError(fmt::format("{}: is a file, expected the folder of the images", request.paths.front().string()));
  }
  container.format = *formats.begin();
  container.shards = request.paths;
}

// How many labels the functions of sample_index.h are to take.
int64_t bound_of(const Container& container) { return container.labels.value_or(kMostLabels); }

}  // namespace

Container find_container(const ContainerRequest& request) {
  Container container;
  if (request.paths.size() == 1 && fs::is_directory(request.paths.front())) {
    take_folder(request.paths.front(), request, container);
  } else {
    take_files(request, container);
  }
  if (request.format && *request.format != container.format) {
    throw UserError(fmt::format("--format {}: {} holds {}", name_of_format(*request.format),
                                request.paths.front().string(), name_of_format(container.format)));
  }
  if (request.labels && container.format == ContainerFormat::kFolder) {
    throw UserError("--labels: is for tar files and records; a folder has its classes (or --classes FILE)");
  }
  if (request.first_label && container.format != ContainerFormat::kTfrecord) {
    throw UserError("--first-label: is for records alone; other labels begin at 0");
  }
  if (request.classes) container.classes = read_classes(*request.classes);
  if (!container.classes.empty()) container.labels = std::ssize(container.classes);
  if (container.list && container.classes.empty()) container.classes = classes_of_list(*container.list);
  if (request.labels) container.labels = request.labels;
  if (request.first_label) container.first_label = *request.first_label;
  if (container.labels && *container.labels < std::ssize(container.classes)) {
    throw UserError(fmt::format("--labels {}: there are {} classes", *container.labels, container.classes.size()));
  }
  return container;
}

SampleIndex index_of(const Container& container, size_t begin, size_t end) {
  const std::vector<fs::path> shards(container.shards.begin() + static_cast<std::ptrdiff_t>(begin),
                                     container.shards.begin() + static_cast<std::ptrdiff_t>(end));
  switch (container.format) {
    case ContainerFormat::kTar:
      return index_web_dataset(shards, bound_of(container));
    case ContainerFormat::kTfrecord:
      return index_example_records(shards, bound_of(container), container.first_label);
    case ContainerFormat::kFolder:
      break;
  }
  return container.list ? index_listed_folder(shards.front(), *container.list, container.classes)
                        : index_image_folder(shards.front());
}

SampleIndex index_of(const Container& container) { return index_of(container, 0, container.shards.size()); }

}  // namespace mlbench::image
