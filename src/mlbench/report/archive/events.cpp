#include "mlbench/report/archive/events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <regex>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/base/to_number.h"

namespace mlbench::report {

namespace {

std::string_view text_of(const ZipMember& member) {
  return TextBlocks(printable("the archive's member " + member.name)).take(member.content);
}

Json json_of(const ZipMember& member) {
  const std::string_view text = text_of(member);
  try {
    return parse_json(text, inputs::kArchiveMember);
  } catch (const UserError& error) {
    ArchiveEvents::fail(member.name, fmt::format("it is not JSON ({})", error.what()));
  }
}

std::vector<ArchivePoint> parse_series(const ZipMember& member) {
  const Json json = json_of(member);
  if (!json.is_array()) ArchiveEvents::fail(member.name, "it is not a list of points");
  std::vector<ArchivePoint> points;
  for (const Json& point : json) {
    const auto text = [&](const char* key) {
      if (!point.is_object() || !point.contains(key) || !point[key].is_string()) {
        ArchiveEvents::fail(member.name, fmt::format("point {} has no text \"{}\"", points.size(), key));
      }
      return point[key].get<std::string>();
    };
    const std::string date = text("date"), value = text("value");
    try {
      points.push_back({parse_utc(date), value});
    } catch (const UserError& error) {
      ArchiveEvents::fail(member.name, fmt::format("point {}: {}", points.size(), error.what()));
    }
  }
  return points;
}

double number_of(const std::string& name, const ArchivePoint& point, size_t index) {
  const auto value = to_number<double>(point.value);
  if (!value) {
    ArchiveEvents::fail(ArchiveEvents::member_of(name),
                        fmt::format("point {} is '{}'; expected a number", index, point.value));
  }
  return *value;
}

}  // namespace

ArchiveEvents::ArchiveEvents(const std::vector<ZipMember>& members) {
  static const std::regex kName(R"(result_(.+) @ ([0-9]{1,6})\.json)");
  for (const ZipMember& member : members) {
    std::smatch match;
    if (member.name == kRecordFile) {
      try {
        record_ = record::record_from_json(json_of(member), "its record");
      } catch (const UserError& error) {
        fail(member.name, error.what());
      }
    } else if (member.name == "official_result.txt") {
      claim_ = text_of(member);
      while (!claim_->empty() && (claim_->back() == '\n' || claim_->back() == '\r')) claim_->pop_back();
    } else if (std::regex_match(member.name, match, kName)) {
      series_[{match[1], std::stoll(match[2])}] = parse_series(member);
    }
  }
}

const std::vector<ArchivePoint>& ArchiveEvents::points(const std::string& name) const {
  static const std::vector<ArchivePoint> kNoPoints;
  const auto found = series_.find({name, 0});
  return found == series_.end() ? kNoPoints : found->second;
}

std::vector<double> ArchiveEvents::numbers(const std::string& name) const {
  std::vector<double> values;
  for (const ArchivePoint& point : points(name)) values.push_back(number_of(name, point, values.size()));
  return values;
}

std::vector<double> ArchiveEvents::seconds(const std::string& name) const {
  std::vector<double> values = numbers(name);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= 0 && values[i] < kMostSeconds)) {
      fail(member_of(name),
           fmt::format("point {} is {}; expected seconds, from 0 to {:g}", i, points(name)[i].value, kMostSeconds));
    }
  }
  return values;
}

std::optional<double> ArchiveEvents::total(const std::string& name) const {
  const std::vector<double> values = seconds(name);
  return values.empty() ? std::nullopt : std::optional(values.back());
}

std::set<int64_t> ArchiveEvents::ranks_with(const std::string& name) const {
  std::set<int64_t> ranks;
  for (const auto& [key, points] : series_) {
    if (key.first == name) ranks.insert(key.second);
  }
  return ranks;
}

std::string ArchiveEvents::names() const {
  std::set<std::string> names;
  for (const auto& [key, points] : series_) names.insert(key.first);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

void ArchiveEvents::fail(const std::string& member, const std::string& text) {
  throw UserError(printable(fmt::format("the archive's member '{}': {}", member, text.substr(0, 300))));
}

}  // namespace mlbench::report
