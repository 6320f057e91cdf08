#pragma once

// Records and spools for the tests of this folder.

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/record.h"
#include "mlbench/record/step_reader.h"
#include "mlbench/report/archive/zip.h"

namespace mlbench::report {

// A record as JSON, which tests write and change. It converts to a Record as one that was read.
struct RecordJson : Json {
  using Json::Json;
  const Json& json() const { return *this; }        // a copy of a RecordJson as Json would be a list
  RecordJson(Json json) : Json(std::move(json)) {}  // NOLINT
  operator record::Record() const { return record::record_from_json(*this, "the test's"); }  // NOLINT
};

inline RecordJson make_record(const std::string& name, int64_t workers, double train_s, double samples_per_s,
                              bool reached) {
  return Json{
      {"schema_version", 1},
      {"id", workers},
      {"name", name},
      {"created_at", "2026-01-31T12:00:00.000000Z"},
      {"started_at", "2026-01-31T12:00:01.000000Z"},
      {"finished_at", "2026-01-31T12:01:00.500000Z"},
      {"executor", "local"},
      {"task", "fashion-mnist"},
      {"rules", nullptr},
      {"variant", nullptr},
      {"division", "closed"},
      {"overrides", Json::array()},
      {"framework", "torch"},
      {"backend", "gloo"},
      {"workers", workers},
      {"threads_per_worker", 1},
      {"oversubscribed", false},
      {"seed", 42},
      {"exit_codes", Json(std::vector<int>(static_cast<size_t>(workers), 0))},
      {"limits", {{"light", true}}},
      {"notes", Json::array()},
      {"state", "finished"},
      {"failure", nullptr},
      {"segments", Json::array({{{"index", 1}, {"start_step", 0}}})},
      {"data", {{"name", "fashion-mnist"}, {"official", true}, {"synthetic", false}}},
      {"goal",
       {{"metric", "Prec@1"},
        {"split", "test"},
        {"target", 85.0},
        {"higher_is_better", true},
        {"reached", reached},
        {"value", 85.25},
        {"epoch", 1.25},
        {"step", 750},
        {"train_s", train_s}}},
      {"clocks", {{"wall_s", train_s + 5}, {"prepare_s", 0.5}, {"train_s", train_s}, {"train_legacy_s", train_s - 1}}},
      {"steps_s",
       {{"batch_load", 1.0},
        {"fwd_pass", 10.0},
        {"comp_loss", 0.0},
        {"backprop", 20.5},
        {"agg", train_s / 4},
        {"opt_step", 2.0},
        {"comp_metrics", 0.25}}},
      {"throughput",
       {{"samples_per_s", samples_per_s}, {"median_samples_per_s", samples_per_s}, {"peak_rss", 512000000}}},
      {"evaluations", Json::array({{{"step", 150},
                                    {"epoch", 0.25},
                                    {"samples", 15000},
                                    {"split", "test"},
                                    {"train_s", train_s / 5},
                                    {"metrics", {{"Prec@1", 78.5}, {"loss", 0.61234}}}},
                                   {{"step", 750},
                                    {"epoch", 1.25},
                                    {"samples", 75000},
                                    {"split", "test"},
                                    {"train_s", train_s},
                                    {"metrics", {{"Prec@1", 85.25}, {"loss", 0.41}}}}})},
      {"weights_sha256", "abc123"}};
}

inline record::StepRecord make_step(uint64_t first, uint32_t count, uint32_t epoch, double loss, int64_t step_ns,
                                    int64_t end_ns) {
  record::StepRecord record;
  record.first_step = first;
  record.count = count;
  record.epoch = epoch;
  record.samples = uint64_t{100} * count;
  record.loss_sum = loss * static_cast<double>(record.samples);
  record.end_ns = end_ns;
  record.kinds_ns[static_cast<size_t>(record::StepKind::kForward)] = step_ns * static_cast<int64_t>(count);
  return record;
}

inline void append(const std::filesystem::path& file, const void* data, size_t size) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary | std::ios::app).write(static_cast<const char*>(data), std::streamsize(size));
}

inline void start_spool(const std::filesystem::path& run_dir, int64_t segment, int64_t rank, int64_t later_us = 0) {
  record::SpoolHeader header;
  header.run_id = 7;
  header.segment = static_cast<uint32_t>(segment);
  header.rank = static_cast<uint32_t>(rank);
  header.start_wall_us = 1769860800'000'000 + later_us;  // 2026-01-31T12:00:00Z
  const std::string bytes = record::encode_header(header);
  append(steps_path(run_dir, segment, rank), bytes.data(), bytes.size());
}

inline void append_step(const std::filesystem::path& run_dir, int64_t segment, int64_t rank, record::StepRecord step) {
  const auto file = steps_path(run_dir, segment, rank);
  record::StepReader written(run_dir, segment, rank);
  step.sequence = 0;
  while (written.next()) ++step.sequence;
  std::string bytes;
  record::append_record(bytes, step);
  append(file, bytes.data(), bytes.size());
}

inline void append_event(const std::filesystem::path& run_dir, int64_t segment, int64_t rank, const Json& event) {
  const std::string line = event.dump() + "\n";
  append(events_path(run_dir, segment, rank), line.data(), line.size());
}

// All members of a run's download (archive/zip.h) with their content.
inline std::vector<ZipMember> download_members(const std::filesystem::path& run_dir, const record::Record& record) {
  std::vector<ZipMember> members;
  for (const ZipPart& part : download_of(run_dir, record).parts) {
    ZipMember& member = members.emplace_back(ZipMember{part.name, ""});
    auto next = part.next;
    for (std::string piece; !(piece = next()).empty();) member.content += piece;
  }
  return members;
}

}  // namespace mlbench::report
