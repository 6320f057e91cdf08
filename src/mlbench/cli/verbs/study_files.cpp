#include "mlbench/cli/verbs/study_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/cli/context.h"
#include "mlbench/report/draw/escape.h"
#include "mlbench/report/draw/gnuplot.h"

namespace mlbench::cli {

StudyFiles::StudyFiles(const std::vector<std::string>& given, const std::vector<std::string>& valid,
                       const std::filesystem::path& folder)
    : formats_(given.empty() ? valid : given), folder_(std::filesystem::absolute(folder).lexically_normal()) {
  for (const std::string& format : formats_) check_choice("format", format, valid);
  if ((!wanted("png") && !wanted("svg")) || report::gnuplot_exists()) return;
  std::vector<std::string> rest = valid;
  std::erase_if(rest, [](const std::string& one) { return one == "png" || one == "svg"; });
  note_ = "PNG and SVG charts need the program gnuplot, which is not installed: apt-get install gnuplot-nox";
  if (!given.empty()) throw UserError(fmt::format("{} (without it: --format {})", note_, fmt::join(rest, ",")));
  formats_ = std::move(rest);
}

bool StudyFiles::wanted(std::string_view format) const { return std::ranges::count(formats_, format) > 0; }

void StudyFiles::put(const std::string& name, const std::string& content) {
  write_file_atomically(folder_ / name, content);
  files_.push_back((folder_ / name).string());
}

void StudyFiles::write(const StudyContent& content) {
  make_folder(folder_);
  if (!note_.empty()) say(note_);
  std::string images;
  for (const report::Chart& chart : content.charts) {
    if (wanted("png")) put(chart.id + ".png", report::draw(chart, report::ImageFormat::kPng));
    if (wanted("svg")) put(chart.id + ".svg", report::draw(chart, report::ImageFormat::kSvg));
    if (wanted("png")) images += fmt::format("\n![{}]({}.png)\n", report::markdown_text(chart.title), chart.id);
  }
  if (wanted("csv")) put(content.name + ".csv", content.csv);
  if (wanted("json")) put(content.name + ".json", content.json.dump(2) + "\n");
  if (wanted("markdown")) {
    put(content.name + ".md", fmt::format("# {}\n\n", report::markdown_text(content.title)) +
                                  report::written(content.sections, {report::TableFormat::kMarkdown}) + images);
  }
  if (wanted("latex")) put(content.name + ".tex", report::written(content.sections, {report::TableFormat::kLatex}));
}

}  // namespace mlbench::cli
