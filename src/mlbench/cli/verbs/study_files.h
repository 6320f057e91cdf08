#pragma once

// The files that a study (`sweep`, `study`) writes into its folder: tables and charts.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/report/draw/charts.h"

namespace mlbench::cli {

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
  // Makes the folder, and says what is left out. Before the first file.
  void begin() const;
  void put(const std::string& name, const std::string& content);
  void put_images(const std::vector<report::Chart>& charts);
  // Lines of Markdown that show the images; "" without them.
  std::string images_in_markdown(const std::vector<report::Chart>& charts) const;

 private:
  std::vector<std::string> formats_, files_;
  std::string note_;
  std::filesystem::path folder_;
};

}  // namespace mlbench::cli
