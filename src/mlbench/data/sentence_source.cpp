#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "mlbench/data/sample_source.h"
#include "mlbench/dataset/cached_tokens.h"

namespace mlbench::data {

namespace {

using dataset::kBegin;
using dataset::kEnd;
using dataset::kPad;

enum Slot : size_t { kSource, kTargetIn, kTargetOut, kSourceLengths, kTargetLengths, kSlots };
constexpr std::array<const char*, kSlots> kNames = {"source", "target_in", "target_out", "source_lengths",
                                                    "target_lengths"};

int64_t rounded_up(int64_t length, int64_t multiple) { return (length + multiple - 1) / multiple * multiple; }

// Writes a sentence into its row: `first` where that is not padding, the tokens, `last` where that is not padding, then
// padding.
void write_row(std::span<const int32_t> tokens, int32_t first, int32_t last, std::span<int64_t> row) {
  auto out = row.begin();
  if (first != kPad) *out++ = first;
  out = std::copy(tokens.begin(), tokens.end(), out);
  if (last != kPad) *out++ = last;
  std::fill(out, row.end(), int64_t{kPad});
}

std::vector<int64_t> all_records(const dataset::CachedSplit& split) {
  std::vector<int64_t> records(static_cast<size_t>(split.samples));
  std::iota(records.begin(), records.end(), 0);
  return records;
}

std::string_view bytes_of(std::span<const int32_t> tokens) {
  const std::span<const std::byte> bytes = std::as_bytes(tokens);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

SentenceSource::SentenceSource(const dataset::CachedSplit& split, const SentenceOptions& options)
    : SentenceSource(split, options, all_records(split)) {}

SentenceSource::SentenceSource(const dataset::CachedSplit& split, const SentenceOptions& options,
                               std::vector<int64_t> records)
    : source_(split.column<dataset::TokenColumn>("source")),
      target_(split.column<dataset::TokenColumn>("target")),
      options_(options),
      kept_(std::move(records)) {
  if (options.max_length == 0) return;
  std::erase_if(kept_, [&](int64_t i) { return std::max(source_.length(i), target_.length(i)) > options.max_length; });
}

std::span<const int32_t> SentenceSource::cut(std::span<const int32_t> tokens) const {
  const auto most = static_cast<size_t>(options_.cut_length);
  return most > 0 && tokens.size() > most ? tokens.first(most) : tokens;
}

int64_t SentenceSource::length(int64_t sentence) const {
  return std::max(std::ssize(cut(source_.record(sentence))), std::ssize(cut(target_.record(sentence)))) + 1;
}

int64_t SentenceSource::weight(int64_t sentence) const { return std::ssize(cut(target_.record(sentence))) + 1; }

void SentenceSource::fill(const SampleRequest& request, BatchView& view, BatchMemory& memory) const {
  const std::span<const int64_t> rows = request.rows;
  const auto count = std::ssize(rows);
  const std::span<int64_t> source_lengths = memory.integers(kSourceLengths, count);
  const std::span<int64_t> target_lengths = memory.integers(kTargetLengths, count);
  int64_t longest_source = 0, longest_target = 0;
  view.samples = count;
  view.weight = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    source_lengths[i] = std::ssize(cut(source_.record(rows[i]))) + 1;
    target_lengths[i] = weight(rows[i]);
    longest_source = std::max(longest_source, source_lengths[i]);
    longest_target = std::max(longest_target, target_lengths[i]);
    view.weight += target_lengths[i];
  }
  const int64_t source_positions = rounded_up(longest_source, options_.multiple);
  const int64_t target_positions = rounded_up(longest_target, options_.multiple);
  const std::array<std::vector<int64_t>, kSlots> shapes = {
      {{count, source_positions}, {count, target_positions}, {count, target_positions}, {count}, {count}}};
  view.tensors.resize(kSlots);
  std::array<std::span<int64_t>, kSlots> values;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    values[slot] = memory.integers(slot, volume_of(shapes[slot]));
    view.tensors[slot] = {kNames[slot], shapes[slot], const_view_of(std::span<const int64_t>(values[slot])), {}};
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row_of = [&](Slot slot) {
      const auto width = static_cast<size_t>(shapes[slot][1]);
      return values[slot].subspan(i * width, width);
    };
    const std::span<const int32_t> target = cut(target_.record(rows[i]));
    write_row(cut(source_.record(rows[i])), kPad, kEnd, row_of(kSource));
    write_row(target, kBegin, kPad, row_of(kTargetIn));
    write_row(target, kPad, kEnd, row_of(kTargetOut));
  }
}

Holdout hold_out_pairs(const dataset::CachedSplit& split, double share) {
  Holdout parts = hold_out(split.column<dataset::TokenColumn>("source").records(), share);
  for (const char* side : {"source", "target"}) {
    const auto& sentences = split.column<dataset::TokenColumn>(side);
    std::unordered_set<std::string_view> held_out;
    for (const int64_t pair : parts.held_out) held_out.insert(bytes_of(sentences.record(pair)));
    std::erase_if(parts.trained, [&](int64_t pair) { return held_out.contains(bytes_of(sentences.record(pair))); });
  }
  return parts;
}

}  // namespace mlbench::data
