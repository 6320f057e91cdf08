#pragma once

// A run as charts need it: its record, and its training loss over the train clock, out of whatever is at hand.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/record/record.h"
#include "mlbench/report/archive/zip.h"

namespace mlbench::report {

struct LossPoint {
  double train_s = 0;  // train clock at its end
  double loss = 0;     // mean over the samples since the last point; NaN: it was not finite
};

struct MeasuredRun {
  record::Record record;  // of a dashboard's archive only what that archive holds
  std::vector<LossPoint> loss;
  std::string source;  // the path
};

// A run folder: the loss of rank 0 out of its spools, merged to at most 400 points.
MeasuredRun read_run_folder(const std::filesystem::path& run_dir);

// The members of a download (archive/zip.h) or of an archive of MLBench's dashboard; `name` for one that says none.
// Their loss has dates only: the ends of epochs give the train clock, dates between are interpolated. UserError when it
// is neither.
MeasuredRun read_run_archive(const std::vector<ZipMember>& members, const std::string& name);

// A record alone: its loss per epoch.
MeasuredRun read_run_record(record::Record record);

// What lies at a path: a run folder, an archive (.zip), a record (.json), a home (folder with runs/), or a folder of
// such things; in the order of their names. A damaged one among several becomes a note. UserError when there is nothing
// of these.
std::vector<MeasuredRun> read_runs(const std::filesystem::path& path, std::vector<std::string>& notes);

}  // namespace mlbench::report
