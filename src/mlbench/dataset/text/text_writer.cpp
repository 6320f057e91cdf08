#include "mlbench/dataset/text/text_writer.h"

#include <fmt/format.h>

#include "mlbench/base/system_error.h"
#include "mlbench/spec/split.h"

namespace mlbench::dataset::text {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kLinesBetweenNews = 500'000;

}  // namespace

fs::path tokens_path(const fs::path& folder, const std::string& split, const std::string& column) {
  return folder / (column == "tokens" ? split + ".tokens" : split + "." + column + ".tokens");
}
fs::path references_path(const fs::path& folder, const std::string& split) {
  return folder / (split + ".references.txt");
}
fs::path vocabulary_path(const fs::path& folder) { return folder / "vocabulary.txt"; }

LineWriter::LineWriter(fs::path path) : path_(std::move(path)), out_(path_, std::ios::binary) { check(); }

void LineWriter::add(std::string_view line) { out_ << line << '\n'; }

void LineWriter::close() {
  out_.close();
  check();
}

void LineWriter::check() const {
  if (!out_) throw_system_error("cannot write " + path_.string(), errno);
}

PairWriter::PairWriter(const TextJob& job, const std::string& split, int64_t vocabulary)
    : source_(tokens_path(job.folder, split, "source"), vocabulary),
      target_(tokens_path(job.folder, split, "target"), vocabulary) {
  if (split != spec::kTrainSplit) references_.emplace(references_path(job.folder, split));
}

void PairWriter::add(std::span<const int32_t> source, std::span<const int32_t> target, std::string_view reference) {
  source_.add(source);
  target_.add(target);
  if (references_) references_->add(reference);
  ++records_;
}

void PairWriter::commit() {
  source_.commit();
  target_.commit();
  if (references_) references_->close();
}

void ProgressLines::count() {
  if (++done_ % kLinesBetweenNews == 0) {
    job_.say(fmt::format("{}: {:.1f} million lines", what_, static_cast<double>(done_) / 1e6));
  }
}

}  // namespace mlbench::dataset::text
