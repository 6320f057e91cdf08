#pragma once

// The result of `mlbench bench collectives` as one JSON document with the schema api/collectives.schema.json. Names are
// those of nccl-tests' document (-J) where that has them, but values are true, false and null instead of texts.

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
  std::optional<int64_t> gpu = {};  // the GPU's number on the host; empty: the buffers lie in the host's memory
  std::string info = "cpu";         // the GPU's model; "cuda" where the model is not known
  bool operator==(const CollectiveDevice&) const = default;
};

struct CollectivesResult {
  std::string name;  // the run's; "" where there is no run
  int64_t workers = 0;
  std::string backend;     // "gloo"
  std::string comm_stack;  // "netem(ring(gloo))"; "" where it is not known
  bool oversubscribed = false;
  std::string start_time, end_time;       // UTC
  std::vector<std::string> args;          // the command's, the program first; empty for a result from a record
  std::vector<std::string> env;           // NAME=VALUE, only of variables that change how communication works
  std::optional<int64_t> nccl_version;    // 22703 is 2.27.3
  int64_t gpus = 0;                       // GPUs of each rank
  std::vector<CollectiveDevice> devices;  // of each rank; empty where they are not known
  spec::CollectivesSpec spec;
  std::vector<record::CollectiveRow> rows;
  std::optional<record::PairMatrix> pairs;
  std::vector<std::string> errors;
  bool operator==(const CollectivesResult&) const = default;
};

// The number of rows with wrong results; the two forms of a row count apart.
int64_t wrong_rows(const std::vector<record::CollectiveRow>& rows);
int64_t wrong_rows(const record::Record& record);
// Reads the rows in the member `results` of a result or record. Throws UserError "WHERE: ..." naming what is wrong.
std::vector<record::CollectiveRow> collective_rows_of(const Json& list, const std::string& where);
// What a reader must know of the result's times, "synthetic network, oversubscribed"; may be "".
std::string labels_of(const CollectivesResult& result);
// The mean bus bandwidth in GB/s of all rows and forms that have one, barriers left out; empty when none has.
std::optional<double> mean_bus_bandwidth(const std::vector<record::CollectiveRow>& rows);

Json to_json(const CollectivesResult& result);
// The inverse of to_json(). Throws UserError "WHERE: ..." naming what is wrong.
CollectivesResult collectives_result_from_json(const Json& json, const std::string& where);
// All results in a file, which is a document, a run's record, or a list of either; -J writes a list for several numbers
// of ranks. Returns at least one; throws UserError where the file holds no result.
std::vector<CollectivesResult> read_collectives_results(const std::filesystem::path& file);

// The result in a record that has `collectives`; empty for another record. Devices come from the record's placement,
// variables from its effective settings. What the record does not hold stays empty: records of MLBench's archives have
// rows and names only.
std::optional<CollectivesResult> collectives_of(const record::Record& record);

}  // namespace mlbench::report
