#pragma once

// The rows of a benchmark of collectives on standard output as they come: nccl-tests' table, or comma-separated values.

#include <cstddef>
#include <functional>
#include <optional>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/collectives/table.h"

namespace mlbench::cli {

enum class RowFormat { kNone, kTable, kCsv };

// Each row of a run is printed once, in order, whatever is called how often. Of other runs nothing is.
class CollectivesView {
 public:
  // `before`: called before something is printed, so that a line that is redrawn can go away.
  explicit CollectivesView(RowFormat format, std::function<void()> before = {});
  // The next row. `record_of` gives the record as it stands now: what the table says above its first row.
  void row(const record::CollectiveRow& row, const std::function<record::Record()>& record_of);
  // Those rows of a record that were not printed yet.
  void update(const record::Record& record);
  // The same, and the end of the table: the run is over.
  void finish(const record::Record& record);

 private:
  void show(const std::string& text);
  void begin(const record::Record& record);

  RowFormat format_;
  std::function<void()> before_;
  size_t shown_ = 0;
  std::optional<report::CollectivesLines> lines_;
};

}  // namespace mlbench::cli
