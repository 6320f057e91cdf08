#include "mlbench/report/draw/page.h"

#include <fmt/format.h>

#include <span>

#include "mlbench/base/embedded_file.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/sha256.h"

namespace mlbench {
std::span<const EmbeddedFile> report_page_files();
}

namespace mlbench::report {

namespace {

std::string_view file(std::string_view name) {
  for (const EmbeddedFile& one : report_page_files()) {
    if (one.name == name) return one.text;
  }
  MLBENCH_CHECK(false, fmt::format("'{}' is not built in", name));
  return {};
}

// The source 'sha256-...' of a content security policy for `text`: the base64 of its hash.
std::string policy_hash(std::string_view text) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hex = sha256_hex(text);
  std::string encoded;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : hex) {
    bits = (bits << 4) | static_cast<uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    count += 4;
    if (count < 6) continue;
    count -= 6;
    encoded += kDigits[(bits >> count) & 63];
  }
  if (count > 0) encoded += kDigits[(bits << (6 - count)) & 63];
  while (encoded.size() % 4 != 0) encoded += '=';
  return "'sha256-" + encoded + "'";
}

Json to_json(const Chart& chart) {
  Json series = Json::array();
  for (const ChartSeries& one : chart.series) {
    Json x = Json::array(), y = Json::array();
    for (const ChartPoint point : one.points) {
      x.push_back(point.x);
      y.push_back(point.y);
    }
    series.push_back({{"name", one.name},
                      {"guide", one.guide},
                      {"rings", one.rings},
                      {"colour", or_null(one.colour)},
                      {"x", x},
                      {"y", y}});
  }
  return {{"id", chart.id},
          {"title", chart.title},
          {"subtitle", chart.subtitle},
          {"labels", chart.labels},
          {"x_label", chart.x_label},
          {"y_label", chart.y_label},
          {"kind", chart.kind == ChartKind::kStackedBars ? "stacked_bars" : "lines"},
          {"ticks", chart.ticks},
          {"from_zero", chart.from_zero},
          {"log_x", chart.log_x},
          {"log_y", chart.log_y},
          {"series", series}};
}

// `json` with every text made printable.
Json shown(const Json& json) {
  if (json.is_string()) return printable_lines(json.get_ref<const std::string&>(), "");
  if (!json.is_structured()) return json;
  Json out = json.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : json.items()) {
    if (json.is_array()) {
      out.push_back(shown(value));
    } else {
      out[key] = shown(value);
    }
  }
  return out;
}

// `json` as text without any character that has a meaning in HTML.
std::string html_safe(const Json& json) {
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "\\u003c";
        break;
      case '>':
        safe += "\\u003e";
        break;
      case '&':
        safe += "\\u0026";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string report_page(const Page& page) {
  Json studies = Json::array();
  for (const PageStudy& study : page.studies) {
    Json one = study.figures;
    one["charts"] = Json::array();
    for (const Chart& chart : study.charts) one["charts"].push_back(to_json(chart));
    studies.push_back(std::move(one));
  }
  const Json data = {{"made", page.made},
                     {"notes", page.notes},
                     {"prices", report::to_json(page.prices)},
                     {"worker", page.worker},
                     {"preemptible", page.preemptible},
                     {"price_note", page.price_note},
                     {"studies", std::move(studies)}};

  const std::string_view library = file("third_party/uplot/uPlot.iife.min.js");
  const std::string_view script = file("src/mlbench/report/draw/page/report.js");
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  html += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data: blob:; "
      "style-src 'unsafe-inline'; script-src {} {}; base-uri 'none'; form-action 'none'\">\n",
      policy_hash(library), policy_hash(script));
  html += "<title>mlbench report</title>\n";
  for (const char* style : {"third_party/uplot/uPlot.min.css", "src/mlbench/report/draw/page/report.css"}) {
    html += fmt::format("<style>{}</style>\n", file(style));
  }
  html += "</head>\n<body>\n<main></main>\n";
  html += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", html_safe(shown(data)));
  for (const std::string_view one : {library, script}) html += fmt::format("<script>{}</script>\n", one);
  return html + "</body>\n</html>\n";
}

}  // namespace mlbench::report
