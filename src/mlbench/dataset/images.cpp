#include "mlbench/dataset/images.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "mlbench/base/blocks.h"
#include "mlbench/base/choices.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/text.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/image/index/sample_index.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kDigits = 64;  // of a SHA-256

// What an index is made from.
struct ImageInput {
  const SplitSpec& split;
  const std::vector<fs::path>& files;
  int64_t classes;
  const std::vector<std::string>& class_names;  // of a folder per class that came before; else the numbers
};

struct Container {
  std::string_view name;
  size_t least_files, most_files;
  image::SampleIndex (*make_index)(const ImageInput& from);
};
constexpr Container kContainers[] = {
    {"folder", 1, 1, [](const ImageInput& from) { return image::index_image_folder(from.files[0]); }},
    {"listed", 2, 2,
     [](const ImageInput& from) { return image::index_listed_folder(from.files[0], from.files[1], from.class_names); }},
    {"tar", 1, SIZE_MAX, [](const ImageInput& from) { return image::index_web_dataset(from.files, from.classes); }},
    {"tfrecord", 1, SIZE_MAX,
     [](const ImageInput& from) {
       return image::index_example_records(from.files, from.classes, from.split.first_label);
     }},
};

const Container& container_of(const SplitSpec& split) {
  const auto* const row = std::ranges::find(kContainers, split.container, &Container::name);
  MLBENCH_CHECK(row != std::end(kContainers), "parse_description() checks the container");
  return *row;
}

std::vector<ColumnSpec> image_columns() {
  const auto number = [](const char* name) { return ColumnSpec{.name = name, .dtype = DType::kInt64}; };
  return {number("shard"),  number("offset"),
          number("length"), {.name = "sha256", .shape = {kDigits}, .dtype = DType::kUInt8},
          number("labels"), {.name = "key", .type = ColumnSpec::Type::kBytes}};
}

// ---- the state of files ---------------------------------------------------------------------------------------------

// Adds name, size and modification time of all that is below `folder`.
void add_state(const fs::path& folder, Sha256& hash) {
  std::vector<fs::directory_entry> entries(fs::directory_iterator(folder), fs::directory_iterator{});
  std::ranges::sort(entries);
  for (const fs::directory_entry& entry : entries) {
    hash.update(entry.path().filename().string() + '\0');
    if (entry.is_directory() && !entry.is_symlink()) {
      add_state(entry.path(), hash);
    } else if (entry.is_regular_file() && !entry.is_symlink()) {
      hash.update(Json({entry.file_size(), entry.last_write_time().time_since_epoch().count()}).dump());
    }
  }
  hash.update("\n");
}

// What the index of a split follows from.
Json state_of_split(const SplitSpec& split, const std::vector<fs::path>& paths, const StoredShards* stored) {
  Json state = {split.container, split.first_label};
  if (stored != nullptr) {
    state.push_back(stored->state());
    return state;
  }
  for (const fs::path& path : paths) {
    if (!fs::is_directory(path)) {
      state.push_back(state_of_file(path));
      continue;
    }
    Sha256 hash;
    add_state(path, hash);
    state.push_back({fs::absolute(path).lexically_normal().string(), hash.hex()});
  }
  return state;
}

// ---- making an index ------------------------------------------------------------------------------------------------

// Tells how much is hashed, ten times in all.
class HashingProgress {
 public:
  HashingProgress(std::string split, int64_t images, const Progress& say)
      : split_(std::move(split)), images_(images), say_(say) {}
  void add(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    ++done_;
    if (!say_ || done_ * 10 / images_ == (done_ - 1) * 10 / images_) return;
    say_(fmt::format("hashed {} of {} images of split '{}' ({:.1f} MB)", done_, images_, split_,
                     static_cast<double>(bytes_) / 1e6));
  }

 private:
  std::string split_;
  int64_t images_;
  const Progress& say_;
  std::mutex mutex_;
  int64_t done_ = 0;
  int64_t bytes_ = 0;
};

// Writes the SHA-256 of each image's file, on all cores: images are many, and hashing is slower than most disks.
void hash_contents(const image::SampleIndex& index, HashingProgress& progress, std::span<std::byte> digits) {
  const image::SampleFiles files(index);
  constexpr size_t kBlock = 16;
  for_blocks(index.samples.size(), kBlock, available_cores(), [&](int, size_t begin, size_t end) {
    std::vector<std::byte> bytes;
    for (size_t i = begin; i < end; ++i) {
      files.read(index.samples[i], bytes);
      Sha256 hash;
      hash.update(bytes);
      std::memcpy(digits.data() + i * kDigits, hash.hex().data(), kDigits);
      progress.add(std::ssize(bytes));
    }
  });
}

void check_index(const DatasetDescription& description, const ImageInput& from, const image::SampleIndex& index) {
  const auto expect = [&](int64_t given, int64_t expected, const char* what) {
    if (given == expected) return;
    throw UserError(fmt::format("{}: {} {} in split '{}', expected the {} of {}", from.files.front().string(), given,
                                what, from.split.name, expected, description.name));
  };
  expect(index.labels, description.classes, "classes");
  expect(std::ssize(index.samples), from.split.samples, "images");
}

