#include "mlbench/cli/verbs/data_images.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/image/shards/container.h"
#include "mlbench/image/shards/shard_writer.h"
#include "mlbench/image/shards/survey.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

using image::ContainerFormat;

// What has been done of long work, on standard error: a line that is redrawn on a terminal, elsewhere one every ten
// seconds.
class WorkProgress {
 public:
  ~WorkProgress() {
    if (terminal_ && drawn_) tell(stderr, "\r\x1b[K");
  }
  // `text` is called where a line is due.
  template <typename Text>
  void show(const Text& text) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10'000));
    tell(stderr, terminal_ ? fmt::format("\r\x1b[K{}", text()) : text() + "\n");
    drawn_ = true;
  }

 private:
  bool terminal_ = is_terminal(STDERR_FILENO), drawn_ = false;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
};

std::string bytes_text(int64_t bytes) { return report::format_bytes(static_cast<uint64_t>(bytes)); }

// ---- shard ----------------------------------------------------------------------------------------------------------

struct ShardVerb {
  std::string folder, output, format, list, classes, name;
  int64_t shards = 0;
  uint64_t seed = 0;
  bool in_order = false, dry_run = false;
};

// Ctrl-C ends the writing: write_shards() then removes what it wrote.
struct Interrupted {};

std::optional<fs::path> path_if_given(const std::string& path) {
  return path.empty() ? std::nullopt : std::optional<fs::path>(path);
}

Json shards_json(const image::ShardPlan& plan, const image::ShardManifest& manifest, int64_t image_bytes,
                 bool dry_run) {
  Json json = {{"output", plan.output.string()}, {"dry_run", dry_run}, {"image_bytes", image_bytes}};
  json.update(image::to_json(manifest));
  json.erase("version");
  return json;
}

// What write_shards() would return, as far as it is known before.
image::ShardManifest planned(const image::ShardPlan& plan, const image::SampleIndex& index) {
  image::ShardManifest manifest{.format = plan.options.format,
                                .samples = std::ssize(index.samples),
                                .classes = index.labels,
                                .first_label = image::first_label_of(plan.options.format),
                                .seed = plan.options.seed,
                                .shards = {}};
  for (const image::ShardRange& range : plan.shards) {
    manifest.shards.push_back(
        {image::shard_name(plan.options.name, std::ssize(manifest.shards), plan.options.shards, plan.options.format),
         range.end - range.begin, 0, ""});
  }
  return manifest;
}

ExitCode shard(const Context& context, const ShardVerb& verb) {
  const InterruptGuard guard;
  const image::Container container = image::find_container({.paths = {verb.folder},
                                                            .format = ContainerFormat::kFolder,
                                                            .list = path_if_given(verb.list),
                                                            .classes = path_if_given(verb.classes)});
  WorkProgress progress;
  progress.show([] { return std::string("looking at the folder"); });
  const image::SampleIndex index = image::index_of(container);
  int64_t image_bytes = 0;
  for (const image::Sample& sample : index.samples) image_bytes += sample.length;
  image::ShardOptions options{.format = image::container_format_named(verb.format),
                              .shards = verb.shards,
                              .name = verb.name.empty() ? fs::canonical(verb.folder).filename().string() : verb.name,
                              .seed = verb.in_order ? std::nullopt : std::optional(verb.seed)};
  const image::ShardPlan plan = image::plan_shards(index, options, verb.output);

  image::ShardManifest manifest = planned(plan, index);
  if (!verb.dry_run) {
    const UserUmask named;
    try {
      manifest = image::write_shards(index, plan, [&](int64_t samples, int64_t bytes) {
        if (InterruptGuard::count() > 0) throw Interrupted();
        progress.show([&] {
          return fmt::format("writing shards: {} of {} samples, {} of {}", report::format_count(samples),
                             report::format_count(std::ssize(index.samples)), bytes_text(bytes),
                             bytes_text(image_bytes));
        });
      });
    } catch (const Interrupted&) {
      say("stopped: nothing was written");
      return ExitCode::kStopped;
    }
  }
  if (context.json) {
    print_json(shards_json(plan, manifest, image_bytes, verb.dry_run));
  } else {
    print(fmt::format("{} {} samples of {} classes, {}, in {} of format {}: {}\n",
                      verb.dry_run ? "would write" : "wrote", report::format_count(manifest.samples),
                      report::format_count(manifest.classes), bytes_text(image_bytes),
                      counted(std::ssize(manifest.shards), "shard"), verb.format, plan.output.string()));
  }
  return ExitCode::kOk;
}

