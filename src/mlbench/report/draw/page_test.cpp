#include "mlbench/report/draw/page.h"

#include <gmock/gmock.h>

#include <regex>

#include "mlbench/base/printable.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string page_with(const std::string& name) {
  std::vector<MeasuredRun> runs = {{make_record(name, 1, 60, 3000, true), {{10, 0.9}}, ""}};
  runs[0].record.task = name;
  Page page;
  const auto studies = make_studies(runs, {0.36}, page.notes);
  page.made = name;
  page.prices = default_prices();
  page.worker = "n1-standard-4";
  page.studies.push_back({to_json(studies.at(0), runs), charts_of(studies[0], runs, {"$", name})});
  page.notes.push_back(name);
  return report_page(page);
}

Json data_of(const std::string& html) {
  const std::string begin = "id=\"data\">";
  const size_t from = html.find(begin) + begin.size();
  return Json::parse(html.substr(from, html.find("</script>", from) - from));
}

TEST(ReportPage, HoldsEverything) {
  const std::string html = page_with("r-1");
  const Json data = data_of(html);
  EXPECT_EQ(data["studies"][0]["lines"][0]["points"][0]["seconds"], 60.0);
  EXPECT_EQ(data["studies"][0]["charts"][0]["id"], "total_time");
  EXPECT_EQ(data["prices"]["prices"][1]["name"], "T4");
  EXPECT_THAT(html, HasSubstr("uPlot"));
}

TEST(ReportPage, LoadsNothingFromOutside) {
  const std::string html = page_with("r-1");
  EXPECT_FALSE(std::regex_search(html.substr(0, 2000), std::regex("(src|href)=")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("<link")));
  EXPECT_THAT(html, Not(HasSubstr("@import")));
}

// Two scripts, both allowed by their hash; data is no script.
TEST(ReportPage, ItsPolicyNamesItsScripts) {
  const std::string html = page_with("r-1");
  const std::regex hash("'sha256-[A-Za-z0-9+/]{43}='");
  EXPECT_EQ(std::distance(std::sregex_iterator(html.begin(), html.end(), hash), std::sregex_iterator()), 2);
}

TEST(ReportPage, NamesAreNeverMarkup) {
  for (const char* name : {"</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--<script>",
                           "&lt;\xe2\x80\xa8", "\xe2\x80\xae right to left"}) {
    const std::string html = page_with(name);
    EXPECT_THAT(html, Not(HasSubstr(name)));
    EXPECT_EQ(data_of(html)["made"], printable_lines(name, ""));
  }
}

}  // namespace
}  // namespace mlbench::report
