#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/sparse_rows.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset {

namespace {

constexpr size_t kBlock = size_t{4} << 20;
constexpr size_t kLongestLine = inputs::kTextRow.most_bytes;  // a file without line ends must not fill the memory

// The lines of a file, without their ends.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : file_(path), buffer_(kBlock) {}

  // The next line, valid until the next call; empty at the end of the file.
  std::optional<std::string_view> next() {
    for (;;) {
      const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
      const size_t length = rest.find('\n');
      if (length == std::string_view::npos && !at_end_) {
        refill();
        continue;
      }
      if (length == std::string_view::npos && rest.empty()) return std::nullopt;
      ++number_;
      std::string_view line = rest.substr(0, length);
      begin_ += std::min(line.size() + 1, rest.size());
      if (line.ends_with('\r')) line.remove_suffix(1);
      return line;
    }
  }

  [[noreturn]] void fail(const std::string& text) const {
    throw UserError(fmt::format("{}:{}: {}", file_.path().string(), number_, text));
  }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void refill() {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (end_ == buffer_.size()) {
      if (buffer_.size() >= kLongestLine) {
        ++number_;
        fail(fmt::format("no end of line within {} bytes", buffer_.size()));
      }
      buffer_.resize(2 * buffer_.size());
    }
    const size_t wanted = buffer_.size() - end_;
    const size_t count = file_.read(std::span(buffer_).subspan(end_));
    end_ += count;
    at_end_ = count < wanted;
  }

  TextFile file_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // the part of `buffer_` that next() has not given yet
  bool at_end_ = false;
  int64_t number_ = 0;
};

bool is_space(char c) { return c == ' ' || c == '\t'; }

// Parses one line from left to right.
class RowParser {
 public:
  RowParser(std::string_view line, const Lines& lines)
      : lines_(lines), at_(line.data()), end_(line.data() + line.size()) {}

  int64_t label(int64_t classes) {
    skip_spaces();
    if (at_ == end_) lines_.fail("empty line, expected 'label index:value ...'");
    const char* token = at_;
    double value = 0;
    if (!number(value) || !at_token_end()) lines_.fail(fmt::format("'{}' is no label", token_from(token)));
    const auto label = class_of_label(value, classes);
    if (!label) lines_.fail(fmt::format("label {}, expected {}", token_from(token), label_choices(classes)));
    return *label;
  }

  // Calls `take(position, value)` for each feature in the rest of the line, with rising positions in [0, dimension).
  template <typename Take>
  void features(int64_t dimension, const Take& take) {
    int64_t last = 0;
    for (skip_spaces(); at_ != end_; skip_spaces()) {
      const char* token = at_;
      int64_t index = 0;
      const auto [colon, error] = std::from_chars(at_, end_, index);
      if (error != std::errc() || colon == end_ || *colon != ':') {
        lines_.fail(fmt::format("'{}', expected index:value", token_from(token)));
      }
      at_ = colon + 1;
      float value = 0;
      if (!number(value) || !at_token_end()) {
        lines_.fail(fmt::format("'{}', expected index:value with a finite number", token_from(token)));
      }
      if (index < 1 || index > dimension) lines_.fail(fmt::format("index {}, expected 1 to {}", index, dimension));
      if (index <= last) lines_.fail(fmt::format("index {} after {}, expected rising indices", index, last));
      take(index - 1, value);
      last = index;
    }
  }

 private:
  void skip_spaces() {
    while (at_ != end_ && is_space(*at_)) ++at_;
  }
  bool at_token_end() const { return at_ == end_ || is_space(*at_); }
  std::string_view token_from(const char* first) const {
    const char* last = first;
    while (last != end_ && !is_space(*last)) ++last;
    return {first, static_cast<size_t>(std::min<std::ptrdiff_t>(last - first, 40))};
  }

  template <typename T>
  bool number(T& value) {
    if (at_ != end_ && *at_ == '+') {  // common in labels, and unknown to from_chars
      ++at_;
      if (at_ != end_ && *at_ == '-') return false;
    }
    auto [end, error] = std::from_chars(at_, end_, value);
    if (error == std::errc::result_out_of_range) {
      // A number too small for T becomes zero, one too large is refused: strtod tells them apart.
      value = static_cast<T>(std::strtod(std::string(at_, end).c_str(), nullptr));
      error = std::errc();
    }
    if (error != std::errc() || !std::isfinite(value)) return false;
    at_ = end;
    return true;
  }

  const Lines& lines_;
  const char* at_;
  const char* end_;
};

// Reads one sample per line: sets labels, and calls `read(parser)` for the features of each sample, in order.
template <typename Read>
void read_samples(const std::filesystem::path& file, int64_t classes, std::span<int64_t> labels, const Read& read) {
  Lines lines(file);
  size_t sample = 0;
  while (const auto line = lines.next()) {
    if (sample == labels.size()) lines.fail(fmt::format("goes on after its {} samples", labels.size()));
    RowParser parser(*line, lines);
    labels[sample] = parser.label(classes);
    read(parser);
    ++sample;
  }
  if (sample < labels.size()) {
    throw UserError(
        fmt::format("{}: ends after {} samples, expected {}", lines.path().string(), sample, labels.size()));
  }
}

}  // namespace

std::optional<int64_t> class_of_label(double label, int64_t classes) {
  if (classes == 2 && label == -1) return 0;
  if (label != std::floor(label) || label < 0 || label >= static_cast<double>(classes)) return std::nullopt;
  return static_cast<int64_t>(label);
}

std::string label_choices(int64_t classes) {
  return classes == 2 ? "-1 or 0, or 1" : fmt::format("0 to {}", classes - 1);
}

void read_libsvm(const DatasetDescription& description, const SplitSpec&,
                 const std::vector<std::filesystem::path>& files, const SplitBuffers& out) {
  const int64_t volume = description.sample_volume();
  auto* row = reinterpret_cast<float*>(out.features.data());
  read_samples(files[0], description.classes, out.labels, [&](RowParser& parser) {
    std::fill_n(row, volume, 0.0F);
    parser.features(volume, [row](int64_t position, float value) { row[position] = value; });
    row += volume;
  });
}

void read_libsvm_sparse(const DatasetDescription& description, const SplitSpec&,
                        const std::vector<std::filesystem::path>& files, SplitWriter& out) {
  const std::span<std::byte> labels = out.values("labels");
  std::vector<SparseEntry> row;
  read_samples(files[0], description.classes,
               {reinterpret_cast<int64_t*>(labels.data()), labels.size() / sizeof(int64_t)}, [&](RowParser& parser) {
                 row.clear();
                 parser.features(description.sample_volume(), [&](int64_t position, float value) {
                   if (value != 0) row.push_back({static_cast<int32_t>(position), value});
                 });
                 out.append("features", std::as_bytes(std::span(row)));
               });
}

}  // namespace mlbench::dataset
