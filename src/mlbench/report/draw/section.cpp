#include "mlbench/report/draw/section.h"

#include "mlbench/base/printable.h"
#include "mlbench/report/draw/escape.h"

namespace mlbench::report {

namespace {

std::string as_text(const Section& section, const TableStyle& style) {
  std::string lines = section.title.empty() ? "" : section.title + "\n";
  for (const std::string& sentence : section.sentences) lines += sentence + "\n";
  std::string out = printable_lines(lines, "");
  if (section.table) out += (section.sentences.empty() ? "" : "\n") + section.table->render(style);
  for (const std::string& note : section.notes) out += "  " + printable_lines(note, "  ") + "\n";
  return out;
}

std::string as_markdown(const Section& section, const TableStyle& style) {
  std::string out = section.title.empty() ? "" : "## " + markdown_text(section.title) + "\n";
  const auto apart = [&out] { out += out.empty() ? "" : "\n"; };
  if (!section.sentences.empty()) apart();
  for (const std::string& sentence : section.sentences) out += markdown_text(sentence) + "\n";
  if (section.table) {
    apart();
    out += section.table->render(style);
  }
  if (!section.notes.empty()) apart();
  for (const std::string& note : section.notes) out += "- " + markdown_text(note) + "\n";
  return out;
}

// A table floats with its title as caption and its notes below; without a table all is running text.
std::string as_latex(const Section& section, const TableStyle& style) {
  std::string out;
  for (const std::string& sentence : section.sentences) out += latex_text(sentence) + "\n";
  if (!section.table) {
    if (!section.title.empty()) out = "\\paragraph{" + latex_text(section.title) + "}\n" + out;
    for (const std::string& note : section.notes) out += latex_text(note) + "\\par\n";
    return out;
  }
  if (!out.empty()) out += "\n";
  out += "\\begin{table}\n\\centering\n";
  if (!section.title.empty()) out += "\\caption{" + latex_text(section.title) + "}\n";
  out += section.table->render(style);
  for (const std::string& note : section.notes) out += "\\par\\footnotesize " + latex_text(note) + "\n";
  return out + "\\end{table}\n";
}

std::string in_format(const Section& section, const TableStyle& style) {
  switch (style.format) {
    case TableFormat::kText:
      return as_text(section, style);
    case TableFormat::kMarkdown:
      return as_markdown(section, style);
    case TableFormat::kLatex:
      return as_latex(section, style);
    case TableFormat::kCsv:
      return section.table ? section.table->render(style) : "";
  }
  return "";
}

}  // namespace

std::string written(const std::vector<Section>& sections, const TableStyle& style) {
  std::string out;
  for (const Section& section : sections) {
    const std::string part = in_format(section, style);
    out += (out.empty() || part.empty() ? "" : "\n") + part;
  }
  if (style.format == TableFormat::kLatex) out = "% Needs \\usepackage{booktabs}.\n" + out;
  return out;
}

}  // namespace mlbench::report
