#include "mlbench/metrics/prediction_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/text_blocks.h"

namespace mlbench::metrics {

namespace {

constexpr size_t kMostNamed = 5;  // how many indices an error names

}  // namespace

bool is_below(const Json& value, int64_t end) {
  return value.is_number_integer() && (value.is_number_unsigned() || value.get<int64_t>() >= 0) &&
         value.get<uint64_t>() < static_cast<uint64_t>(end);
}

PredictionLines::PredictionLines(const std::filesystem::path& file, int64_t end, std::string whose)
    : path_(file), file_(file.string()), whose_(std::move(whose)), line_of_(static_cast<size_t>(end), 0) {}

void PredictionLines::fail(const std::string& text) const {
  throw UserError(fmt::format("{}:{}: {}", file_, line_, text));
}

void PredictionLines::read(const std::function<void(const Json& line, size_t index)>& take) {
  std::ifstream in(path_);
  if (!in) throw_system_error(fmt::format("cannot read {}", file_), errno);
  TextBlocks blocks(file_);
  std::vector<char> buffer(inputs::kPredictionLine.most_bytes + 1);
  while (in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    ++line_;
    if (in.fail()) fail(fmt::format("the line is longer than {} bytes", inputs::kPredictionLine.most_bytes));
    const auto counted = static_cast<size_t>(in.gcount());
    const std::string_view text = blocks.take({buffer.data(), in.eof() ? counted : counted - 1}, 1);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json line = try_parse_json(text, inputs::kPredictionLine).value_or(nullptr);
    take(line, index_of(line, text));
  }
  if (in.bad()) throw_system_error(fmt::format("cannot read {}", file_), errno);
}

size_t PredictionLines::index_of(const Json& line, std::string_view text) {
  if (!line.is_object()) {
    fail(fmt::format("'{}' is no JSON object such as {{\"index\": 0, \"label\": 1}}", shortened(text)));
  }
  const auto index = line.find("index");
  if (index == line.end()) fail("there is no \"index\"");
  if (!is_below(*index, std::ssize(line_of_))) {
    fail(fmt::format("index {} is not among {}: 0 to {}", shortened(index->dump()), whose_, line_of_.size() - 1));
  }
  const auto number = index->get<size_t>();
  if (line_of_[number] != 0) fail(fmt::format("index {} was given before, in line {}", number, line_of_[number]));
  line_of_[number] = line_;
  most_ = std::max(most_, static_cast<int64_t>(number));
  return number;
}

void PredictionLines::check_complete(int64_t end) const {
  const std::span lines = std::span(line_of_).first(static_cast<size_t>(end));
  const auto missing = std::ranges::count(lines, 0);
  if (missing == 0) return;
  std::vector<size_t> first;
  for (size_t i = 0; i < lines.size() && first.size() < kMostNamed; ++i) {
    if (lines[i] == 0) first.push_back(i);
  }
  throw UserError(fmt::format("{}: {} of {} have no prediction: {}{}", file_, missing, whose_, fmt::join(first, ", "),
                              static_cast<size_t>(missing) > first.size() ? ", ..." : ""));
}

}  // namespace mlbench::metrics
