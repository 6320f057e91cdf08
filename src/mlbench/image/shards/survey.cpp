#include "mlbench/image/shards/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "mlbench/base/blocks.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/image/image.h"
#include "mlbench/image/index/labels.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

// The header of nearly every image lies in these; the others are read as a whole.
constexpr int64_t kHeaderBytes = int64_t{16} << 10;
// Samples that a thread takes at once.
constexpr size_t kSamplesAtOnce = 32;

void count_kind(const EncodedImage& image, ImageKinds& kinds) {
  if (format_of(image) == Format::kPng) {
    ++kinds.png;
    const std::string name = lower_extension(image.name);
    if (name.ends_with(".jpg") || name.ends_with(".jpeg")) ++kinds.png_named_jpeg;
    return;
  }
  switch (read_jpeg_components(image)) {
    case 1:
      ++kinds.grey_jpeg;
      break;
    case 4:
      ++kinds.cmyk_jpeg;
      break;
    default:
      ++kinds.colour_jpeg;
  }
}

void add(ImageKinds& sum, const ImageKinds& kinds) {
  for (const auto member : {&ImageKinds::colour_jpeg, &ImageKinds::grey_jpeg, &ImageKinds::cmyk_jpeg, &ImageKinds::png,
                            &ImageKinds::png_named_jpeg, &ImageKinds::unreadable}) {
    sum.*member += kinds.*member;
  }
}

// Looks at the samples of an index on several threads.
class Inspection {
 public:
  Inspection(const SampleIndex& index, const SurveyOptions& options)
      : index_(index), options_(options), files_(index) {}

  void run(const std::function<void(int64_t done)>& progress) {
    for_blocks(index_.samples.size(), kSamplesAtOnce, options_.threads, [&](int thread, size_t begin, size_t end) {
      ImageKinds kinds;
      std::vector<std::byte> bytes;
      for (size_t number = begin; number < end; ++number) look_at(number, bytes, kinds);
      if (thread == 0) progress(static_cast<int64_t>(begin));
      const std::scoped_lock lock(mutex_);
      add(kinds_, kinds);
    });
  }

  const ImageKinds& kinds() const { return kinds_; }
  // By the number of the sample.
  const std::map<size_t, std::string>& problems() const { return problems_; }

 private:
  void look_at(size_t number, std::vector<std::byte>& bytes, ImageKinds& kinds) {
    const Sample& sample = index_.samples[number];
    bool known = false;
    try {
      if (!options_.decode && sample.length > kHeaderBytes && count_by_head(sample, bytes, kinds)) return;
      files_.read(sample, bytes);
      count_kind({bytes, sample.key}, kinds);
      known = true;
      if (options_.decode) decode({bytes, sample.key});
    } catch (const UserError& error) {
      if (!known) ++kinds.unreadable;
      std::string reason = error.what();
      if (const std::string name = sample.key + ": "; reason.starts_with(name)) reason.erase(0, name.size());
      const std::scoped_lock lock(mutex_);
      problems_.emplace(number, std::move(reason));
    }
  }