void add_shard(CLI::App& group, Program& program) {
  CLI::App* verb = add_verb(group, program, "shard", "Pack a folder of images into shards");
  auto options = std::make_shared<ShardVerb>();
  verb->add_option("FOLDER", options->folder, "of the images: a folder per class, or images of --list")->required();
  verb->add_option("--format", options->format, "tfrecord or tar (WebDataset's names)")
      ->required()
      ->check(CLI::IsMember({"tfrecord", "tar"}));
  verb->add_option("--shards", options->shards, "number of files")
      ->required()
      ->check(CLI::Range(int64_t{1}, image::kMostShards));
  verb->add_option("-o,--output", options->output, "a new folder, or an empty one, for the shards")
      ->required()
      ->type_name("FOLDER");
  verb->add_option("--list", options->list, "a file with FILE CLASS on each line, as ILSVRC's validation split has")
      ->type_name("FILE");
  verb->add_option("--classes", options->classes,
                   "of a list: a file with a class on each line, in the order of the labels (default: sorted names)")
      ->type_name("FILE")
      ->needs("--list");
  verb->add_option("--name", options->name, "begins the names of the shards (default: the name of FOLDER)")
      ->type_name("NAME");
  CLI::Option* seed = verb->add_option("--seed", options->seed, "of the shuffle")->capture_default_str();
  verb->add_flag("--in-order", options->in_order, "keep the order of the folder or list")->excludes(seed);
  verb->add_flag("--dry-run", options->dry_run, "check all and say what would be written");
  verb->footer(
      "Example:  mlbench data shard train --format tfrecord --shards 64 -o shards/train\n"
      "The bytes of the images stay as they are. What the shards hold: docs/images.md");
  act(
      *verb, program, [options](const Context& context) { return shard(context, *options); }, Signals::kRead);
}

// ---- index ----------------------------------------------------------------------------------------------------------

struct IndexVerb {
  std::vector<std::string> paths;
  std::string format, list, classes;
  std::optional<int64_t> labels, first_label;
  int threads = available_cores();
  bool check = false;
  int64_t most_bad = 0;
};

// "99,990 JPEG, 5 grey JPEG", without kinds that there are none of.
std::string kinds_text(const image::ImageKinds& kinds) {
  std::string text;
  const auto add = [&](int64_t count, const char* name) {
    if (count == 0) return;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", report::format_count(count), name);
  };
  add(kinds.colour_jpeg, "JPEG");
  add(kinds.grey_jpeg, "grey JPEG");
  add(kinds.cmyk_jpeg, "CMYK JPEG");
  add(kinds.png, "PNG");
  if (kinds.png_named_jpeg > 0) {
    text += fmt::format(" ({} named as JPEG)", report::format_count(kinds.png_named_jpeg));
  }
  add(kinds.unreadable, "unreadable");
  return text.empty() ? std::string(report::kNone) : text;
}

