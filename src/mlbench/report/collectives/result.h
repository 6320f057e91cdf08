#pragma once

// The result of `mlbench bench collectives` as one JSON document, schema api/collectives.schema.json: the names of
// nccl-tests' own (-J) where it has them, with true, false and null instead of texts, and ours beside them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/collectives.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::report {

// Where a rank's buffers lie.
struct CollectiveDevice {
  std::string host = {};
  std::optional<int64_t> gpu = {};  // its number on the host; empty: they are the host's
  std::string info = "cpu";         // the GPU's model; "cuda" where it is not known
  bool operator==(const CollectiveDevice&) const = default;
};

struct CollectivesResult {
  std::string name;  // of the run; "" where there is none
  int64_t workers = 0;
  std::string backend;     // "gloo"
  std::string comm_stack;  // "netem(ring(gloo))"; "" where it is not known
  bool oversubscribed = false;
  std::string start_time, end_time;       // UTC
  std::vector<std::string> args;          // of the command, its program first; a record does not know them
  std::vector<std::string> env;           // NAME=VALUE, of variables that change how communication works and no others
  std::optional<int64_t> nccl_version;    // 22703 is 2.27.3
  int64_t gpus = 0;                       // of each rank
  std::vector<CollectiveDevice> devices;  // of each rank; empty where they are not known
  spec::CollectivesSpec spec;
  std::vector<record::CollectiveRow> rows;
  std::optional<record::PairMatrix> pairs;
  std::vector<std::string> errors;
  bool operator==(const CollectivesResult&) const = default;
};

// Rows with results that were wrong, forms counted apart.
int64_t wrong_rows(const std::vector<record::CollectiveRow>& rows);
int64_t wrong_rows(const record::Record& record);
// `results` of it, or of a document. UserError "WHERE: ..." naming what is wrong.
std::vector<record::CollectiveRow> collective_rows_of(const Json& list, const std::string& where);
// "synthetic network, oversubscribed": what a reader must know of its times; may be "".
std::string labels_of(const CollectivesResult& result);
// Mean of the bus bandwidths of all rows and forms that have one; empty when none has.
std::optional<double> mean_bus_bandwidth(const std::vector<record::CollectiveRow>& rows);

Json to_json(const CollectivesResult& result);
// Inverse. UserError "WHERE: ..." naming what is wrong.
CollectivesResult collectives_result_from_json(const Json& json, const std::string& where);
// All results in a file: a document, a run's record, or a list of either, as -J writes it of several numbers of ranks.
// At least one.
std::vector<CollectivesResult> read_collectives_results(const std::filesystem::path& file);

// The result in a record with such a section, or the rows and pairs of a document of to_json(); empty where there is
// none. Devices are those of the record's placement, variables those of its effective settings. What a
// record does not hold stays empty: those of MLBench's archives have rows, names and times alone.
std::optional<CollectivesResult> collectives_of(const record::Record& record);

}  // namespace mlbench::report
