#pragma once

// What can be chosen, as this program and the worker's catalog say, and choices held against that.

#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/communication.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

// Rows of `mlbench list`, and of a master.
Json list_tasks();
Json list_executors();  // each with the options that it takes, by the names of RunRequest

// Names of the rows of a catalog's table ("frameworks", "backends", "optimizers") that can be used.
std::vector<std::string> available_names(const Json& catalog, const char* table);

// `given`, or the default, or the only possible choice. UserError where it is not in the catalog's table.
std::string choose(const Json& catalog, const char* table, std::string_view what, const std::string& given,
                   const std::string& usual);

// UserError for more than one where the framework's row of the catalog does not say that it has such a pool.
int64_t inter_op_threads_of(const spec::RunOptions& options, const Json& catalog, const std::string& framework);

// UserError for what the framework's row of the catalog says that it has not: the run's device, precision or profile.
void check_framework(const spec::RunSpec& run, const Json& catalog);

// How ranks communicate. UserError for what the back end cannot do.
spec::Communication communication_of(const spec::RunOptions& options, const Json& catalog, const std::string& backend);

// The device of a benchmark whose buffers are to lie on GPUs. UserError where they cannot.
std::string gpu_buffers(const spec::RunOptions& options, const spec::CollectivesSpec& collectives, const Json& catalog,
                        const std::string& backend);

}  // namespace mlbench::plan
