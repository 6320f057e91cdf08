#pragma once

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/notes.h"

namespace mlbench::home {

// What lists show of a run (schema RunSummary in api/openapi.json).
Json summary_of(const record::Record& record, const report::RunNotes& notes = {});

}  // namespace mlbench::home