  // False where the header is longer, or wrong.
  bool count_by_head(Sample sample, std::vector<std::byte>& bytes, ImageKinds& kinds) {
    sample.length = kHeaderBytes;
    try {
      files_.read(sample, bytes);
      count_kind({bytes, sample.key}, kinds);
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  const SampleIndex& index_;
  const SurveyOptions& options_;
  const SampleFiles files_;
  std::mutex mutex_;
  ImageKinds kinds_;
  std::map<size_t, std::string> problems_;
};

class Surveyor {
 public:
  Surveyor(const Container& container, const SurveyOptions& options, const SurveyProgress& progress)
      : container_(container), options_(options), progress_(progress) {}

  Survey survey() {
    found_.format = container_.format;
    found_.shards = std::ssize(container_.shards);
    found_.decoded = options_.decode;
    found_.ignored = container_.ignored;
    for (const std::string& name : container_.absent) problem({name, "", "is absent"});
    for (size_t shard = 0; shard < container_.shards.size(); ++shard) take_shard(shard);
    found_.labels = container_.labels.value_or(largest_label_ + 1);
    found_.classes_found = std::ssize(labels_);
    if (!lengths_.empty()) {
      const auto middle = lengths_.begin() + std::ssize(lengths_) / 2;
      std::ranges::nth_element(lengths_, middle);
      found_.median = *middle;
      const auto [least, most] = std::ranges::minmax(lengths_);
      found_.smallest = least;
      found_.largest = most;
    }
    return std::move(found_);
  }

 private:
  void problem(Problem one) {
    ++found_.bad;
    if (found_.problems.size() < options_.most_named) found_.problems.push_back(std::move(one));
  }

  void take_shard(size_t shard) {
    const fs::path& path = container_.shards[shard];
    const std::string name = path.filename().string();
    SampleIndex index;
    try {
      index = index_of(container_, shard, shard + 1);
      compare_with_manifest(shard, index);
    } catch (const UserError& error) {
      std::string reason = error.what();
      if (const std::string before = path.string() + ": "; reason.starts_with(before)) reason.erase(0, before.size());
      problem({name, "", std::move(reason)});
      if (index.samples.empty()) return;
    }
    for (const Sample& sample : index.samples) {
      lengths_.push_back(static_cast<int32_t>(sample.length));
      found_.image_bytes += sample.length;
      labels_.insert(sample.label);
      largest_label_ = std::max(largest_label_, sample.label);
    }
    if (container_.format == ContainerFormat::kFolder) largest_label_ = index.labels - 1;
    Inspection inspection(index, options_);
    inspection.run([&](int64_t done) {
      if (progress_) progress_(found_.samples + done, shard);
    });
    found_.samples += std::ssize(index.samples);
    add(found_.kinds, inspection.kinds());
    for (const auto& [number, reason] : inspection.problems()) problem({name, index.samples[number].key, reason});
  }

  void compare_with_manifest(size_t shard, const SampleIndex& index) const {
    if (!container_.manifest) return;
    const fs::path& path = container_.shards[shard];
    const auto& all = container_.manifest->shards;
    const auto said = std::ranges::find(all, path.filename().string(), &ShardManifest::Shard::file);
    if (said == all.end()) return;
    if (std::ssize(index.samples) != said->samples) {
      throw UserError(fmt::format("holds {} samples, {} by {}", index.samples.size(), said->samples, kManifestFile));
    }
    if (options_.decode && sha256_hex_of_file(path) != said->sha256) {
      throw UserError(fmt::format("its SHA-256 is not the one in {}: its bytes changed", kManifestFile));
    }
  }

  const Container& container_;
  const SurveyOptions& options_;
  const SurveyProgress& progress_;
  Survey found_;
  std::vector<int32_t> lengths_;
  std::set<int64_t> labels_;
  int64_t largest_label_ = -1;
};

}  // namespace

Survey survey(const Container& container, const SurveyOptions& options, const SurveyProgress& progress) {
  return Surveyor(container, options, progress).survey();
}

Json to_json(const Survey& survey) {
  const ImageKinds& kinds = survey.kinds;
  Json json = {{"format", row_of(survey.format).name},
               {"shards", survey.shards},
               {"samples", survey.samples},
               {"labels", survey.labels},
               {"classes_found", survey.classes_found},
               {"image_bytes", survey.image_bytes},
               {"smallest_bytes", survey.smallest},
               {"median_bytes", survey.median},
               {"largest_bytes", survey.largest},
               {"kinds",
                {{"colour_jpeg", kinds.colour_jpeg},
                 {"grey_jpeg", kinds.grey_jpeg},
                 {"cmyk_jpeg", kinds.cmyk_jpeg},
                 {"png", kinds.png},
                 {"png_named_jpeg", kinds.png_named_jpeg},
                 {"unreadable", kinds.unreadable}}},
               {"decoded", survey.decoded},
               {"bad", survey.bad},
               {"problems", Json::array()},
               {"ignored", survey.ignored}};
  for (const Problem& problem : survey.problems) {
    json["problems"].push_back({{"shard", problem.shard},
                                {"key", problem.key.empty() ? Json() : Json(problem.key)},
                                {"reason", problem.reason}});
  }
  return json;
}

}  // namespace mlbench::image
