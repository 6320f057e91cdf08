#include "mlbench/cli/terminal/collectives_view.h"

#include <utility>
#include <vector>

#include "mlbench/cli/context.h"

namespace mlbench::cli {

CollectivesView::CollectivesView(RowFormat format, std::function<void()> before)
    : format_(format), before_(std::move(before)) {}

void CollectivesView::show(const std::string& text) {
  if (text.empty()) return;
  if (before_) before_();
  print(text);
  flush_output();
}

void CollectivesView::begin(const record::Record& record) {
  if (lines_) return;
  lines_.emplace(report::collectives_of(record).value_or(report::CollectivesResult()));
  if (format_ == RowFormat::kCsv) show(report::collectives_csv_header());
}

void CollectivesView::row(const record::CollectiveRow& one, const std::function<record::Record()>& record_of) {
  if (format_ == RowFormat::kNone) return;
  if (!lines_) begin(record_of());
  ++shown_;
  show(format_ == RowFormat::kTable ? lines_->row(one) : report::collectives_csv_lines(one));
}

void CollectivesView::update(const record::Record& record) {
  if (!record.collectives) return;
  const std::vector<record::CollectiveRow>& rows = record.collectives->rows;
  while (format_ != RowFormat::kNone && shown_ < rows.size()) row(rows[shown_], [&] { return record; });
}

void CollectivesView::finish(const record::Record& record) {
  if (format_ == RowFormat::kNone || !record.collectives) return;
  update(record);
  begin(record);
  if (format_ != RowFormat::kTable) return;
  show(lines_->end(report::collectives_of(record).value_or(report::CollectivesResult())));
}

}  // namespace mlbench::cli
