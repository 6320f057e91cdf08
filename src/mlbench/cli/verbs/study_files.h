#pragma once

// The files that a study (`sweep`, `study`) writes into its folder: tables and charts.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/draw/section.h"

namespace mlbench::cli {

// What the files of a study say: its charts, and its tables as each format has them.
struct StudyContent {
  std::string name;   // of the files of tables
  std::string title;  // of the page in Markdown
  std::vector<report::Chart> charts;
  std::vector<report::Section> sections;
  std::string csv;
  Json json;
};

class StudyFiles {
 public:
  // `given` are the formats that the user named, of `valid`; none: all. Images are left out where gnuplot is missing;
  // where they were asked for by name, that is a UserError, as is a format that is not valid. `folder` is made
  // absolute.
  StudyFiles(const std::vector<std::string>& given, const std::vector<std::string>& valid,
             const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<std::string>& files() const { return files_; }  // that were written

  bool wanted(std::string_view format) const;
  // Makes the folder, says what is left out, and writes what is wanted.
  void write(const StudyContent& content);
  void put(const std::string& name, const std::string& content);

 private:
  std::vector<std::string> formats_, files_;
  std::string note_;
  std::filesystem::path folder_;
};

}  // namespace mlbench::cli
