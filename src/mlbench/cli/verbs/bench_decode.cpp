#include "mlbench/cli/verbs/bench_decode.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/heap.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/context.h"
#include "mlbench/image/crop.h"
#include "mlbench/image/index/sample_index.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

namespace {

namespace fs = std::filesystem;

// As training on ImageNet takes them.
constexpr int64_t kSide = 224, kShorter = 256;
constexpr std::array<double, 3> kMean = {0.485, 0.456, 0.406}, kDeviation = {0.229, 0.224, 0.225};

constexpr Range kRoundCounts{1, 1000}, kRoundTimes{0.01, 3600};
// Images are held in memory, so that no storage is measured: of a larger set, those at equal distances.
constexpr int64_t kMostBytes = int64_t{256} << 20;

struct DecodeWords {
  std::string path, crop, threads = "1", rounds = "5", seconds = "2s";
  bool scaled = false, difference = false;
};

enum class DecodeWork { kDecode, kTrain, kEvaluate };

struct DecodeOptions {
  DecodeWork work = DecodeWork::kDecode;
  bool scaled = false;
  int64_t threads = 1, rounds = 5;
  std::chrono::duration<double> seconds{2};
};

struct EncodedFile {
  std::string name;
  std::vector<std::byte> bytes;
  image::EncodedImage image() const { return {bytes, name}; }
};

struct ImageSet {
  std::vector<EncodedFile> files;  // those that decode
  int64_t found = 0;               // in the folder or tar file
  int64_t bytes = 0;               // of `files`
  std::vector<std::string> refused;
};

ImageSet read_images(const fs::path& path) {
  const image::SampleIndex index = image::index_unlabelled(path);
  ImageSet images;
  images.found = std::ssize(index.samples);
  int64_t bytes = 0;
  for (const image::Sample& sample : index.samples) bytes += sample.length;
  const auto distance = static_cast<size_t>(bytes / kMostBytes + 1);
  const image::SampleFiles reader(index);
  for (size_t i = 0; i < index.samples.size(); i += distance) {
    EncodedFile file{index.samples[i].key, {}};
    reader.read(index.samples[i], file.bytes);
    try {
      image::decode(file.image());
    } catch (const UserError& error) {
      images.refused.emplace_back(error.what());
      continue;
    }
    images.bytes += std::ssize(file.bytes);
    images.files.push_back(std::move(file));
  }
  if (images.files.empty()) throw UserError(fmt::format("{}: no image decodes: {}", path.string(), images.refused[0]));
  return images;
}

image::RandomCrop crop_of(const image::EncodedImage& given, size_t number) {
  return image::draw_crop(image::read_size(given), {}, 1, 0, static_cast<int64_t>(number));
}

// Takes one image, whose number decides on its crop.
void take_image(const DecodeOptions& options, const image::EncodedImage& given, size_t number,
                const image::PixelValues& values, std::vector<float>& out) {
  const image::CropOptions crop{.side = kSide, .scaled_decoding = options.scaled, .limits = {}};
  switch (options.work) {
    case DecodeWork::kDecode:
      image::decode(given);
      break;
    case DecodeWork::kTrain:
      image::write_training_crop(given, crop_of(given, number), crop, values, out);
      break;
    case DecodeWork::kEvaluate:
      image::write_evaluation_crop(given, kShorter, crop, values, out);
      break;
  }
}

struct DecodeRound {
  double per_s = 0;      // of all threads
  double per_cpu_s = 0;  // of the time that they had a core: what a core does, also where others want it
};

// Each of the threads takes the next image, again and again.
DecodeRound measure_round(const DecodeOptions& options, const ImageSet& images) {
  const image::PixelValues values(kMean, kDeviation);
  std::atomic<size_t> next{0};
  std::atomic<bool> ended{false};
  const auto work = [&] {
    std::vector<float> out(3 * kSide * kSide);
    while (!ended) {
      const size_t number = next++;
      take_image(options, images.files[number % images.files.size()].image(), number, values, out);
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu_begin = std::clock();
  std::vector<std::jthread> threads;
  for (int64_t i = 0; i < options.threads; ++i) threads.emplace_back(work);
  std::this_thread::sleep_for(options.seconds);
  ended = true;
  threads.clear();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto taken = static_cast<double>(next);
  return {taken / took.count(), taken * CLOCKS_PER_SEC / static_cast<double>(std::clock() - cpu_begin)};
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Json decoding_speeds(const DecodeOptions& options, const ImageSet& images) {
  std::vector<double> per_s, per_cpu_s;
  measure_round(options, images);  // warms up
  for (int64_t i = 0; i < options.rounds; ++i) {
    const DecodeRound round = measure_round(options, images);
    per_s.push_back(round.per_s);
    per_cpu_s.push_back(round.per_cpu_s);
  }
  const double median = median_of(per_s);
  return {{"threads", options.threads},
          {"cores", available_cores()},
          {"samples_per_s", per_s},
          {"median_samples_per_s", median},
          {"median_samples_per_s_and_thread", median / static_cast<double>(options.threads)},
          {"median_samples_per_cpu_s", median_of(per_cpu_s)}};
}

// How far the values of --scaled are from the exact ones, in levels of 0 to 255.
Json scaled_differences(const DecodeOptions& options, const ImageSet& images) {
  const image::CropOptions exact{.side = kSide, .limits = {}};
  const image::CropOptions scaled{.side = kSide, .scaled_decoding = true, .limits = {}};
  double sum = 0, worst_mean = 0;
  int most = 0;
  size_t changed = 0;
  for (size_t number = 0; number < images.files.size(); ++number) {
    const image::EncodedImage given = images.files[number].image();
    const auto pixels = [&](const image::CropOptions& how) {
      return options.work == DecodeWork::kTrain ? image::training_crop(given, crop_of(given, number), how)
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
  return {{"decoded_smaller", changed},
          {"mean_of_these", changed == 0 ? 0 : sum / static_cast<double>(changed)},
          {"mean_of_all", sum / static_cast<double>(images.files.size())},
          {"largest_mean_of_an_image", worst_mean},
          {"largest", most}};
}

DecodeOptions checked_options(const DecodeWords& words) {
  DecodeOptions options;
  options.threads = parse_count(words.threads, "--threads", spec::kThreadCounts);
  options.rounds = parse_count(words.rounds, "--rounds", kRoundCounts);
  options.seconds = std::chrono::duration<double>(parse_duration(words.seconds, "--seconds", kRoundTimes));
  if (!words.crop.empty()) {
    check_choice("--crop", words.crop, {"train", "evaluation"});
    options.work = words.crop == "train" ? DecodeWork::kTrain : DecodeWork::kEvaluate;
  }
  options.scaled = words.scaled;
  if ((words.scaled || words.difference) && words.crop.empty()) {
    throw UserError(
        fmt::format("--{} is of crops, which leave pixels out: say which with --crop train or --crop "
                    "evaluation",
                    words.scaled ? "scaled" : "difference"));
  }
  return options;
}

std::string decoding_words(const Json& document) {
  const auto number = [&](const char* key) { return document.at(key).get<double>(); };
  std::string text =
      fmt::format("{} of {} ({:.1f} MB): {}{}\n", counted(document.at("images").get<int64_t>(), "image"),
                  document.at("images_found").get<int64_t>(), number("bytes") / 1e6,
                  document.at("crop").is_null() ? "decoding alone" : document.at("crop").get<std::string>() + " crops",
                  document.at("scaled").get<bool>() ? ", decoded smaller where the crop allows" : "");
  if (document.contains("largest")) {
    return text + fmt::format(
                      "  decoded smaller           {}\n"
                      "  mean difference of these  {:.2f} grey levels\n"
                      "  largest mean of an image  {:.2f}\n"
                      "  largest difference        {}\n",
                      document.at("decoded_smaller").get<int64_t>(), number("mean_of_these"),
                      number("largest_mean_of_an_image"), document.at("largest").get<int64_t>());
  }
  return text + fmt::format(
                    "  images/s                      {:.0f}, with {} on {}\n"
                    "  per thread                    {:.0f}\n"
                    "  per second of processor time  {:.0f}\n",
                    number("median_samples_per_s"), counted(document.at("threads").get<int64_t>(), "thread"),
                    counted(document.at("cores").get<int64_t>(), "core"), number("median_samples_per_s_and_thread"),
                    number("median_samples_per_cpu_s"));
}

ExitCode measure_decoding(const Context& context, const DecodeWords& words) {
  const DecodeOptions options = checked_options(words);
  keep_freed_memory();
  const ImageSet images = read_images(words.path);
  Json document = {{"crop", words.crop.empty() ? Json(nullptr) : Json(words.crop)},
                   {"scaled", words.scaled},
                   {"images", images.files.size()},
                   {"images_found", images.found},
                   {"bytes", images.bytes},
                   {"refused", images.refused}};
  document.update(words.difference ? scaled_differences(options, images) : decoding_speeds(options, images));
  if (context.json) {
    print_json(document);
  } else {
    print(decoding_words(document));
  }
  if (!images.refused.empty()) {
    say(fmt::format("left out, as {} did not decode: {}", counted(std::ssize(images.refused), "image"),
                    images.refused.front()));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_bench_decode(CLI::App& group, Program& program) {
  CLI::App* verb = add_verb(group, program, "decode", "Measure how fast images are decoded, without storage");
  auto words = std::make_shared<DecodeWords>();
  verb->add_option("PATH", words->path, "a folder of images (.jpg, .jpeg, .png), or a tar file of them")->required();
  verb->add_option("--crop", words->crop, "also cut and resize as training does, or as evaluation does")
      ->type_name("train|evaluation");
  verb->add_option("--threads", words->threads, "that decode side by side (default: 1)")->type_name("N");
  verb->add_flag("--scaled", words->scaled, "of crops: decode smaller where the crop allows; not exact");
  verb->add_flag("--difference", words->difference, "of crops: how far --scaled is from exact, instead of the speed");
  verb->add_option("--rounds", words->rounds, "of which the median is taken (default: 5)")->type_name("N");
  verb->add_option("--seconds", words->seconds, "time of a round (default: 2s)")->type_name("TIME");
  verb->footer("Example:  mlbench bench decode images.tar --crop train --threads 2\nWhat is measured: docs/images.md");
  act(*verb, program, [words](const Context& context) { return measure_decoding(context, *words); });
}

}  // namespace mlbench::cli
