#pragma once

// The download of a run: a zip in the layout of MLBench's dashboard (names and JSON keys of the existing archives, so
// that their tools read it), plus `run.json`.
//
//   result_train_loss @ R.json           every rank: mean loss over about 25 steps
//   result_KIND @ R.json                 every rank: seconds per epoch and step kind (fwd_pass, agg, ...), and
//   result_CumulativeTrainTimeEpoch @ R  their sum
//   result_train_METRIC @ 0.json         per epoch
//   result_val_global_METRIC @ 0.json    per evaluation on test data; result_val_global_loss @ 0.json, too
//   result_global_cum_KIND @ 0.json      rank 0's seconds over the whole run
//   result_TotalCumulativeTrainTime @ 0  rank 0's train_legacy clock
//   official_result.txt                  when the goal was reached
//   run.json                             the record
//
// Each result is an array of {date, value, cumulative}: date in UTC with milliseconds, value as text.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

struct ZipMember {
  std::string name;
  std::string content;
};

struct SeriesPoint {
  int64_t unix_us = 0;
  std::string value;
};

// What the archive's results are made of: points by metric name ("train_loss @ 0"), from the run's spools.
std::map<std::string, std::vector<SeriesPoint>> run_series(const std::filesystem::path& run_dir, const Json& record);

// What the zip of a run holds, in a fixed order; reads the run's spools.
std::vector<ZipMember> download_members(const std::filesystem::path& run_dir, const Json& record);

// "85% Top 1 Validation Accuracy reached in 41.234 seconds, Compute: ... seconds, ..."; "" without a goal reached.
std::string official_result(const Json& record);

// The archive's bytes (deflated; member times are `mtime`, seconds since the epoch, so that equal input gives equal
// bytes).
std::string make_zip(const std::vector<ZipMember>& members, int64_t mtime);

// Writes the download of a run: `file` is the old or the new archive, never half of one.
void write_download(const std::filesystem::path& run_dir, const Json& record, const std::filesystem::path& file);

// How much of an archive that may be anybody's is read. Archives of long runs have some 10 MB in some 300 members.
struct ZipLimits {
  size_t members = 10'000;
  size_t member_bytes = size_t{32} << 20;  // unpacked
  size_t total_bytes = size_t{256} << 20;  // unpacked
};

// All members of a zip, in the order of its directory. UserError when it is damaged, cut or no zip, beyond the limits,
// or holds what no archive of this layout does: folders, links, encrypted members, two members of one name, names that
// mean anything in a path.
std::vector<ZipMember> read_zip(const std::string& archive, const ZipLimits& limits = {});

}  // namespace mlbench::report
