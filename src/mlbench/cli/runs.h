#pragma once

// Run folders: what verbs and master share.

#include "mlbench/home/runs.h"

namespace mlbench::cli {

using home::check_names_free;
using home::create_run;
using home::current_record;
using home::delete_run;
using home::is_active_run;
using home::read_spec;
using home::records_of_repeats;
using home::without_repeat;

}  // namespace mlbench::cli
