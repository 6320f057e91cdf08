#pragma once

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/notes.h"

namespace mlbench::home {

// What lists show of a run (schema RunSummary in api/openapi.json).
Json summary_of(const record::Record& record, const report::RunNotes& notes = {});

// What a search looks through beside the run's name: what people said about it, and the texts of its summary.
std::string words_of(const Json& summary, const report::RunNotes& notes);
// What a search asks for: the texts between blanks, at most 20 of them.
std::vector<std::string> searched_parts(const std::string& search);
// Whether a run's name or words hold all parts of the search. The case of ASCII letters does not matter.
bool is_found(const std::string& name, const std::string& words, const std::string& search);

}  // namespace mlbench::home
