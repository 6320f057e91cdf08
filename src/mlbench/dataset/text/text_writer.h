#pragma once

// Writers of the files that formats of text make. Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/text/text_format.h"

namespace mlbench::dataset::text {

// Writes lines of text into a file. The constructor and close() throw IoError where the disk refuses.
class LineWriter {
 public:
  explicit LineWriter(std::filesystem::path path);
  void add(std::string_view line);
  void close();

 private:
  void check() const;

  std::filesystem::path path_;
  std::ofstream out_;
};

// Writes the files of one split of pairs: both columns, and references where the split is evaluated.
class PairWriter {
 public:
  PairWriter(const TextJob& job, const std::string& split, int64_t vocabulary);

  void add(std::span<const int32_t> source, std::span<const int32_t> target, std::string_view reference);
  bool wants_references() const { return references_.has_value(); }
  int64_t records() const { return records_; }
  void commit();

 private:
  TokenWriter source_, target_;
  std::optional<LineWriter> references_;
  int64_t records_ = 0;
};

// Says a line of progress every 500,000 calls of count(): "tokenising: 0.5 million lines".
class ProgressLines {
 public:
  ProgressLines(const TextJob& job, std::string what) : job_(job), what_(std::move(what)) {}
  void count();

 private:
  const TextJob& job_;
  std::string what_;
  int64_t done_ = 0;
};

}  // namespace mlbench::dataset::text