std::string survey_text(const image::Survey& found) {
  report::Table table({{"", "", report::Align::kLeft}, {"", "", report::Align::kLeft}});
  table.add_row({"format", fmt::format("{}, {}", image::row_of(found.format).name,
                                       found.format == ContainerFormat::kFolder ? "one folder"
                                                                                : counted(found.shards, "shard"))});
  table.add_row(
      {"samples", fmt::format("{} of {} classes ({} labels)", report::format_count(found.samples),
                              report::format_count(found.classes_found), report::format_count(found.labels))});
  table.add_row({"images", fmt::format("{}: smallest {}, median {}, largest {} bytes", bytes_text(found.image_bytes),
                                       report::format_count(found.smallest), report::format_count(found.median),
                                       report::format_count(found.largest))});
  table.add_row({"kinds", kinds_text(found.kinds)});
  table.add_row({"decoded", found.decoded ? "all" : "none (--check decodes all)"});
  table.add_row({"bad", report::format_count(found.bad)});
  if (!found.ignored.empty()) table.add_row({"no shards", fmt::format("{}", fmt::join(found.ignored, ", "))});
  std::string text = table.render();
  text.erase(0, text.find_first_not_of('\n'));
  for (const image::Problem& problem : found.problems) {
    text += fmt::format("BAD  {}  {}{}\n", printable(problem.shard),
                        problem.key.empty() ? "" : printable(problem.key) + ": ", printable(problem.reason));
  }
  if (const int64_t more = found.bad - std::ssize(found.problems); more > 0) {
    text += fmt::format("and {} more\n", report::format_count(more));
  }
  return text;
}

ExitCode index(const Context& context, const IndexVerb& verb) {
  image::ContainerRequest request{.paths = {verb.paths.begin(), verb.paths.end()},
                                  .list = path_if_given(verb.list),
                                  .classes = path_if_given(verb.classes),
                                  .labels = verb.labels,
                                  .first_label = verb.first_label};
  if (!verb.format.empty()) request.format = image::container_format_named(verb.format);
  const image::Container container = image::find_container(request);
  image::Survey found;
  {
    WorkProgress progress;
    found =
        image::survey(container, {.decode = verb.check, .threads = verb.threads}, [&](int64_t samples, size_t shard) {
          progress.show([&] {
            return fmt::format("{} {}: {} samples so far, shard {} of {}", verb.check ? "decoding" : "reading",
                               verb.paths.front(), report::format_count(samples), shard + 1, container.shards.size());
          });
        });
  }
  if (context.json) {
    print_json(image::to_json(found));
  } else {
    print(survey_text(found));
  }
  if (found.bad <= verb.most_bad) return ExitCode::kOk;
  say(fmt::format("{} bad, at most {} expected: mend or remove them, or allow them by --max-bad {}", found.bad,
                  verb.most_bad, found.bad));
  return ExitCode::kUserError;
}

void add_index(CLI::App& group, Program& program) {
  CLI::App* verb = add_verb(group, program, "index", "What a folder or shards of images hold, and what is wrong");
  auto options = std::make_shared<IndexVerb>();
  verb->add_option("PATH", options->paths, "a folder of images or of shards, or shards")->required();
  verb->add_option("--format", options->format, "folder, tar or tfrecord (default: what is found)")
      ->check(CLI::IsMember({"folder", "tar", "tfrecord"}));
  verb->add_option("--list", options->list, "of a folder: a file with FILE CLASS on each line")->type_name("FILE");
  verb->add_option("--classes", options->classes, "a file with a class on each line, in the order of the labels")
      ->type_name("FILE");
  verb->add_option("--labels", options->labels,
                   "of shards: the number of labels (default: that of classes.txt, or one more than the largest)")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  verb->add_option("--first-label", options->first_label, "of records: the first label, 0 or 1 (default: 1)")
      ->check(CLI::Range(int64_t{0}, int64_t{1}));
  verb->add_flag("--check", options->check, "decode all images, and compare the checksums of shards.json");
  verb->add_option("--threads", options->threads, "that look at images (default: one per core)")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--max-bad", options->most_bad, "samples and shards that may be bad")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->footer(
      "Example:  mlbench data index shards/train --check\n"
      "Exit code: 2 when more are bad than --max-bad allows.");
  act(*verb, program, [options](const Context& context) { return index(context, *options); });
}

}  // namespace

void add_data_images(CLI::App& group, Program& program) {
  add_shard(group, program);
  add_index(group, program);
}

}  // namespace mlbench::cli
