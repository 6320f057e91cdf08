#include "mlbench/home/summary.h"

#include <algorithm>

#include "mlbench/base/text.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/run_figures.h"

namespace mlbench::home {

Json summary_of(const record::Record& record, const report::RunNotes& notes) {
  return report::json_of(report::run_figures(), report::ShownRun{record, report::figures_of(record), notes.tags});
}

std::string words_of(const Json& summary, const report::RunNotes& notes) {
  std::string words = report::all_words(notes);
  for (const char* key :
       {"state", "task", "rules", "variant", "division", "framework", "backend", "executor", "evaluation", "failure"}) {
    if (const Json value = summary.value(key, Json()); value.is_string()) words += value.get<std::string>() + "\n";
  }
  for (const Json& label : summary.value("labels", Json::array())) words += label.get<std::string>() + "\n";
  return words;
}

std::vector<std::string> searched_parts(const std::string& search) {
  constexpr size_t kMostParts = 20;
  std::vector<std::string> parts = split_at(search, ' ');
  std::erase_if(parts, [](const std::string& part) { return trimmed(part).empty(); });
  if (parts.size() > kMostParts) parts.resize(kMostParts);
  return parts;
}

bool is_found(const std::string& name, const std::string& words, const std::string& search) {
  return std::ranges::all_of(searched_parts(search),
                             [&](const std::string& part) { return report::mentions(name + "\n" + words, part); });
}

}  // namespace mlbench::home
