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
//   rank-R_cpu.json, rank-R_memory.json  what rank R and all that it started used, as of MLBench's pods: cores; MiB
//   official_result.txt                  when the goal was reached
//   notes.json                           what was said about the run (notes.h), where something was
//   run.json                             the record
//
// Each result is an array of {date, value, cumulative}: date in UTC with milliseconds, value as text.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"

namespace mlbench::report {

struct ZipMember {
  std::string name;
  std::string content;
};

// A member whose content is made as it is asked for: pieces of some 64 KiB, "" at the end. A copy of `next` begins
// where the original is.
struct ZipPart {
  std::string name;
  std::function<std::string()> next;
};

struct SeriesPoint {
  int64_t unix_us = 0;
  double value = 0;
};
using SeriesByName = std::map<std::string, std::vector<SeriesPoint>>;

// What the archive's results are made of: points by metric name ("train_loss @ 0"), from the run's spools.
SeriesByName run_series(const std::filesystem::path& run_dir, const record::Record& record);

// A value of a series as the archive writes it: the shortest text that reads back as the same number.
std::string value_text(double value);

// What the zip of a run holds, in a fixed order. Reads the run's spools and keeps 16 bytes for each point.
struct Download {
  std::vector<ZipPart> parts;
  size_t held_bytes = 0;
};
Download download_of(const std::filesystem::path& run_dir, const record::Record& record);

// A member of this content.
ZipPart text_part(std::string name, std::string content);
// A JSON array of `count` values as Json::dump(4) writes it, piece by piece; `value` gives their texts of that form.
std::function<std::string()> json_list(size_t count, std::function<std::string(size_t)> value);
// {"date", "value", "cumulative"} as a value of such a list.
std::string point_text(const std::string& date, const std::string& value, bool cumulative);

// "85% Top 1 Validation Accuracy reached in 41.234 seconds, Compute: ... seconds, ..."; "" without a goal reached, and
// of a run that went on past its goal, whose clocks are not those of the goal. Of a custom run what its script said.
std::string official_result(const record::Record& record);

// The bytes of an archive (deflated; member times are `mtime`, seconds since the epoch, so that equal input gives equal
// bytes), made as they are asked for.
class ZipStream {
 public:
  ZipStream(std::vector<ZipPart> parts, int64_t mtime);
  ~ZipStream();
  ZipStream(ZipStream&&) noexcept;
  ZipStream& operator=(ZipStream&&) noexcept;

  // At least 64 KiB, or what is left; "" at the end.
  std::string next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same at once.
std::string make_zip(const std::vector<ZipMember>& members, int64_t mtime);

// Writes the download of a run: `file` is the old or the new archive, never half of one.
void write_download(const std::filesystem::path& run_dir, const record::Record& record,
                    const std::filesystem::path& file);

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
