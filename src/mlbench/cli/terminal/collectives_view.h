#pragma once

// Prints the rows of a benchmark of collectives on standard output as they come: as nccl-tests' table or as
// comma-separated values.

#include <cstddef>
#include <functional>
#include <optional>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/collectives/table.h"

namespace mlbench::cli {

enum class RowFormat { kNone, kTable, kCsv };

// Prints each row of a run once and in order, however often its functions are called. Prints nothing of other runs.
class CollectivesView {
 public:
  // `before` is called before something is printed, so that a line that is redrawn can be cleared.
  explicit CollectivesView(RowFormat format, std::function<void()> before = {});
  // Prints the next row. `record_of` gives the record as it is now, from which the lines above the first row are made.
  void row(const record::CollectiveRow& row, const std::function<record::Record()>& record_of);
  // Prints the rows of a record that were not printed yet.
  void update(const record::Record& record);
  // Does what update() does, and prints the end of the table. Precondition: the run is over.
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
