// Images per second of what a training loader does with a JPEG: decoding, and decoding with a crop. The images lie in
// memory; each of the threads takes every N-th. Beside Pillow: bench/image_decode_peer.py, through bench/ratio.py.
//   image_decode --images FILE.tar [--work decode|train|evaluate] [--scaled] [--threads N] [--seconds S] [--rounds N]
// Prints JSON: images per second of each round and their median, of all threads together, and the median of images per
// second of processor time. With --difference it
// measures no time, but how far the values of --scaled are from the exact ones, in levels of 0 to 255.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/heap.h"
#include "mlbench/base/json.h"
#include "mlbench/image/crop.h"
#include "mlbench/image/index/sample_index.h"

namespace mlbench {
namespace {

constexpr int64_t kSide = 224, kShorter = 256;

struct Options {
  std::string images, work = "train";
  bool scaled = false, difference = false;
  int threads = 1, rounds = 5;
  double seconds = 2;
};

using Files = std::vector<std::vector<std::byte>>;

Files read_images(const std::string& tar) {
  image::SampleIndex index;
  index.shards = {tar};
  for (const image::TarMember& member : image::read_tar_members(tar)) {
    if (member.name.ends_with(".JPEG")) index.samples.push_back({0, member.offset, member.length, 0, member.name});
  }
  if (index.samples.empty()) throw UserError(tar + ": holds no files that end in .JPEG");
  const image::SampleFiles reader(index);
  Files files(index.samples.size());
  for (size_t i = 0; i < files.size(); ++i) reader.read(index.samples[i], files[i]);
  return files;
}

image::RandomCrop crop_of(const image::EncodedImage& given, size_t number) {
  return image::draw_crop(image::read_size(given), {}, 1, 0, static_cast<int64_t>(number));
}

// One image; the number decides on its crop.
void take(const Options& options, const std::vector<std::byte>& file, size_t number, const image::PixelValues& values,
          std::vector<float>& out) {
  const image::EncodedImage given{file, "image"};
  const image::CropOptions crop{.side = kSide, .scaled_decoding = options.scaled, .limits = {}};
  if (options.work == "decode") {
    image::decode(given);
  } else if (options.work == "train") {
    image::write_training_crop(given, crop_of(given, number), crop, values, out);
  } else {
    image::write_evaluation_crop(given, kShorter, crop, values, out);
  }
}

struct Round {
  double per_s = 0;      // of all threads
  double per_cpu_s = 0;  // of the time that they had a core: what a core does, also where others want it
};

Round measure(const Options& options, const Files& files) {
  const image::PixelValues values({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  std::atomic<size_t> next{0};
  std::atomic<bool> ended{false};
  const auto work = [&] {
    std::vector<float> out(3 * kSide * kSide);
    while (!ended) {
      const size_t number = next++;
      take(options, files[number % files.size()], number, values, out);
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu_begin = std::clock();
  std::vector<std::jthread> threads;
  for (int i = 0; i < options.threads; ++i) threads.emplace_back(work);
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  ended = true;
  threads.clear();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto images = static_cast<double>(next);
  return {images / took.count(), images * CLOCKS_PER_SEC / static_cast<double>(std::clock() - cpu_begin)};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Json speeds(const Options& options, const Files& files) {
  std::vector<double> per_s, per_cpu_s;
  measure(options, files);  // warms up
  for (int i = 0; i < options.rounds; ++i) {
    const Round round = measure(options, files);
    per_s.push_back(round.per_s);
    per_cpu_s.push_back(round.per_cpu_s);
  }
  return {{"work", options.work},
          {"scaled", options.scaled},
          {"threads", options.threads},
          {"cores", available_cores()},
          {"images", files.size()},
          {"samples_per_s", per_s},
          {"median_samples_per_s", median(per_s)},
          {"median_samples_per_cpu_s", median(per_cpu_s)}};
}

Json differences(const Options& options, const Files& files) {
  const image::CropOptions exact{.side = kSide, .limits = {}};
  const image::CropOptions scaled{.side = kSide, .scaled_decoding = true, .limits = {}};
  double sum = 0, worst_mean = 0;
  int most = 0;
  size_t changed = 0;
  for (size_t number = 0; number < files.size(); ++number) {
    const image::EncodedImage given{files[number], "image"};
    const bool train = options.work == "train";
    const auto pixels = [&](const image::CropOptions& how) {
      return train ? image::training_crop(given, crop_of(given, number), how)
                   : image::evaluation_crop(given, kShorter, how);
    };
    const image::Pixels one = pixels(exact), other = pixels(scaled);
    if (one.values == other.values) continue;
    ++changed;
    double total = 0;
    for (size_t i = 0; i < one.values.size(); ++i) {
      const int distance = std::abs(int{one.values[i]} - int{other.values[i]});
      total += distance;
      most = std::max(most, distance);
    }
    sum += total / static_cast<double>(one.values.size());
    worst_mean = std::max(worst_mean, total / static_cast<double>(one.values.size()));
  }
  return {{"work", options.work},
          {"images", files.size()},
          {"decoded_smaller", changed},
          {"mean_of_these", changed == 0 ? 0 : sum / static_cast<double>(changed)},
          {"mean_of_all", sum / static_cast<double>(files.size())},
          {"largest_mean_of_an_image", worst_mean},
          {"largest", most}};
}

void run(const Options& options) {
  const Files files = read_images(options.images);
  fmt::print("{}\n", (options.difference ? differences(options, files) : speeds(options, files)).dump());
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) {
  mlbench::keep_freed_memory();
  CLI::App app("Speed of decoding images", "image_decode");
  mlbench::Options options;
  app.add_option("--images", options.images, "a tar file of JPEG files")->required();
  app.add_option("--work", options.work)->check(CLI::IsMember({"decode", "train", "evaluate"}));
  app.add_flag("--scaled", options.scaled, "decode smaller where the crop allows");
  app.add_flag("--difference", options.difference, "of --scaled to the exact values");
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "of a round")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    mlbench::run(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "image_decode: {}\n", error.what());
    return static_cast<int>(mlbench::exit_code_of(error));
  }
}
