#pragma once

// What can be chosen, according to this program and the worker's catalog, and checks of choices against that. `catalog`
// is what `mlbench-worker --catalog` prints.

#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/communication.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::plan {

// The rows of `mlbench list` and of a master.
Json list_tasks();
Json list_executors();  // each with the names, in RunRequest, of the options that it takes

// The names of available rows in a table of the catalog: "frameworks", "backends" or "optimizers".
std::vector<std::string> available_names(const Json& catalog, const char* table);

// `given` or, where it is "", the default `usual` or else the first available row of the table. Throws UserError, in
// which `what` names the choice, where `given` is not available or nothing is.
std::string choose(const Json& catalog, const char* table, std::string_view what, const std::string& given,
                   const std::string& usual);

// The framework of a run, as choose(): by default that which the task names or, where it names none, `usual`. Throws
// UserError where the task names one that the catalog does not list.
std::string choose_framework(const Json& catalog, const std::string& given, const spec::TaskSpec& task,
                             const std::string& usual);

// The number of inter-op threads. Throws UserError for more than one where the framework's row in the catalog does not
// say that it has such a pool.
int64_t inter_op_threads_of(const spec::RunOptions& options, const Json& catalog, const std::string& framework);

// Throws UserError for options of images that are decoded where the data set has none.
void check_image_options(const spec::RunOptions& options, const std::string& data_name);

// Throws UserError where the framework's row in the catalog lacks what the run needs: its device, precision,
// convolution or profile, a kind of layer of its model, sparse rows, or a decoder for the metrics of its task.
void check_framework(const spec::RunSpec& run, const Json& catalog);

// Throws UserError where the task's optimizer has a rule, coder or pattern that the catalog does not list, or an option
// that none of the three has.
void check_algorithm(const spec::RunSpec& run, const Json& catalog);

// How ranks communicate. Throws UserError for settings that the back end does not have.
spec::Communication communication_of(const spec::RunOptions& options, const Json& catalog, const std::string& backend);

// The device of a benchmark of collectives with --gpu. Throws UserError where buffers cannot lie on GPUs.
std::string gpu_buffers(const spec::RunOptions& options, const spec::CollectivesSpec& collectives, const Json& catalog,
                        const std::string& backend);

}  // namespace mlbench::plan
