#pragma once

// The download of a run: a zip in the layout of MLBench's dashboard, plus `run.json`. Names and JSON keys are those of
// the dashboard's archives, so that tools for these read it.
//
//   result_train_loss @ R.json           every rank: mean loss over about 25 steps
//   result_KIND @ R.json                 every rank: seconds per epoch and step kind (fwd_pass, agg, ...), and
//   result_CumulativeTrainTimeEpoch @ R  their sum
//   result_train_METRIC @ 0.json         per epoch
//   result_val_global_METRIC @ 0.json    per evaluation on test data; result_val_global_loss @ 0.json, too
//   result_global_cum_KIND @ 0.json      rank 0's seconds over the whole run
//   result_TotalCumulativeTrainTime @ 0  rank 0's train_legacy clock
//   rank-R_cpu.json, rank-R_memory.json  what rank R and its child processes used: cores; MiB
//   rank-R_network_in.json, ..._out.json traffic of rank R's pod or host: MiB/s
//   official_result.txt                  MLBench's result, where the goal was reached
//   notes.json                           what people said about the run (notes.h), where they said something
//   rank-R.seg-S.out, rank-R.seg-S.err   what rank R wrote, and supervisor.log; of a run that goes on, so far. A log
//                                        without bytes is left out
//   run.json                             the record
//
// Each series is an array of {date, value, cumulative}: the date in UTC with milliseconds, the value as text.

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

// A member whose content is made on demand: each call of `next` gives a piece of some 64 KiB, and "" at the end. A copy
// of `next` goes on from where the original is.
struct ZipPart {
  std::string name;
  std::function<std::string()> next;
};

struct SeriesPoint {
  int64_t unix_us = 0;
  double value = 0;
};
using SeriesByName = std::map<std::string, std::vector<SeriesPoint>>;

// Reads the series of a run's archive from its spools: points by metric name ("train_loss @ 0").
SeriesByName run_series(const std::filesystem::path& run_dir, const record::Record& record);

// A value as the archive writes it: the shortest text that reads back as the same number.
std::string value_text(double value);

// The members of a run's zip in a fixed order.
struct Download {
  std::vector<ZipPart> parts;
  size_t held_bytes = 0;  // about how many bytes `parts` hold
};
// Reads the run's spools and keeps 16 bytes for each point. Logs are read when their parts are.
Download download_of(const std::filesystem::path& run_dir, const record::Record& record);

// A member with the content `content`.
ZipPart text_part(std::string name, std::string content);
// A JSON array of `count` values as Json::dump(4) writes it, piece by piece. `value` gives the text of the value at an
// index, indented as inside such an array.
std::function<std::string()> json_list(size_t count, std::function<std::string(size_t)> value);
// The text of {"date", "value", "cumulative"} as a value of json_list().
std::string point_text(const std::string& date, const std::string& value, bool cumulative);

// MLBench's result, "85% Top 1 Validation Accuracy reached in 41.234 seconds, Compute: ... seconds, ...". It is ""
// where the goal was not reached, and for a run that went on past its goal, whose clocks are later than the goal. For a
// custom run it is what its script said.
std::string official_result(const record::Record& record);

// Makes the bytes of a deflated zip on demand. All members have the time `mtime` (Unix time in seconds), so that equal
// input gives equal bytes. Throws IoError where the zip cannot be made.
class ZipStream {
 public:
  ZipStream(std::vector<ZipPart> parts, int64_t mtime);
  ~ZipStream();
  ZipStream(ZipStream&&) noexcept;
  ZipStream& operator=(ZipStream&&) noexcept;

  // The next piece: at least 64 KiB, or what is left; "" at the end.
  std::string next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// All bytes of such a zip at once.
std::string make_zip(const std::vector<ZipMember>& members, int64_t mtime);

// Writes the download of a run. At any moment `file` is the old or the complete new archive.
void write_download(const std::filesystem::path& run_dir, const record::Record& record,
                    const std::filesystem::path& file);

// Limits for reading an archive that is not trusted. Archives of long runs have some 10 MB in some 300 members.
struct ZipLimits {
  size_t members = 10'000;
  size_t member_bytes = size_t{32} << 20;  // unpacked
  size_t total_bytes = size_t{256} << 20;  // unpacked
};

// All members of the zip whose bytes are `archive`, in the order of its directory, except logs (../logs.h), from which
// nothing is derived, and which may be large. Throws UserError when it is damaged,
// cut or no zip, or exceeds `limits`. It also throws UserError for what no archive of this layout holds: folders,
// links, encrypted members, two members of one name, names with a meaning in a path.
std::vector<ZipMember> read_zip(const std::string& archive, const ZipLimits& limits = {});

}  // namespace mlbench::report
