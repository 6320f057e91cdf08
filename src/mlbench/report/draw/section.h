#pragma once

// Reports of tables: what stands around each table, written for a terminal, in Markdown, in LaTeX, or the tables alone
// as CSV.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/report/draw/table.h"

namespace mlbench::report {

struct Section {
  std::string title;                   // "" for none
  std::vector<std::string> sentences;  // above the table
  std::optional<Table> table = {};
  std::vector<std::string> notes = {};  // below the table
};

// The sections one behind the other, with an empty line between them. Their texts may be anybody's.
std::string written(const std::vector<Section>& sections, const TableStyle& style = {});

}  // namespace mlbench::report
