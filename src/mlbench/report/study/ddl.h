#pragma once

// The study of distributed training (docs/study-ddl.md): rates and efficiency over workers, networks, places of the
// data and batches, and which stage holds a run back. These are pure functions of records; `mlbench study ddl` makes
// the runs.
//
// How the time of a stage alone follows, in seconds for one step of a rank (stages.h):
//
//   compute    kinds of steps that compute, of one worker with a fixed batch
//   exchange   `agg` of as many workers with a fixed batch, whose steps compute nothing; 0 of one worker
//   read       the bytes of a step of all workers, over the rate at which as many threads read the place, and compute
//              nothing
//   decode     the step of one worker that computes nothing, less the time in which its threads alone read these bytes

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/draw/section.h"
#include "mlbench/report/notes.h"
#include "mlbench/report/study/stages.h"

namespace mlbench::report {

inline constexpr const char* kSyntheticInput = "synthetic";  // a fixed batch of made samples
inline constexpr const char* kRealNetwork = "real";          // nothing is emulated

struct DdlPoint {
  std::string input = kSyntheticInput;  // or the place of the data
  std::string network = kRealNetwork;   // or its settings, as plan/ddl_plan.h has them
  std::string variant = {};             // of the task; "": its first
  int64_t workers = 1;
};

// The rank of which most steps waited for data for at least 5 % of their time.
struct WaitingSteps {
  double share = 0;  // of its steps
  int64_t rank = 0;  // the first of equal ones
};

struct DdlAnswer {
  DdlPoint point = {};
  std::vector<record::Record> records = {};  // of the repeats that were made
  std::string refused = {};                  // why others could not be made; "" where none was refused
  std::optional<record::Record> compute = {}, exchange = {}, input = {};  // the finished runs of stages alone
  std::optional<double> read_by_one_per_s = {},
                        read_by_all_per_s = {};    // bytes; by the threads of one worker, and of all
  std::optional<WaitingSteps> waiting_steps = {};  // waiting_steps_of() a finished repeat
};

struct DdlRow {
  DdlPoint point = {};
  std::vector<std::string> runs = {};  // names
  std::string state = {}, why = {};    // as of SweepPoint
  std::optional<double> samples_per_s = {}, efficiency = {};
  std::string no_efficiency = {};  // why there is none; "" where there is one
  std::optional<WaitingSteps> waiting_steps = {};
  std::optional<double> utilisation = {};
  StepTime step = {};
  StageTimes alone = {};
  StageVerdict verdict = {};
  record::NamedNumbers metrics = {};  // of the last evaluation that was due
  std::vector<std::string> labels = {};
  bool finished() const { return state == "finished"; }
};

struct Ddl {
  std::string task = {};  // "" without records
  std::vector<DdlRow> rows = {};
};

// The first run of the point that finished; null where there is none.
const record::Record* finished_run(const DdlAnswer& answer);

// The bytes that a step of one worker takes from the place of the data, and each sample; empty where the kernel or the
// store did not say. `input` is the run that computes nothing.
std::optional<double> bytes_per_step(const record::Record& input);
std::optional<double> bytes_per_sample(const record::Record& input);

// Steps that were merged into one record count together. Empty without steps. Throws UserError where a spool is
// damaged.
std::optional<WaitingSteps> waiting_steps_of(const std::filesystem::path& run_dir, int64_t workers, int64_t segments);

// The efficiency is the rate per worker over that of the fewest workers with the same input, network and variant. Of
// repeats, the rate is the median; times are those of the last one that finished.
Ddl analyse_ddl(const std::vector<DdlAnswer>& answers);

// ---- for people and programs (ddl_text.cpp) ------------------------------------------------------------------------

// A table for each input, then the last evaluations, where runs have any, and the stages alone.
std::vector<Section> sections_of(const Ddl& ddl);
// How the study was made, line by line: an experiment's form. What no record tells is taken from `notes`.
struct FormLine {
  std::string name, text;  // a text that is "": not known
};
std::vector<FormLine> experiment_form(const std::vector<record::Record>& records, const RunNotes& notes);
Section section_of(const std::vector<FormLine>& form);
std::string csv_of(const Ddl& ddl);
Json to_json(const Ddl& ddl);
// Charts over workers, with a line for each input, network and variant. One without a point is left out.
std::vector<Chart> charts_of(const Ddl& ddl);

}  // namespace mlbench::report
