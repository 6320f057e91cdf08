#pragma once

// Run folders: what verbs and master share.

#include "mlbench/home/runs.h"

namespace mlbench::cli {

using master::check_names_free;
using master::checkpoint_steps;
using master::create_run;
using master::current_record;
using master::delete_run;
using master::is_active_run;
using master::read_spec;
using master::without_repeat;

}  // namespace mlbench::cli
