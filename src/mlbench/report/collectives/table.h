#pragma once

// Writes the result of `mlbench bench collectives` as text: the lines of nccl-tests for collectives, those of OSU's
// benchmarks for barriers and point-to-point operations. Lines that begin with # are no data. Programs that read the
// output of these two can read this one, so tests compare it line by line.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/report/collectives/result.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::report {

// Makes the table while rows arrive: the texts of all calls, one behind the other, are the table. It has a preamble,
// then for each section a heading, lines and a footer. A section has rows of one operation, and of one type where OSU's
// lines have no column for the type.
class CollectivesLines {
 public:
  // `head` says what is measured; its rows and pairs are ignored.
  explicit CollectivesLines(CollectivesResult head);
  std::string row(const record::CollectiveRow& row);
  // The text behind the last row; called once. Of `whole` only pairs and errors are used.
  std::string end(const CollectivesResult& whole);

 private:
  std::string begin();

  CollectivesResult head_;
  bool begun_ = false;
  std::vector<record::CollectiveRow> section_;  // without the raw times
};

// The whole table at once.
std::string collectives_table(const CollectivesResult& result);

// A table of what nccl-tests' columns have no room for: a line per row and form with the percentiles of the iterations.
std::string percentiles_table(std::span<const record::CollectiveRow> rows);

// A table with a line per row and form that shows mean times and bandwidths, which is all that MLBench's archives hold.
Table means_table(std::span<const record::CollectiveRow> rows);

// A table of latencies, a table of bandwidths, and the verdict on slow pairs.
std::string pairs_table(const record::PairMatrix& pairs);

// Comma-separated values with a line per row and form, in microseconds and GB/s: the names of the columns, and the
// lines of one row.
std::string collectives_csv_header();
std::string collectives_csv_lines(const record::CollectiveRow& row);

}  // namespace mlbench::report
