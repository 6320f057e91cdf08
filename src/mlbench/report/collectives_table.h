#pragma once

// The result of `mlbench bench collectives` as text: the lines of nccl-tests for collectives, those of OSU's benchmarks
// for barriers and point-to-point operations. Lines that begin with # are no data. Programs that read the output of
// those two key on it: tests compare it line by line.

#include <span>
#include <string>

#include "mlbench/report/collectives_result.h"

namespace mlbench::report {

// For a program that prints what it measures: the preamble, then for each section (rows of one operation, and of one
// type where OSU's lines have no column for it) its heading, lines and footer.
std::string collectives_preamble(const CollectivesResult& result);
bool same_section(const record::CollectiveRow& a, const record::CollectiveRow& b);
std::string section_heading(const record::CollectiveRow& first);
std::string section_line(const record::CollectiveRow& row);
std::string section_footer(std::span<const record::CollectiveRow> rows);

// All of it, and the pairs.
std::string collectives_table(const CollectivesResult& result);

// What nccl-tests' columns have no room for: a line per row and form with the percentiles of its iterations.
std::string percentiles_table(std::span<const record::CollectiveRow> rows);

// A line per row with the figures that are known: of MLBench's archives the mean alone.
std::string means_table(std::span<const record::CollectiveRow> rows);

// Both matrices and the verdict.
std::string pairs_table(const record::PairMatrix& pairs);

// Comma-separated values, a line per row and form; microseconds and GB/s.
std::string collectives_csv(std::span<const record::CollectiveRow> rows);

}  // namespace mlbench::report
