#include "mlbench/master/http/points.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <limits>

#include "mlbench/base/choices.h"
#include "mlbench/master/http/api.h"
#include "mlbench/master/http/dates.h"

namespace mlbench::master {

namespace {

constexpr size_t kMostMetricNameBytes = 250;
constexpr int64_t kMostRank = 1'000'000;
constexpr double kMostSeconds = 1e11;

using simdjson::ondemand::json_type;

class LineReader {
 public:
  LineReader(ParsedBatch& batch, int64_t now_us) : batch_(batch), now_us_(now_us) {}

  // Reads a line of the padded text. Exceptions of simdjson pass through; parse_points() translates them.
  void read(std::string_view line, size_t room) {
    static thread_local simdjson::ondemand::parser parser;
    store::ClientRecord record;
    record.time_us = now_us_;
    bool has_rank = false, has_sequence = false;
    simdjson::ondemand::document document = parser.iterate(line.data(), line.size(), line.size() + room);
    for (auto field : document.get_object()) {
      const std::string_view key = field.unescaped_key();
      simdjson::ondemand::value value = field.value();
      if (key == "rank") {
        record.rank = integer(value, "rank", kMostRank);
        has_rank = true;
      } else if (key == "sequence") {
        record.sequence = integer(value, "sequence", std::numeric_limits<int64_t>::max());
        has_sequence = true;
      } else if (key == "step") {
        record.step = integer(value, "step", std::numeric_limits<int64_t>::max());
      } else if (key == "time") {
        record.time_us = time(value);
      } else if (key == "values") {
        read_values(value.get_object(), record);
      } else {
        throw HttpError(400, unknown_text("field", key, {"rank", "sequence", "step", "time", "values"}));
      }
    }
    // A document that was read to its end has no location.
    if (const char* left = nullptr; document.current_location().get(left) == simdjson::SUCCESS)
      throw HttpError(400, "there is something behind the object");
    if (!has_rank || !has_sequence) throw HttpError(400, "rank and sequence are needed");
    batch_.records.push_back(std::move(record));
  }

 private:
  static int64_t integer(simdjson::ondemand::value value, const char* name, int64_t most) {
    int64_t number = -1;
    if (value.get_int64().get(number) != simdjson::SUCCESS || number < 0 || number > most) {
      throw HttpError(400, fmt::format("{} is no whole number from 0 to {}", name, most));
    }
    return number;
  }

  static int64_t time(simdjson::ondemand::value value) {
    if (value.type() == json_type::string) {
      const std::string_view text = value.get_string();
      if (const auto parsed = parse_date(text)) return *parsed;
      throw HttpError(400, fmt::format("time '{}' is no date", text.substr(0, 40)));
    }
    const double seconds = value.get_double();
    if (!(std::abs(seconds) < kMostSeconds)) throw HttpError(400, "time is no number of seconds since 1970");
    return static_cast<int64_t>(std::llround(seconds * 1e6));
  }

  void read_values(simdjson::ondemand::object values, store::ClientRecord& record) {
    for (auto field : values) {
      const std::string_view name = name_of(field);
      simdjson::ondemand::value value = field.value();
      double number = std::numeric_limits<double>::quiet_NaN();
      if (value.type() == json_type::number) {
        number = value.get_double();
      } else if (!value.is_null()) {
        throw HttpError(400, fmt::format("the value of '{}' is neither a number nor null", name.substr(0, 40)));
      }
      record.values.emplace_back(name, number);
    }
  }

  // Names almost never hold an escape, and then need no copy.
  std::string_view name_of(simdjson::simdjson_result<simdjson::ondemand::field>& field) {
    const char* raw = field.key().value().raw();
    const char* end = raw;
    while (*end != '"' && *end != '\\') ++end;  // the parser has found the closing quote
    std::string_view name;
    if (*end == '"') {
      name = {raw, static_cast<size_t>(end - raw)};
    } else {
      name = batch_.unescaped.emplace_back(std::string_view(field.unescaped_key()));
    }
    const auto control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
    if (name.empty() || name.size() > kMostMetricNameBytes || std::any_of(name.begin(), name.end(), control)) {
      throw HttpError(400, fmt::format("a name has 1 to {} bytes and no control characters", kMostMetricNameBytes));
    }
    return name;
  }

  ParsedBatch& batch_;
  const int64_t now_us_;
};

}  // namespace

ParsedBatch parse_points(const std::string& body, int64_t now_us) {
  ParsedBatch batch;
  batch.padded.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  batch.padded = body;
  batch.padded.append(simdjson::SIMDJSON_PADDING, ' ');
  LineReader reader(batch, now_us);
  const std::string_view text = std::string_view(batch.padded).substr(0, body.size());
  size_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) end = text.size();
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      reader.read(line, batch.padded.size() - static_cast<size_t>(line.data() - batch.padded.data()) - line.size());
    } catch (const simdjson::simdjson_error& error) {
      throw HttpError(400, fmt::format("line {} is no record: {}", number, error.what()));
    } catch (const HttpError& error) {
      throw HttpError(400, fmt::format("line {}: {}", number, error.what()));
    }
  }
  return batch;
}

}  // namespace mlbench::master
