#include "tests/fuzz/parsers.h"
#include "mlbench/base/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/host_usage.h"
#include "mlbench/base/input.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "mlbench/cli/clusters/config.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/tensorpack_row.h"
#include "mlbench/dataset/text/cleaning.h"
#include "mlbench/dataset/text/lines.h"
#include "mlbench/dataset/text/moses.h"
#include "mlbench/dataset/text/prepared_text.h"
#include "mlbench/dataset/text/subword_dictionary.h"
#include "mlbench/dataset/text/text_format.h"
#include "mlbench/dataset/text/vocabulary.h"
#include "mlbench/exec/kubernetes/nodes.h"
#include "mlbench/exec/kubernetes/status.h"
#include "mlbench/exec/kubernetes/yaml.h"
#include "mlbench/exec/slurm/answers.h"
#include "mlbench/guard/usage.h"
#include "mlbench/guard/words.h"
#include "mlbench/home/summary.h"
#include "mlbench/image/crop.h"
#include "mlbench/image/index/sample_index.h"
#include "mlbench/image/shards/container.h"
#include "mlbench/master/gpus.h"
#include "mlbench/master/http/api.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/master/http/points.h"
#include "mlbench/master/master.h"
#include "mlbench/metrics/predictions.h"
#include "mlbench/metrics/translations.h"
#include "mlbench/net/http/gzip.h"
#include "mlbench/net/http/message.h"
#include "mlbench/net/kv/wire.h"
#include "mlbench/net/launch.h"
#include "mlbench/objects/answers.h"
#include "mlbench/record/build_record.h"
#include "mlbench/record/events.h"
#include "mlbench/record/points.h"
#include "mlbench/record/step_format.h"
#include "mlbench/record/timeline.h"
#include "mlbench/record/tracker_lines.h"
#include "mlbench/record/usage_lines.h"
#include "mlbench/report/archive/result.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/report/notes.h"
#include "mlbench/report/records.h"
#include "mlbench/report/run_list.h"
#include "mlbench/report/study/measured_run.h"
#include "mlbench/report/study/price.h"
#include "mlbench/report/summary.h"
#include "mlbench/report/timeline/summary.h"
#include "mlbench/report/timeline/trace.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/spec/task.h"
#include "mlbench/spec/toml_text.h"
#include "mlbench/supervise/progress.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

// In memory, where the system has such a folder.
const fs::path& scratch() {
  static const fs::path folder = [] {
    std::string pattern = fs::exists("/dev/shm") ? "/dev/shm/mlbench-fuzz-XXXXXX" : "/tmp/mlbench-fuzz-XXXXXX";
    const fs::path made = mkdtemp(pattern.data());
    std::atexit([] { fs::remove_all(scratch()); });
    return made;
  }();
  return folder;
}

void write(const fs::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  MLBENCH_CHECK(out.good(), "cannot write " + file.string());
}

std::string two_steps() {
  std::string bytes = record::encode_header({});
  record::StepRecord record;
  record.count = 1;
  for (record.sequence = 0; record.sequence < 2; ++record.sequence) record::append_record(bytes, record);
  return bytes;
}

std::string two_spans() {
  record::TimelineEncoder encoder;
  std::string bytes = record::TimelineEncoder::header({});
  encoder.append(bytes, record::Span{.name = "fwd_pass", .begin_ns = 5, .end_ns = 8, .step = 1});
  encoder.append(bytes, record::ClockSample{1, 2, 3});
  encoder.append(bytes, record::Span{.kind = record::SpanKind::kOperation, .name = "barrier", .sequence = 1});
  return bytes;
}

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// Objects that are right but for their structure: `good` beside something deep or at the end of its type, and that in
// the place of each of its values in turn.
std::vector<std::string> with_hard_json(const std::string& good) {
  std::vector<std::string> seeds = {good};
  const std::vector<std::string> values = {repeated("[", 64) + repeated("]", 64),
                                           repeated("[", 63) + repeated("]", 63),
                                           repeated("{\"a\":", 65) + "1" + repeated("}", 65),
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "18446744073709551615",
                                           "1e308",
                                           "-1",
                                           "null",
                                           R"("\u0000\ud800\n")",
                                           R"([[],{},"",0])"};
  for (const std::string& value : values) {
    seeds.push_back("{\"x\":" + value + (good.size() > 2 ? "," + good.substr(1) : "}"));
    for (size_t colon = good.find(':'); colon != std::string::npos; colon = good.find(':', colon + 1)) {
      const size_t end = good.find_first_of(",}]", colon);
      if (end != std::string::npos) seeds.push_back(good.substr(0, colon + 1) + value + good.substr(end));
    }
  }
  return seeds;
}

std::vector<std::string> with_hard_toml(const std::string& good) {
  const std::string dots = repeated("a.", 70) + "a";
  return {good,
          good + "\n" + dots + " = 1\n",
          good + "\n[" + dots + "]\n[[" + dots + "]]\n",
          "x = " + repeated("[", 63) + repeated("]", 63) + "\n" + good,
          "x = " + repeated("{a.b=", 32) + "1" + repeated("}", 32) + "\n" + good,
          "x = \"\"\"\\\"\"\"\"\"\n'y' = '''''a'''''\n# \"\n" + good};
}

size_t depth_of(const toml::node& node) {
  size_t deepest = 0;
  if (const auto* table = node.as_table()) {
    for (const auto& [key, value] : *table) deepest = std::max(deepest, depth_of(value));
  } else if (const auto* array = node.as_array()) {
    for (const auto& value : *array) deepest = std::max(deepest, depth_of(value));
  } else {
    return 0;
  }
  return deepest + 1;
}

size_t depth_of(const Json& value) {
  if (!value.is_structured()) return 0;
  size_t deepest = 0;
  for (const Json& one : value) deepest = std::max(deepest, depth_of(one));
  return deepest + 1;
}

Json example_record() {
  return {
      {"id", 1},
      {"name", "r-1"},
      {"state", "finished"},
      {"created_at", "2026-01-31T12:00:00.000000Z"},
      {"division", "closed"},
      {"task", "fashion-mnist"},
      {"workers", 2},
      {"overrides", Json::array()},
      {"limits", {{"light", true}}},
      {"segments", Json::array({{{"index", 1}}})},
      {"goal", {{"metric", "Prec@1"}, {"split", "test"}, {"target", 80.0}, {"reached", true}, {"train_s", 4.0}}},
      {"clocks", {{"train_s", 5.0}, {"train_legacy_s", 4.0}, {"wall_s", 6.0}}},
      {"steps_s", {{"agg", 1.0}}},
      {"evaluations", Json::array({{{"epoch", 1}, {"split", "test"}, {"metrics", {{"Prec@1", 81.0}}}}})},
      {"epochs", Json::array({{{"epoch", 1}, {"train_loss", 0.5}, {"train_s", 4.0}, {"metrics", Json::object()}}})}};
}

