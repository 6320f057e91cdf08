#pragma once

// The result of `mlbench bench collectives` as text: the lines of nccl-tests for collectives, those of OSU's benchmarks
// for barriers and point-to-point operations. Lines that begin with # are no data. Programs that read the output of
// those two key on it: tests compare it line by line.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/report/collectives/result.h"

namespace mlbench::report {

// The table as it grows: what each call gives, one behind the other, is the table. A preamble, then for each section
// (rows of one operation, and of one type where OSU's lines have no column for it) its heading, lines and footer.
class CollectivesLines {
 public:
  // Of what is measured; its rows and pairs are not looked at.
  explicit CollectivesLines(CollectivesResult head);
  std::string row(const record::CollectiveRow& row);
  // Behind the last row; once. Of the whole result pairs and errors are looked at.
  std::string end(const CollectivesResult& whole);

 private:
  std::string begin();

  CollectivesResult head_;
  bool begun_ = false;
  std::vector<record::CollectiveRow> section_;  // less the raw times
};

// All of it at once.
std::string collectives_table(const CollectivesResult& result);

// What nccl-tests' columns have no room for: a line per row and form with the percentiles of its iterations.
std::string percentiles_table(std::span<const record::CollectiveRow> rows);

// A line per row with the figures that are known: of MLBench's archives the mean alone.
std::string means_table(std::span<const record::CollectiveRow> rows);

// Both matrices and the verdict.
std::string pairs_table(const record::PairMatrix& pairs);

// Comma-separated values, a line per row and form; microseconds and GB/s. The names of the columns, and the lines.
std::string collectives_csv_header();
std::string collectives_csv_lines(const record::CollectiveRow& row);

}  // namespace mlbench::report
