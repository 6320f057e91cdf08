#include "mlbench/dataset/text/lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/text.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

namespace {

constexpr size_t kTextBlock = size_t{1} << 20;
constexpr size_t kLongestTextLine = inputs::kTextLine.most_bytes;

[[noreturn]] void refuse_empty(const fs::path& path) {
  throw UserError(path.string() + " is empty: expected text, a sentence a line");
}

// Reads to the end and returns the number of lines, for an error's text.
int64_t count_rest(TextLines& lines) {
  std::string line;
  while (lines.next(line) != TextLines::Kind::kEnd) {
  }
  return lines.number();
}

}  // namespace

TextLines::TextLines(const fs::path& path, TextFile::Origin origin) : file_(path, origin), buffer_(kTextBlock) {}

bool TextLines::refill() {
  begin_ = 0;
  end_ = file_.read(buffer_);
  return end_ > 0;
}

TextLines::Kind TextLines::next(std::string& line) {
  line.clear();
  bool any = false, too_long = false;
  for (;;) {
    if (begin_ == end_ && !refill()) break;
    any = true;
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    const size_t length = rest.find('\n');
    const std::string_view part = rest.substr(0, length);
    too_long = too_long || line.size() + part.size() > kLongestTextLine;
    if (too_long) {
      line.clear();
    } else {
      line += part;
    }
    begin_ += std::min(part.size() + 1, rest.size());
    if (length != std::string_view::npos) break;
  }
  if (!any) return Kind::kEnd;
  ++number_;
  if (line.ends_with('\r')) line.pop_back();
  return too_long ? Kind::kTooLong : Kind::kLine;
}

bool is_table(const fs::path& file) {
  const fs::path name = is_packed(file) ? file.stem() : file.filename();
  return name.extension() == ".tsv";
}

PairReader::PairReader(std::vector<fs::path> files) : files_(std::move(files)) {
  const auto tables = std::ranges::count_if(files_, is_table);
  table_ = tables == std::ssize(files_);
  if (files_.empty() || (tables != 0 && !table_) || (!table_ && files_.size() % 2 != 0)) {
    throw UserError(fmt::format(
        "{}, {} of them *.tsv: expected files of source and target by turns, or *.tsv files with both in each "
        "line alone",
        counted(std::ssize(files_), "file"), tables));
  }
}

bool PairReader::open_next() {
  if (opened_ == files_.size()) return false;
  source_ = std::make_unique<TextLines>(files_[opened_++]);
  target_ = table_ ? nullptr : std::make_unique<TextLines>(files_[opened_++]);
  return true;
}

bool PairReader::next(LinePair& pair) {
  for (;;) {
    if (!source_ && !open_next()) return false;
    if (table_ ? next_of_table(pair) : next_of_two(pair)) {
      ++lines_;
      return true;
    }
    source_.reset();
    target_.reset();
  }
}

bool PairReader::next_of_two(LinePair& pair) {
  const TextLines::Kind source = source_->next(pair.source);
  const TextLines::Kind target = target_->next(pair.target);
  const bool source_ends = source == TextLines::Kind::kEnd, target_ends = target == TextLines::Kind::kEnd;
  if (source_ends && source_->number() == 0) refuse_empty(source_->path());
  if (target_ends && target_->number() == 0) refuse_empty(target_->path());
  if (source_ends != target_ends) {
    throw UserError(
        fmt::format("{} has {} lines, {} has {}: expected as many in both, since a line belongs to the one "
                    "of the same number",
                    source_->path().string(), count_rest(*source_), target_->path().string(), count_rest(*target_)));
  }
  if (source_ends) return false;
  pair.too_long = source == TextLines::Kind::kTooLong || target == TextLines::Kind::kTooLong;
  if (pair.too_long) {
    pair.source.clear();
    pair.target.clear();
  }
  return true;
}

bool PairReader::next_of_table(LinePair& pair) {
  const TextLines::Kind kind = source_->next(pair.source);
  if (kind == TextLines::Kind::kEnd) {
    if (source_->number() == 0) refuse_empty(source_->path());
    return false;
  }
  pair.target.clear();
  pair.too_long = kind == TextLines::Kind::kTooLong;
  if (pair.too_long) return true;
  const size_t tab = pair.source.find('\t');
  if (tab == std::string::npos) {
    throw UserError(
        fmt::format("{}:{}: no TAB, expected source TAB target", source_->path().string(), source_->number()));
  }
  const size_t end = pair.source.find('\t', tab + 1);
  pair.target.assign(pair.source, tab + 1, end == std::string::npos ? end : end - tab - 1);
  pair.source.resize(tab);
  return true;
}

}  // namespace mlbench::dataset::text