// The index of shards in a store, of which each is copied to `copy`, so that the readers of files read it. Appends the
// digests of the images.
image::SampleIndex index_stored_shards(const ImageInput& from, const StoredShards& stored, const fs::path& copy,
                                       HashingProgress& progress, std::vector<std::byte>& digits) {
  struct Removal {
    const fs::path& file;
    ~Removal() {
      std::error_code ignored;
      fs::remove(file, ignored);
    }
  } const removal{copy};
  image::SampleIndex whole;
  whole.labels = from.classes;
  const std::vector<fs::path> file = {copy};
  for (size_t shard = 0; shard < stored.objects.size(); ++shard) {
    stored.copy(shard, copy);
    try {
      image::SampleIndex one = container_of(from.split).make_index({from.split, file, from.classes, from.class_names});
      const size_t before = digits.size();
      digits.resize(before + one.samples.size() * kDigits);
      hash_contents(one, progress, std::span(digits).subspan(before));
      for (image::Sample& sample : one.samples) {
        sample.shard = static_cast<int32_t>(shard);
        whole.samples.push_back(std::move(sample));
      }
      whole.checked += one.checked;
    } catch (const UserError& error) {
      std::string text = error.what();
      fill_in(text, copy.string(), stored.address(shard));
      throw UserError(text.find(stored.address(shard)) == std::string::npos ? stored.address(shard) + ": " + text
                                                                            : text);
    }
  }
  return whole;
}

// Writes all columns but the digests.
void write_index(const image::SampleIndex& index, SplitWriter& out) {
  const auto write = [&](const char* column, auto value_of) {
    auto* const values = reinterpret_cast<int64_t*>(out.values(column).data());
    std::ranges::transform(index.samples, values, value_of);
  };
  write("shard", [](const image::Sample& sample) { return int64_t{sample.shard}; });
  write("offset", &image::Sample::offset);
  write("length", &image::Sample::length);
  write("labels", &image::Sample::label);
  for (const image::Sample& sample : index.samples) out.append("key", std::as_bytes(std::span(sample.key)));
}

std::vector<std::string> numbers_below(int64_t count) {
  std::vector<std::string> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

}  // namespace

PreparedDataset prepare_images(const DatasetDescription& description, const LocatedDataset& located,
                               const fs::path& cache_dir, const Progress& progress) {
  Json sources = Json::array();
  std::vector<std::vector<fs::path>> shards;
  for (size_t i = 0; i < description.splits.size(); ++i) {
    const StoredShards* const stored = located.stored.empty() ? nullptr : located.stored[i].get();
    sources.push_back(state_of_split(description.splits[i], located.files[i], stored));
    // The second file of such a split is its list.
    shards.push_back(description.splits[i].container == "listed" ? std::vector{located.files[i].front()}
                                                                 : located.files[i]);
  }
  std::vector<std::string> class_names = numbers_below(description.classes);
  const std::string key = cache_key(description, sources);
  const fs::path copy = fs::absolute(cache_dir) / fmt::format("{}-{}.shard.tmp", description.name, key.substr(0, 16));
  CheckCost checked;
  const auto fill = [&](size_t number, SplitWriter& out) {
    const SplitSpec& split = description.splits[number];
    const ImageInput from{split, located.files[number], description.classes, class_names};
    HashingProgress hashing(split.name, split.samples, progress);
    const std::span<std::byte> digits = out.values("sha256");
    image::SampleIndex index;
    if (located.stored.empty()) {
      index = container_of(split).make_index(from);
      check_index(description, from, index);
      hash_contents(index, hashing, digits);
    } else {
      std::vector<std::byte> found;
      index = index_stored_shards(from, *located.stored[number], copy, hashing, found);
      check_index(description, from, index);
      std::ranges::copy(found, digits.begin());
    }
    write_index(index, out);
    checked += index.checked;
    if (progress && index.checked.bytes > 0) {
      progress(fmt::format("compared the CRC-32C of {:.1f} MB of records of split '{}' in {:.3g} s",
                           static_cast<double>(index.checked.bytes) / 1e6, split.name, to_seconds(index.checked.ns)));
    }
    if (!index.classes.empty()) class_names = index.classes;
  };
  PreparedDataset data = open_or_make_cache(
      {description, image_columns(), "", key, std::move(shards), located.stored}, cache_dir, fill,
      fmt::format("indexing the images of {} in {} ({})", description.name, located.folder.string(), located.origin),
      progress);
  data.set_records_checked(checked);
  return data;
}

std::vector<fs::path> find_images(const fs::path& folder, const std::string& pattern) {
  const fs::path path = folder / pattern;
  std::error_code ignored;
  if (pattern.find('*') == std::string::npos) {
    return fs::exists(path, ignored) ? std::vector{path} : std::vector<fs::path>();
  }
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), ignored)) {
    const bool fits = fnmatch(path.filename().c_str(), entry.path().filename().c_str(), FNM_PERIOD) == 0;
    if (fits && entry.is_regular_file(ignored)) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

bool lies_in_shards(const SplitSpec& split) { return container_of(split).most_files == SIZE_MAX; }

void check_container(const SplitSpec& split,
                     const std::function<void(const std::string& key, const std::string&)>& fail) {
  const auto* const row = std::ranges::find(kContainers, split.container, &Container::name);
  if (row == std::end(kContainers)) {
    fail("container", unknown_text("container", split.container, names_of(kContainers)));
    return;
  }
  if (split.files.size() < row->least_files || split.files.size() > row->most_files) {
    fail("file", fmt::format("split '{}' has {} files; container {} expects {}", split.name, split.files.size(),
                             row->name, row->most_files == SIZE_MAX ? "at least 1" : std::to_string(row->least_files)));
  }
}

}  // namespace mlbench::dataset
