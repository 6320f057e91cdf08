#include "mlbench/home/summary.h"

#include "mlbench/report/figures.h"
#include "mlbench/report/run_figures.h"

namespace mlbench::home {

Json summary_of(const record::Record& record, const report::RunNotes& notes) {
  return report::json_of(report::run_figures(), report::ShownRun{record, report::figures_of(record), notes.tags});
}

}  // namespace mlbench::home
