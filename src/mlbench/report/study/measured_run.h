#pragma once

// Reads runs as charts need them, with record and training loss over the train clock: run folders, archives, records.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/record/record.h"
#include "mlbench/report/archive/zip.h"

namespace mlbench::report {

struct LossPoint {
  double train_s = 0;  // train clock after these samples
  double loss = 0;     // mean over the samples since the last point; NaN: it was not finite
};

struct MeasuredRun {
  record::Record record;  // from a dashboard's archive: only what that archive holds
  std::vector<LossPoint> loss;
  std::string source;  // the path from which it was read; "" where there is none
};

// Reads a run folder. The loss is that of rank 0's spools, merged to at most 400 points.
MeasuredRun read_run_folder(const std::filesystem::path& run_dir);

// Reads the members of a download (archive/zip.h) or of an archive of MLBench's dashboard, which takes the name `name`.
// The losses there have only dates. The ends of epochs give the train clock, which is interpolated between them. Throws
// UserError when the members are neither.
MeasuredRun read_run_archive(const std::vector<ZipMember>& members, const std::string& name);

// Takes a record alone, with its loss per epoch.
MeasuredRun read_run_record(record::Record record);

// Reads what lies at `path`: a run folder, an archive (.zip), a record (.json), a home (folder with runs/), or a folder
// of run folders, archives and records. A folder's runs are in the order of their names, a home's by id. A damaged run
// in a folder becomes a note. Throws UserError when `path` is nothing of these, holds no run, or is one damaged file.
std::vector<MeasuredRun> read_runs(const std::filesystem::path& path, std::vector<std::string>& notes);

}  // namespace mlbench::report
