#pragma once

// What a container of images holds, in figures, and what is wrong with it. Shards are looked at one after the other, so
// that memory does not grow with their number but for 4 bytes per sample.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/image/shards/container.h"

namespace mlbench::image {

struct SurveyOptions {
  bool decode = false;      // decode each image; compare the checksums of a manifest
  int threads = 1;          // that look at images
  size_t most_named = 100;  // problems that are kept with their words; all are counted
};

// What images are, by their headers.
struct ImageKinds {
  int64_t colour_jpeg = 0, grey_jpeg = 0, cmyk_jpeg = 0, png = 0;
  int64_t png_named_jpeg = 0;  // of `png`; a tar file's keys have no ending
  int64_t unreadable = 0;      // neither, or with a damaged header
  bool operator==(const ImageKinds&) const = default;
};

struct Problem {
  std::string shard;
  std::string key;  // "" where the whole shard is wrong
  std::string reason;
};

struct Survey {
  ContainerFormat format = ContainerFormat::kFolder;
  int64_t shards = 0;  // those that are there; 1 for a folder
  int64_t samples = 0,
          labels = 0;         // labels are said by the container or the user, else one more than the largest found
  int64_t classes_found = 0;  // those that have a sample
  int64_t image_bytes = 0;
  int64_t smallest = 0, median = 0, largest = 0;  // bytes of an image; 0 without samples
  ImageKinds kinds;
  bool decoded = false;
  int64_t bad = 0;                // samples and shards
  std::vector<Problem> problems;  // the first of them, in the order of the container
  std::vector<std::string> ignored;
};
Json to_json(const Survey& survey);

// Called in the calling thread, now and then.
using SurveyProgress = std::function<void(int64_t samples_done, size_t shard)>;

// A shard that cannot be indexed is one problem, with the first reason; its samples do not count. Throws IoError where
// the system refuses.
Survey survey(const Container& container, const SurveyOptions& options, const SurveyProgress& progress = {});

}  // namespace mlbench::image