template <typename... Words>
void parse_as(std::string_view word, std::string_view text) {
  (..., (word == Words::kWord ? static_cast<void>(Words::parse(text)) : static_cast<void>(0)));
}

void take_tracker_lines(const std::string& input) {
  fs::create_directories(scratch() / "metrics");
  write(tracker_lines_path(scratch(), 0), input + "\n");
  const record::TrackerLines read = record::read_tracker_lines(scratch(), 0);
  record::tracker_figures(read.lines, 0);
  record::Points points;
  for (const record::TrackerLine& line : read.lines) record::add_points(points, line, 0);
}

// The event of a rank that wrote no steps, in a record.
void take_event(const std::string& input) {
  const auto event = record::parse_event(input);
  if (!event) return;
  record::Points points;
  record::add_points(points, *event, record::SpoolHeader{});
  spec::RunSpec run;
  run.run_dir = scratch() / "run";
  run.workers = 1;
  fs::create_directories(scratch() / "run" / "spool");
  write(events_path(run.run_dir, 1, 0), event->dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  record::RunProgress progress;
  progress.segments.emplace_back();
  record::to_json(record::build_record(run, progress)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void take_progress(const std::string& input) {
  const record::RunProgress progress = supervise::progress_from_json(parse_json(input, inputs::kProgress));
  spec::RunSpec run;
  run.run_dir = scratch() / "none";
  run.workers = 1;
  record::to_json(record::build_record(run, progress)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void take_record(const std::string& input) {
  const record::Record record = record::record_from_json(parse_json(input, inputs::kRecord), "run.json");
  to_json(record).dump(-1, ' ', false, Json::error_handler_t::replace);
  home::summary_of(record).dump(-1, ' ', false, Json::error_handler_t::replace);
  report::status_table({{record.name, {record}}});
  report::run_details(record);
  report::read_run_record(record);
  report::official_result(record);
}

// NAME=VALUE, a line each.
void take_variables(const std::string& input) {
  std::map<std::string, std::string> variables;
  std::istringstream lines(input);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t sign = line.find('='); sign != std::string::npos) {
      variables[line.substr(0, sign)] = line.substr(sign + 1);
    }
  }
  net::detect_launch([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::vector<std::string> tensor_files() {
  const auto file = [](const std::string& header, uint64_t length, size_t data) {
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(data, 'x');
  };
  std::vector<std::string> seeds;
  for (const std::string& header : with_hard_json(R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})")) {
    seeds.push_back(file(header, header.size(), 8));
  }
  const std::string lies =
      R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,2],"data_offsets":[0,0]},)"
      R"("b":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,18446744073709551615]}})";
  for (const uint64_t length : {uint64_t{lies.size()}, UINT64_MAX, uint64_t{1} << 63, UINT64_MAX - 7, uint64_t{0}}) {
    seeds.push_back(file(lies, length, 16));
  }
  return seeds;
}

// Two files; the first byte says where the second begins.
std::vector<fs::path> two_files(const std::string& input) {
  const size_t cut = input.empty() ? 0 : std::min<size_t>(static_cast<unsigned char>(input[0]), input.size() - 1);
  write(scratch() / "first", input.empty() ? "" : std::string_view(input).substr(1, cut));
  write(scratch() / "second", input.empty() ? "" : std::string_view(input).substr(1 + cut));
  return {scratch() / "first", scratch() / "second"};
}

// Two images of 2 x 2, as the format wants them.
template <auto Read>
void parse_data(const std::string& input) {
  dataset::DatasetDescription description;
  description.name = description.title = "fuzz";
  description.sample_shape = {1, 2, 2};
  description.classes = 10;
  dataset::SplitSpec split;
  split.name = "train";
  split.samples = 2;
  std::vector<std::byte> features(2 * 4 * sizeof(float));
  std::vector<int64_t> labels(2);
  std::vector<fs::path> files = two_files(input);
  if (Read != dataset::read_idx) files.erase(files.begin());
  split.files.resize(files.size());
  const size_t width = Read == dataset::read_libsvm ? sizeof(float) : 1;
  Read(description, split, files, {std::span(features).first(2 * 4 * width), labels});
}

// Pairs that MLBench prepared, of two_files().
template <auto Make>
void parse_ready_pairs(const std::string& input) {
  const fs::path folder = scratch() / "ready";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::vector<fs::path> sides = two_files(input);
  const bool indexed = Make == dataset::text::make_indexed_pairs;
  write(scratch() / "dictionary",
        indexed ? "'a'\n'\\'\n'_'\n'u'\n';'\n'0'\n'1'\n'2'\n'3'\n'4'\n'5'\n'6'\n'7'\n'8'\n'9'\n" : "a\nb@@\n");
  dataset::DatasetDescription description;
  description.name = "fuzz";
  description.classes = 32;
  description.splits.emplace_back().name = "train";
  const std::vector<std::vector<fs::path>> files = {indexed ? std::vector{sides[0], sides[1], sides[0], sides[1]}
                                                            : std::vector{sides[1]}};
  Make({description, files, scratch() / "dictionary", folder, {}});
}

// Features 0.5 and -2 with a label; the label as a scalar of NumPy; lengths that lie; a pickle.
std::vector<std::string> tensorpack_rows() {
  const std::string map = "\x92\x85\xC4\2nd\xC3\xC4\4type\xA3<f4\xC4\4kind\xC4";
  const std::string row = map + std::string("\0\xC4\5shape\x91\2\xC4\4data\xC4\x08\0\0\0\x3F\0\0\0\xC0", 26);
  const std::string label("\xCB\x3F\xF0\0\0\0\0\0\0", 9);
  const std::string scalar(
      "\x83\xA2nd\xC2\xA4type\xA3<i4\xA4"
      "data\xC4\4\1\0\0\0",
      25);
  return {row + label,
          row + scalar,
          row + "\1",
          "\xDD\xFF\xFF\xFF\xFF\xDF\xFF\xFF\xFF\xFF",
          "\x92\xDF\xFF\xFF\xFF\xFF\xC6\xFF\xFF\xFF\xFF",
          map + "\xC6\xFF\xFF\xFF\xFF",
          "\x80\x04\x95."};
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string as_two_files(const std::string& first, const std::string& second) {
  return static_cast<char>(first.size()) + first + second;
}

// A line of each side from a file of its own.
void take_parallel_lines(const std::string& input) {
  dataset::text::PairReader reader(two_files(input));
  for (dataset::text::LinePair pair; reader.next(pair);) {
    dataset::text::judge_pair({.latin1 = true}, pair.source, pair.target);
  }
}

// A text in each packing, whatever the bytes are.
void take_packed_text(const std::string& input) {
  for (const char* name : {"text.gz", "text.bz2", "text.xz"}) {
    write(scratch() / name, input);
    try {
      dataset::text::TextLines lines(scratch() / name);
      for (std::string line; lines.next(line) != dataset::text::TextLines::Kind::kEnd;) {
      }
    } catch (const UserError&) {
    } catch (const IoError&) {
    }
  }
}

void take_words(const std::string& input) {
  const fs::path folder = scratch() / "words";
  fs::remove_all(folder);
  fs::create_directories(folder);
  write(scratch() / "first", input);
  dataset::DatasetDescription description;
  description.name = "fuzz";
  description.classes = 8;
  description.splits.emplace_back().name = "train";
  const std::vector<std::vector<fs::path>> files = {{scratch() / "first"}};
  dataset::text::make_words({description, files, "", folder, {}});
}

void take_token_file(const std::string& input) {
  write(scratch() / "made.tokens", input);
  const dataset::CachedTokens tokens(scratch() / "made.tokens");
  tokens.verify();
  for (int64_t i = 0; i < tokens.records(); ++i) {
    MLBENCH_CHECK(tokens.column("x").length(i) <= tokens.longest(), "a record longer than the longest");
  }
}

std::vector<std::string> token_files() {
  dataset::TokenWriter writer(scratch() / "seed.tokens", 9);
  writer.add(std::vector<int32_t>{4, 5, 6});
  writer.add(std::vector<int32_t>{});
  writer.add(std::vector<int32_t>{8});
  writer.commit();
  const std::string good = read_file(scratch() / "seed.tokens");
  std::vector<std::string> seeds = {good, good.substr(0, 128)};
  for (const size_t field : {16, 24, 32, 40, 48}) {  // version, records, tokens, vocabulary, longest
    for (const int64_t lie : {int64_t{-1}, INT64_MAX, int64_t{1} << 61, int64_t{0}}) {
      std::string changed = good;
      std::memcpy(changed.data() + field, &lie, sizeof lie);
      seeds.push_back(std::move(changed));
    }
  }
  return seeds;
}

void take_text_facts(const std::string& input) {
  const fs::path folder = scratch() / "prepared";
  fs::create_directories(folder);
  write(folder / "facts.json", input);
  write(dataset::text::vocabulary_path(folder),
        R"({"mlbench_vocabulary":1,"kind":"words","size":6,"source_language":"","target_language":""})"
        "\na\n<unk>\nb\n<eos>\n");
  write(dataset::text::references_path(folder, "test"), "Ja.\n");
  const dataset::text::PreparedText text(folder);
  text.facts().dump(-1, ' ', false, Json::error_handler_t::replace);
  text.references("test");
}

// Both sides from outside.
void take_references(const std::string& input) {
  const std::vector<fs::path> files = two_files(input);
  const std::vector<fs::path> references = {files[1], files[1]};
  metrics::score_translations(
      {files[0]}, references,
      {.metrics = metrics::text_metric_names(), .metric = {.tokenizer = metrics::Tokenizer::kNone}});
}

// ---- images ---------------------------------------------------------------------------------------------------------

constexpr image::Limits kFewPixels{.most_side = 5000, .most_pixels = 1 << 20};

image::EncodedImage as_image(std::string_view bytes) {
  return {std::as_bytes(std::span(bytes.data(), bytes.size())), "fuzz"};
}

// A grey JPEG of 8 x 8 pixels, a progressive frame without a scan, a PNG of 1 x 1.
std::vector<std::string> image_files() {
  const std::string table(64, '\1');
  const auto jpeg = [&](char frame) {
    return std::string("\xFF\xD8\xFF\xDB\0\x43\0", 7) + table + "\xFF" + frame +
           std::string("\0\x0B\x08\0\x08\0\x08\1\1\x11\0\xFF\xC4\0\x14\0\0\1", 18) + std::string(14, '\0') +
           std::string("\1\xFF\xC4\0\x14\x10\1", 7) + std::string(15, '\0') +
           std::string("\0\xFF\xDA\0\x08\1\1\0\0\x3F\0\x2F\xFF\xD9", 14);
  };
  const std::string png =
      std::string("\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3A\x7E\x9B\x55", 33) +
      std::string("\0\0\0\x0AIDAT\x78\x9C\x63\x60\0\0\0\2\0\1\x48\xAF\xA4\x71", 22) +
      std::string("\0\0\0\0IEND\xAE\x42\x60\x82", 12);
  return {jpeg('\xC0'), jpeg('\xC2'), png, png.substr(0, 40)};
}

void take_image(const std::string& input) {
  const image::Size size = image::read_size(as_image(input), kFewPixels);
  const image::Pixels whole = image::decode(as_image(input), kFewPixels);
  MLBENCH_CHECK(whole.size == size, "the size that the header names");
}

// The first two bytes place a part; whatever of the image is damaged, it has the size that was asked for.
void take_image_crop(const std::string& input) {
  if (input.size() < 2) return;
  const std::string_view file = std::string_view(input).substr(2);
  const image::Size size = image::read_size(as_image(file), kFewPixels);
  const auto share = [](char byte, int64_t of) { return static_cast<unsigned char>(byte) * of / 256; };
  image::RandomCrop crop{{share(input[0], size.width), share(input[1], size.height), 0, 0}, false};
  crop.box.width = size.width - crop.box.left;
  crop.box.height = size.height - crop.box.top;
  for (const bool scaled : {false, true}) {
    const image::CropOptions options{.side = 16, .scaled_decoding = scaled, .limits = kFewPixels};
    image::training_crop(as_image(file), crop, options);
    image::evaluation_crop(as_image(file), 20, options);
  }
}

// Every sample of an index can be read.
void read_samples(const image::SampleIndex& index) {
  const image::SampleFiles files(index);
  std::vector<std::byte> bytes;
  for (const image::Sample& sample : index.samples) {
    MLBENCH_CHECK(sample.label >= 0 && sample.label < index.labels, "a label of the index");
    files.read(sample, bytes);
  }
}

void take_image_tar(const std::string& input) {
  write(scratch() / "images.tar", input);
  read_samples(image::index_web_dataset({scratch() / "images.tar"}, 10));
}

std::string tar_header(std::string_view name, std::string_view octal_size) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  block.replace(100, 7, "0000644");
  block.replace(124, octal_size.size(), octal_size);
  block.replace(148, 8, 8, ' ');
  block[156] = '0';
  block.replace(257, 8, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  return block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

std::vector<std::string> image_tars() {
  const std::string end(1024, '\0'), label = tar_header("a/0.cls", "00000000001") + "7" + std::string(511, '\0');
  const std::string image = std::string("abc") + std::string(509, '\0');
  std::vector<std::string> seeds;
  for (const char* size : {"00000000003", "77777777777", "00000003000", "-1"}) {
    seeds.push_back(tar_header("a/0.jpg", size) + image + label + end);
  }
  seeds.push_back(tar_header("../0.jpg", "00000000003") + image + label + end);
  return seeds;
}

// A file, or the message of one record where the first byte is 0: no random change finds the checksums of records.
void take_image_records(const std::string& input) {
  std::string file = input;
  if (input.starts_with('\0')) {
    file.clear();
    tfrecord::append_record(file, std::string_view(input).substr(1));
  }
  write(scratch() / "images.tfrecord", file);
  read_samples(image::index_example_records({scratch() / "images.tfrecord"}, 10, 1));
}

std::vector<std::string> image_records() {
  const std::string message =
      "\x0A\x36\x0A\x18\x0A\x0D"
      "image/encoded"
      "\x12\x07\x0A\x05\x0A\x03"
      "abc"
      "\x0A\x1A\x0A\x11"
      "image/class/label"
      "\x12\x05\x1A\x03\x0A\x01\x05";
  std::string file;
  tfrecord::append_record(file, message);
  return {file, file.substr(0, 20), std::string(1, '\0') + message};
}

void take_image_list(const std::string& input) {
  const fs::path folder = scratch() / "images";
  fs::create_directories(folder);
  write(folder / "ILSVRC2012_val_00000001.JPEG", "a");
  write(folder / "val_0.JPEG", "b");
  write(scratch() / "list.txt", input);
  read_samples(image::index_listed_folder(folder, scratch() / "list.txt", {"n01", "n02"}));
  image::classes_of_list(scratch() / "list.txt");
}

// A manifest, or classes where the first byte is 0.
void take_image_shards(const std::string& input) {
  const fs::path folder = scratch() / "shards";
  fs::create_directories(folder);
  const bool classes = input.starts_with('\0');
  write(folder / image::kManifestFile,
        classes ? R"({"version": 1, "format": "tar", "samples": 0, "classes": 1, "first_label": 0, "shards": []})"
                : input);
  write(folder / image::kClassesFile, classes ? input.substr(1) : "n01");
  image::find_container({.paths = {folder}});
}

const Parser kParsers[] = {
    {"task",
     [](const std::string& input) {
       spec::parse_task({"fuzz.toml", input}, "", {});
     },
     [] {
       std::vector<std::string> seeds;
       for (const spec::TaskSource& task : spec::embedded_tasks()) seeds.emplace_back(task.text);
       for (std::string& seed : with_hard_toml(seeds.front())) seeds.push_back(std::move(seed));
       return seeds;
     }},
    {"data_description", [](const std::string& input) { dataset::parse_description("fuzz.toml", input); },
     []() -> std::vector<std::string> {
       return with_hard_toml(
           "name = \"x\"\ntitle = \"x\"\nformat = \"idx\"\nsample_shape = [1, 2, 2]\nclasses = 10\n"
           "[[splits]]\nname = \"train\"\nsamples = 2\nfiles = [{pattern = \"a\"}, {pattern = \"b\"}]\n");
     }},
    {"override",
     [](const std::string& input) {
       spec::parse_task(spec::embedded_tasks().front(), "", {spec::parse_override(input)});
     },
     []() -> std::vector<std::string> {
       return {"optimizer.lr=0.1",
               "model.name=\"resnet20\"",
               "goal.target=[1, 2]",
               "batch_size=true",
               "optimizer.lr=" + repeated("[", 70),
               "optimizer.lr=1\n" + repeated("a.", 70) + "a=1",
               repeated("a.", 70) + "=1"};
     }},
    {"run_spec", [](const std::string& input) { spec::run_spec_from_json(parse_json(input, inputs::kSpec)); },
     [] {
       spec::RunSpec run;
       run.name = "r-1";
       run.workers = 2;
       spec::set_task(run, spec::parse_task(spec::embedded_tasks().front(), "", {}), {});
       return with_hard_json(spec::to_json(run).dump());
     }},
    {"record",
     [](const std::string& input) {
       for (const char* name : {"run.json", "result_train_loss @ 0.json"}) {
         report::result_text(report::derive_result({{name, input}}));
       }
     },
     []() -> std::vector<std::string> {
       std::vector<std::string> seeds = with_hard_json(example_record().dump());
       seeds.emplace_back(R"([{"date": "2026-01-31T12:00:00.000Z", "value": "0.5", "cumulative": false}])");
       return seeds;
     }},
    {"notes", [](const std::string& input) { report::notes_from_json(parse_json(input, inputs::kNotes)); },
     [] { return with_hard_json(R"({"description": "a\n\u00e9", "expected": "80 %", "tags": ["x", "x", "y z"]})"); }},
    {"zip",
     [](const std::string& input) {
       report::read_zip(input, {100, 1 << 20, 4 << 20});
     },
     []() -> std::vector<std::string> {
       return {report::make_zip({{"run.json", "{}"}, {"result_fwd_pass @ 1.json", std::string(300, '[')}}, 1)};
     }},
    {"tracker_line", take_tracker_lines,
     []() -> std::vector<std::string> {
       return with_hard_json(
           R"({"sequence": 1, "time": 2.5, "step": 4, "epoch": 1, "values": {"loss": 1e3}, "text": {"a": "b"},)"
           R"( "goal": {"metric": "Prec@1", "split": "test", "target": 80, "value": 81}})");
     }},
    {"usage",
     [](const std::string& input) {
       if (const auto usage = guard::Usage::parse(input)) usage->text();
     },
     []() -> std::vector<std::string> {
       return {"1500000 4096", "1500000 4096 7 9223372036854775807", "0 0"};
     }},
    {"guard_word",  // as a socket has it
     [](const std::string& input) {
       const size_t blank = std::min(input.find(' '), input.size());
       const std::string_view word = std::string_view(input).substr(0, blank);
       const std::string_view text = std::string_view(input).substr(std::min(blank + 1, input.size()));
       parse_as<guard::RankWord, guard::HostWord, guard::AgentWord, guard::LaunchedEndWord, guard::PidWord,
                guard::EnergyWord, guard::ErrorWord, guard::EndWord, guard::PeersWord, guard::PutWord,
                guard::LaunchWord, guard::SignalWord>(word, text);
     },
     []() -> std::vector<std::string> {
       std::vector<std::string> seeds = {"rank 1", "end 137 9 oom", "put a/b\n0 3\nxyz", "pid 4711",
                                         "energy " + guard::as_one({"b00t", "RAPL: package-0", "7"})};
       for (const std::string& text : with_hard_json(guard::HostWord{.address = "10.0.0.1", .cores = {0}}.text())) {
         seeds.push_back("host " + text);
       }
       for (const char* word : {"agent ", "peers ", "launched-end ", "launch "}) {
         seeds.push_back(word + guard::as_one({"9", "MASTER_ADDR", "h1"}));
         seeds.push_back(word + guard::as_one({"1", "h1"}));
       }
       return seeds;
     }},
    {"usage_line",
     [](const std::string& input) {
       record::Points points;
       if (const auto line = record::parse_usage_line(input)) record::add_points(points, *line);
     },
     [] {
       return with_hard_json(record::to_text({1, 2.5, {{0.5, 1, 7, 9}, {std::nullopt, 2}}}));
     }},
    {"points", [](const std::string& input) { master::parse_points(input, 1); },
     []() -> std::vector<std::string> {
       return {
           "{\"run\": 1, \"rank\": 0, \"sequence\": 1, \"name\": \"loss\", \"step\": 3, \"value\": 0.5}\n"
           "{\"run\": 1, \"rank\": 0, \"sequence\": 2, \"values\": {\"a\": 1}, \"time\": \"2026-01-31T12:00:00Z\"}\n"};
     }},
    {"date",
     [](const std::string& input) {
       parse_time(input);
       master::parse_date(input);
     },
     []() -> std::vector<std::string> {
       return {"2026-01-31T12:00:00.123456Z", "2026-01-31 12:00:00+02:00", "2026-01-31T12:00", "1769860800.5"};
     }},
    {"form", [](const std::string& input) { net::http::parse_form(input); },
     []() -> std::vector<std::string> {
       return {"name=a+b&value=%31%2e5&date=x", "=&&a", "%"};
     }},
    {"target", [](const std::string& input) { net::http::parse_target(input); },
     []() -> std::vector<std::string> {
       return {"/api/v1/runs/r-1/logs/0?offset=3&limit=%35", "/a%2fb/../c//"};
     }},
    {"wire",
     [](const std::string& input) {
       net::wire::FrameReader reader;
       for (size_t at = 0; at < input.size(); at += 7) {
         reader.append(std::string_view(input).substr(at, 7));
         while (const auto message = reader.next(4096)) {
           net::wire::integer_in(*message, "id");
           net::wire::text_in(*message, "key");
           net::wire::bytes_in(*message, "value");
         }
       }
     },
     []() -> std::vector<std::string> {
       return {net::wire::encode({{"op", "get"}, {"id", 1}, {"key", "k"}, {"value", net::wire::to_bytes("v")}})};
     }},
    {"spool",
     [](const std::string& input) {
       const size_t cut = std::min(input.size(), two_steps().size());
       fs::create_directories(scratch() / "spool");
       write(steps_path(scratch(), 1, 0), std::string_view(input).substr(0, cut));
       write(events_path(scratch(), 1, 0), std::string_view(input).substr(cut));
       record::derive_clocks({record::read_spool(scratch(), 1, 0)});
     },
     []() -> std::vector<std::string> {
       return {two_steps() + "{\"event\": \"epoch\", \"sequence\": 0, \"epoch\": 1}\n"};
     }},
    {"timeline",
     [](const std::string& input) {
       fs::create_directories(scratch() / "timeline");
       write(timeline_path(scratch(), 1, 0), input);
       for (const record::Span& span : record::read_timeline(scratch(), 1, 0).spans) Json(span.name).dump();
       record::Record record;
       record.workers = 2;
       report::TimelineRun run = report::read_timeline_run(scratch(), record);
       const Json summary = report::summarize_timeline(run);
       report::timeline_summary_text(summary);
       report::TraceStream trace(std::move(run), summary);
       while (!trace.next().empty()) {
       }
     },
     []() -> std::vector<std::string> { return {two_spans()}; }},
    {"trace",
     [](const std::string& input) {
       write(scratch() / "out.json", input);
       report::timeline_summary_text(report::read_trace_summary(scratch() / "out.json"));
     },
     [] {
       const std::string summary =
           R"({"name": "r", "task": null, "backend": "gloo", "workers": 2, "labels": ["open"], )"
           R"("verdict": {"kind": "skew", "text": "words"}, "ranks": [], "pop": {"parallel_efficiency": 1, )"
           R"("load_balance": 1, "communication_efficiency": 1, "serialization_efficiency": null, )"
           R"("transfer_efficiency": 1}, "operations": [{"name": "all_reduce", "bytes": 8, "count": 2, "wait_s": 1, )"
           R"("transfer_s": 1, "verdict": "mixed", "worst": {"wait_s": 1, "step": 1, "rank": 0}}], )"
           R"("clocks": [{"bound_us": 1, "drift_ppm": 2}], "notes": ["words"]})";
       std::vector<std::string> seeds = with_hard_json(summary);
       for (std::string& seed : seeds) {
         seed = R"({"displayTimeUnit":"ms","otherData":{"format":"mlbench timeline","summary":)" + seed + "},\n";
       }
       return seeds;
     }},
    {"json",
     [](const std::string& input) {
       const Json value = parse_json(input, inputs::kJsonBody);
       MLBENCH_CHECK(depth_of(value) <= kDeepestNesting, "deeper than the limit");
     },
     [] { return with_hard_json(R"({"a": [1, 2.5, true, null, "b\\\"["], "c": {"d": {}}})"); }},
    {"toml",
     [](const std::string& input) {
       // What the parser takes for white space before a header, the look before it may not.
       const toml::table table = spec::parse_toml(input, "fuzz.toml", inputs::kTaskFile);
       MLBENCH_CHECK(depth_of(table) <= 2 * kDeepestNesting + 2, "deeper than the limit");
     },
     [] { return with_hard_toml("a = 1\nb.c = [1.5, {d = 2}]\n[e.f]\n[[e.g]]\n"); }},
    {"event", take_event,
     []() -> std::vector<std::string> {
       std::vector<std::string> seeds;
       for (const char* good :
            {R"({"event": "begin", "sequence": 0, "end_ns": 1, "step": 0, "effective": {}, "versions": {"a": "b"}})",
             R"({"event": "evaluation", "end_ns": 5, "step": 2, "train_ns": 4, "split": "test", "metrics": {"x": 1}})",
             R"({"event": "epoch", "epoch": 1, "train_loss": 0.5, "metrics": {}, "step": 3, "duration_ns": 7})",
             R"({"event": "goal", "value": 1, "epoch": 2, "step": 3})",
             R"({"event": "end", "reason": "goal", "weights_sha256": "ab", "peak_rss": 5})",
             R"({"event": "prepared", "prepare_s": 1.5, "data": {"name": "x"}})"}) {
         for (std::string& seed : with_hard_json(good)) seeds.push_back(std::move(seed));
       }
       return seeds;
     }},
    {"run_record", take_record, [] { return with_hard_json(example_record().dump()); }},
    {"progress", take_progress,
     [] {
       record::RunProgress progress;
       progress.segments.emplace_back();
       progress.failure.emplace();
       return with_hard_json(supervise::to_json(progress).dump());
     }},
    {"archive",
     [](const std::string& input) {
       report::read_run_archive({{"run.json", input}}, "fuzz");
     },
     [] { return with_hard_json(example_record().dump()); }},
    {"series",
     [](const std::string& input) {
       std::vector<report::ZipMember> members;
       for (const char* name :
            {"CumulativeTrainTimeEpoch", "train_loss", "val_global_Prec@1", "TotalCumulativeTrainTime"}) {
         members.push_back({fmt::format("result_{} @ 0.json", name), input});
       }
       report::read_run_archive(members, "fuzz");
     },
     []() -> std::vector<std::string> {
       return {R"([{"date": "2026-01-31T12:00:00.000Z", "value": "0.5", "cumulative": false},)"
               R"( {"date": "2026-01-31T12:00:10.000Z", "value": "9.5", "cumulative": false}])",
               repeated("[", 70)};
     }},
    {"prices", [](const std::string& input) { report::prices_from_json(parse_json(input, inputs::kPrices)); },
     [] { return with_hard_json(R"({"currency": "$", "prices": [{"name": "x", "per_hour": 2, "source": "y"}]})"); }},
    {"predictions",
     [](const std::string& input) {
       write(scratch() / "predictions", input);
       const std::vector<int64_t> labels = {0, 1};
       metrics::evaluate(metrics::read_predictions(scratch() / "predictions", {2, 2, 2}), labels, {"Prec@1"});
     },
     []() -> std::vector<std::string> {
       std::vector<std::string> seeds = with_hard_json(R"({"index": 0, "label": 1})");
       for (std::string& seed : seeds) seed += "\n{\"index\": 1, \"label\": 0}\n";
       seeds.emplace_back("{\"index\": 0, \"scores\": [0.5, 1e38]}\n{\"index\": 1, \"scores\": [0, 1]}\n");
       return seeds;
     }},
    {"translations",
     [](const std::string& input) {
       write(scratch() / "translations", input);
       write(scratch() / "references", "Der Hund bellt um 7.45 Uhr.\n\"Ja\", sagte er.\n");
       const std::vector<fs::path> references = {scratch() / "references"};
       for (const metrics::Tokenizer tokenizer : {metrics::Tokenizer::k13a, metrics::Tokenizer::kIntl}) {
         metrics::score_translations(
             {scratch() / "translations"}, references,
             {.metrics = metrics::text_metric_names(), .metric = {.lowercase = true, .tokenizer = tokenizer}});
       }
     },
     []() -> std::vector<std::string> {
       return {"Der Hund bellte um 7:45.\n\n", "&quot;Ja&amp;lt;, \u201eÄrger\u201c\u3000ΣΑΣ\r\n-1,5 <skipped>",
               "\xE4\n\n"};
     }},
    {"references", take_references,
     []() -> std::vector<std::string> {
       return {as_two_files("Der Hund bellt.\n\n", "Ein Hund bellt .\n  \n"), as_two_files("\xE2\x82\n", "\u20AC\n"),
               as_two_files("a\n", "a\nb"), as_two_files("", "")};
     }},
    {"safetensors",
     [](const std::string& input) {
       write(scratch() / "tensors", input);
       checkpoint::read_safetensors(scratch() / "tensors");
     },
     tensor_files},
    {"checkpoint",
     [](const std::string& input) {
       write(scratch() / "state.json", input);
       write(scratch() / "model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
       checkpoint::read_checkpoint(scratch());
     },
     []() -> std::vector<std::string> {
       const fs::path made = checkpoint::write_checkpoint(
           scratch() / "made", 3, {{}, {{"a", int64_t{1}}, {"b", 0.5}, {"c", std::string("text")}}});
       return with_hard_json(read_json_file(made / "state.json", inputs::kCheckpointState).dump());
     }},
    {"gzip",
     [](const std::string& input) {
       constexpr size_t kMost = 100'000;
       MLBENCH_CHECK(net::http::gunzip(input, kMost).text.size() <= kMost, "more than the limit");
     },
     []() -> std::vector<std::string> {
       return {std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0", 25)};
     }},
    {"listen", [](const std::string& input) { master::parse_listen(input); },
     []() -> std::vector<std::string> {
       return {"127.0.0.1:8080", "[::1]:0", ":", "host:99999"};
     }},
    {"launch", take_variables,
     []() -> std::vector<std::string> {
       return {"RANK=1\nWORLD_SIZE=2\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=a\nMASTER_PORT=1\n",
               "SLURM_PROCID=5\nSLURM_NTASKS=8\nSLURM_LOCALID=1\nSLURM_NODEID=1\n"
               "SLURM_STEP_TASKS_PER_NODE=4(x1000000000),2\nSLURM_JOB_NODELIST=n[1-3,007],g\n",
               "OMPI_COMM_WORLD_RANK=99999999999\nOMPI_COMM_WORLD_SIZE=-1\n"};
     }},
    {"slurm",
     [](const std::string& input) {
       exec::slurm::parse_submission(input);
       if (const auto job = exec::slurm::parse_job(input)) exec::slurm::allocation_of({"1", ""}, *job);
       to_json(exec::ClusterNodes{exec::slurm::parse_nodes(input)});
     },
     []() -> std::vector<std::string> {
       return {
           "JobId=12 JobName=a b JobState=RUNNING Reason=None Restarts=1 NodeList=n[1-4] NumNodes=4 NumCPUs=8 "
           "TRES=cpu=8,mem=1G,node=4,billing=8 Partition=test\n",
           "12;north\n", "JobId=1 JobState=PENDING Restarts=99999999999999999999 =x ==", repeated("a=", 10000),
           "NodeName=n1 CPUEfctv=2 CPUTot=4 Gres=gpu:a100:4(S:0-1),gpu:99999999999999999999,gpu "
           "RealMemory=9223372036854775807 "
           "State=MIXED+DRAIN* Reason=a b\nNodeName=n2 State=+\n"};
     }},
    {"host_list", [](const std::string& input) { spec::parse_hosts(spec::hosts_of_file(input, "fuzz")); },
     []() -> std::vector<std::string> {
       return {"a.example slots=2 # text\nb\n\n[::1]:4\n", "a:99999999999999999999\n", "-oProxyCommand=x\n",
               "a slots=-1 slots=2\n", repeated("a:1,", 3000)};
     }},
    {"clusters",
     [](const std::string& input) {
       write(scratch() / "clusters.toml", input);
       cli::current_cluster(scratch());
     },
     []() -> std::vector<std::string> {
       return {
           "current = \"lab\"\n[clusters.lab]\nprovider = \"master\"\nurl = \"https://lab.example:8443\"\n"
           "token_file = \"/a/token\"\n",
           "[clusters.farm]\nprovider = \"hosts\"\nhosts = \"a:2,b:2\"\nnodes = 99999999999999999999\n",
           "current = 1\n[clusters]\n\"../x\" = {}\n"};
     }},
    {"clusters_ini", [](const std::string& input) { cli::clusters_of_ini(input); },
     []() -> std::vector<std::string> {
       return {
           "[general]\nprovider = gke\n[gke]\ncurrent-cluster = a-3\n[gke.a-3]\nname = a-3\nzone = b\nproject = c\n",
           "[kind.x]\ncluster\n=\n[", "%(x)s = 1\n"};
     }},
    {"yaml", [](const std::string& input) { exec::kubernetes::parse_yaml(input, inputs::kPodOverlay, "fuzz.yaml"); },
     []() -> std::vector<std::string> {
       return {"a: [1, 'x', {b: null}]\nc: &c [x, x]\nd: [*c, *c]\n", repeated("[", 70),
               "current-context: a\nusers:\n- name: c\n  user: {token: !!str 1}\n", "a: |\n  b\n---\n? c\n: d\n"};
     }},
    {"pod",
     [](const std::string& input) {
       if (const auto pod = try_parse_json(input, inputs::kKubernetesAnswer)) {
         exec::kubernetes::end_of(exec::kubernetes::pod_view(*pod));
         to_json(exec::ClusterNodes{{exec::kubernetes::node_of(*pod)}});
       }
     },
     []() -> std::vector<std::string> {
       return {
           R"({"metadata": {"name": "p", "labels": {"batch.kubernetes.io/job-completion-index": "1"}},
                  "status": {"phase": "Failed", "containerStatuses": [{"name": "rank", "state":
                  {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}})",
           R"({"metadata": {"name": "n"}, "spec": {"unschedulable": true, "taints": [{"key": "a", "effect": "NoSchedule"}]},
                  "status": {"allocatable": {"cpu": "3920m", "memory": "16Gi", "nvidia.com/gpu": "1e999"},
                  "conditions": [{"type": "Ready", "status": "True"}]}})",
           R"({"status": {"conditions": [1, {"type": "DisruptionTarget", "status": "True"}]}})"};
     }},
    {"node_list", [](const std::string& input) { net::first_host_of_nodelist(input); },
     []() -> std::vector<std::string> {
       return {"n[1-3,7],gpu05", "a[000-999]b[1-2]", "n[" + repeated("[", 70), "n[9999999999999999999-1]"};
     }},
    {"machine",
     [](const std::string& input) {
       master::parse_gpu_line(input, 1);
       parse_memory(input);
       parse_network_bytes(input);
     },
     []() -> std::vector<std::string> {
       return {"0, NVIDIA H100 80GB HBM3, 81559, 37, 1024", "MemTotal: 9223372036854775807 kB\nMemAvailable: 1 kB\n",
               "eth0: 1 2 3 4 5 6 7 8 9\nlo: 1e999\n"};
     }},
    {"idx", parse_data<dataset::read_idx>,
     []() -> std::vector<std::string> {
       return {std::string("\x18\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02", 17) + "abcdefgh" +
               std::string("\0\0\x08\x01\0\0\0\x02\x01\x02", 10)};
     }},
    {"cifar", parse_data<dataset::read_cifar>,
     []() -> std::vector<std::string> { return {std::string("\0\x01wxyz\x02stuv", 11)}; }},
    {"cifar_100", parse_data<dataset::read_cifar100>,
     []() -> std::vector<std::string> { return {std::string("\0\x04\0wxyz\x01\x01stuv", 13)}; }},
    {"libsvm", parse_data<dataset::read_libsvm>,
     []() -> std::vector<std::string> { return {std::string("\0", 1) + "1 1:0.5 4:-2e3\n-1 2:1 # text\n"}; }},
    {"tensorpack_row",
     [](const std::string& input) {
       std::vector<float> features(2);
       dataset::read_tensorpack_row(input, features);
     },
     tensorpack_rows},
    {"text_pairs",
     [](const std::string& input) {
       write(scratch() / "pairs.tsv", input);
       dataset::text::PairReader reader({scratch() / "pairs.tsv"});
       const dataset::text::MosesTokenizer english("en"), german("de");
       const dataset::text::MosesDetokenizer back("de");
       for (dataset::text::LinePair pair; reader.next(pair);) {
         const std::string source = english.tokenize(pair.source), target = german.tokenize(pair.target);
         dataset::text::judge_pair({}, source, target);
         back.detokenize(target);
       }
     },
     []() -> std::vector<std::string> {
       return {"Mr. Smith's dog... (\"x\")\tz.B. \u201Eso\u201C 1,5 %.'\n\t\n",
               "\xFF\xE4.\u6771\u4EAC''``\t&amp;lt; @-@ &#91;\r\n"};
     }},
    {"parallel_text", take_parallel_lines,
     []() -> std::vector<std::string> {
       return {as_two_files("A dog.\r\n\n", "Ein Hund.\n\n"), as_two_files("a\nb", "a\n"),
               as_two_files("\xFF\n", "\0\n")};
     }},
    {"packed_text", take_packed_text,
     []() -> std::vector<std::string> {
       return {std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0", 25),
               "BZh91AY&SY", std::string("\xFD\x37zXZ\0\0\x04", 8), "plain\ntext"};
     }},
    {"words_text", take_words,
     []() -> std::vector<std::string> {
       return {" = Title = \n\n a <unk> b a\n<eos> c d e f g h i j k\n", "\xFF\n\x1c\x85\u3000x\n", "\n"};
     }},
    {"token_file", take_token_file, token_files},
    {"text_facts", take_text_facts,
     [] {
       return with_hard_json(R"({"version": 1, "name": "x", "key": "k", "fingerprint": "f", "splits_sha256": "s",)"
                             R"( "splits": {"train": {"lines": 2, "kept": 1}}})");
     }},
    {"vocabulary",
     [](const std::string& input) {
       write(scratch() / "vocabulary", input);
       auto vocabulary = dataset::text::TextVocabulary::load(scratch() / "vocabulary");
       std::vector<int32_t> ids;
       vocabulary.encode("a b\u20AC aab &apos;", ids);
       vocabulary.text(std::vector<int64_t>{2, 4, 5, 6, -1, int64_t{1} << 40, 3});
     },
     []() -> std::vector<std::string> {
       std::vector<std::string> seeds;
       for (const char* kind : {"words", "pieces", "marked", "subwords"}) {
         const std::string head = fmt::format(R"({{"mlbench_vocabulary": 1, "kind": "{}", "size": 30, )"
                                              R"("source_language": "en", "target_language": "de"}})",
                                              kind);
         seeds.push_back(head + "\n<pad>\n<unk>\n<s>\n</s>\na\n\u2581a\n\\\n_\nu\n;\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
         for (std::string& hard : with_hard_json(head)) seeds.push_back(std::move(hard) + "\na\nb\nc\nd\n");
       }
       return seeds;
     }},
    {"subwords",
     [](const std::string& input) {
       write(scratch() / "dictionary", input);
       const dataset::text::SubwordDictionary dictionary(
           dataset::text::read_dictionary(scratch() / "dictionary").subwords);
       const std::vector<int32_t> ids = dictionary.encode("a_\\b \u20AC\u6771 12; c");
       dictionary.decode(std::vector<int64_t>(ids.begin(), ids.end()));
     },
     []() -> std::vector<std::string> {
       return {"'<pad>_'\n'<EOS>_'\n'\\'\n'_'\n'u'\n';'\n'0'\n'1'\n'2'\n'3'\n'4'\n'5'\n'6'\n'7'\n'8'\n'9'\n'a_'\n",
               "'\\99999999999999;_'\n"};
     }},
    {"marked_pairs", parse_ready_pairs<dataset::text::make_marked_pairs>,
     []() -> std::vector<std::string> {
       return {std::string(1, '\0') + bytes_of<int64_t>({1, 6, 0, 3, 3, 2, 56}) + bytes_of<int16_t>({2, 4, 3, 5, 3, 0}),
               std::string(1, '\0') + bytes_of<int64_t>({int64_t{1} << 40, 6, 0, 3, 3, 2, 56})};
     }},
    {"indexed_pairs", parse_ready_pairs<dataset::text::make_indexed_pairs>,
     []() -> std::vector<std::string> {
       return {std::string(1, char(88)) + std::string("TNTIDX\0\0", 8) +
               bytes_of<int64_t>({1, 4, 4, 1, 1, 0, 1, 0, 2, 2}) + bytes_of<int32_t>({3, 2})};
     }},
    {"image", take_image, image_files},
    {"image_crop", take_image_crop,
     [] {
       std::vector<std::string> seeds = image_files();
       for (std::string& seed : seeds) seed.insert(0, "@@");
       return seeds;
     }},
    {"image_tar", take_image_tar, image_tars},
    {"image_records", take_image_records, image_records},
    {"image_list", take_image_list,
     []() -> std::vector<std::string> {
       return {"n01\n", "val_0.JPEG\tn02\t0\t3\n", "ILSVRC2012_val_00000001.JPEG 0\r\nval_0.JPEG 1", "../list.txt 0\n"};
     }},
    {"image_shards", take_image_shards,
     []() -> std::vector<std::string> {
       return {R"({"version": 1, "format": "tar", "samples": 2, "classes": 1, "first_label": 0, "seed": 5,)"
               R"( "shards": [{"file": "a-00000-of-00001.tar", "samples": 2, "bytes": 9, "sha256": "00"}]})",
               std::string("\0n01\r\nn02\n", 10)};
     }},
    {"object_list",
     [](const std::string& input) {
       objects::parse_refusal(input);
       for (const objects::Object& object : objects::parse_list_page("s3://fuzz", input).objects) {
         objects::check_key("s3://fuzz", object.key);
         MLBENCH_CHECK(object.bytes >= 0 && object.etag.find_first_of("\"\r\n") == std::string::npos, "an object");
       }
     },
     []() -> std::vector<std::string> {
       return {
           "<ListBucketResult><Contents><Key>a/&#228;</Key><ETag>&quot;0&quot;</ETag><Size>9223372036854775807</Size>"
           "</Contents><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
           "</ListBucketResult>",
           "<Error><Code>NoSuchKey</Code><Message>m</Message><Region>r</Region></Error>",
           "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", repeated("<a>", 70) + repeated("</a>", 70)};
     }},
};

}  // namespace

std::span<const Parser> parsers() { return kParsers; }

const Parser* find_parser(const std::string& name) {
  for (const Parser& parser : kParsers) {
    if (parser.name == name) return &parser;
  }
  return nullptr;
}

void try_parser(const Parser& parser, const std::string& input) {
  try {
    parser.parse(input);
  } catch (const UserError&) {
  } catch (const IoError&) {
  } catch (const CommError&) {  // ProtocolError, too
  } catch (const master::HttpError&) {
  }
}

}  // namespace mlbench
