#include "mlbench/report/feed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "mlbench/report/draw/figure.h"

namespace mlbench::report {

using record::Epoch;
using record::Record;

namespace {

constexpr const char* kUnknownBytes = "not known";

std::string bytes_or_unknown(const std::optional<int64_t>& bytes) {
  return bytes ? format_bytes(static_cast<uint64_t>(*bytes)) : kUnknownBytes;
}

// A getter of bytes that were read, in words.
auto bytes_of(std::optional<int64_t> Epoch::*member) {
  return [member](const Epoch& epoch) { return bytes_or_unknown(epoch.*member); };
}

// A getter of a member of the ring, or null.
auto of_ring(auto record::Ring::*member) {
  return [member](const Epoch& epoch) { return epoch.ring ? Json((*epoch.ring).*member) : Json(nullptr); };
}

Form right_text() {
  Form form = forms::kText;
  form.align = Align::kRight;
  return form;
}

Figures<Epoch> feed_figures(bool stored) {
  Figures<Epoch> figures = {
      {"", "epoch", "", [](const Epoch& epoch) { return figure_value(epoch.epoch); }, forms::kShort},
      {"", "accelerator", "used", &Epoch::accelerator_utilisation, forms::kPercent},
      {"", "batches", "", of_ring(&record::Ring::takes), forms::kCount},
      {"", "ring empty", "for batches", of_ring(&record::Ring::waits), forms::kCount},
      {"", "ready", "in the mean", of_ring(&record::Ring::mean_fill), forms::kFixed2},
      {"", "ready", "at least", of_ring(&record::Ring::min_fill), forms::kCount},
      {"", "ready", "at most", of_ring(&record::Ring::capacity), forms::kCount},
      {"", "read", "from devices", bytes_of(&Epoch::device_read_bytes), right_text()},
      {"", "read", "by calls", bytes_of(&Epoch::call_read_bytes), right_text()},
  };
  if (stored) {
    figures.emplace_back("", "read", "from the store", bytes_of(&Epoch::object_bytes), right_text());
    figures.emplace_back("", "read", "from its cache", bytes_of(&Epoch::object_cache_bytes), right_text());
  }
  return figures;
}

}  // namespace

std::string accelerator_words(const Record& record, const RunFigures& figures) {
  if (!record.emulated_step_s) return "";
  std::string words =
      fmt::format("emulated step of {:g} s, {} used; read from devices: {}, by calls: {}", *record.emulated_step_s,
                  format_percent(figures.accelerator_utilisation), bytes_or_unknown(record.storage.device_read_bytes),
                  bytes_or_unknown(record.storage.call_read_bytes));
  if (record.storage.objects) {
    words += fmt::format(", from the store: {}, from its cache: {}", bytes_or_unknown(record.storage.bytes),
                         bytes_or_unknown(record.storage.cache_bytes));
  }
  return words;
}

std::string ring_words(const Record& record) {
  if (!record.ring) return "";
  const record::Ring& ring = *record.ring;
  return fmt::format("{} batches; empty for {} of {} steps; {:.2f} ready in the mean, {} at least", ring.capacity,
                     format_count(ring.waits), format_count(ring.takes), ring.mean_fill, ring.min_fill);
}

std::string checks_words(const Record& record) {
  if (!record.storage.checks) return "";
  std::vector<std::string> words;
  const auto add = [&](const char* what, const std::optional<record::CheckedBytes>& checked) {
    if (!checked) return;
    words.push_back(fmt::format("{}: {} in {} s", what, format_bytes(static_cast<uint64_t>(checked->bytes)),
                                format_seconds(checked->seconds)));
  };
  add("SHA-256 of images", record.storage.checks->images);
  add("MD5 of objects", record.storage.checks->objects);
  add("CRC-32C of the cache's blocks", record.storage.checks->cache_blocks);
  add("CRC-32C of records", record.storage.checks->records);
  return fmt::format("{}", fmt::join(words, "; "));
}

std::optional<Section> feed_section(const Record& record) {
  const bool decodes = record.effective && record.effective->decoding_threads;
  if (!decodes || record.epochs.empty()) return std::nullopt;
  const bool stored =
      std::ranges::any_of(record.epochs, [](const Epoch& epoch) { return epoch.object_bytes.has_value(); });
  return Section{"How steps were fed, by epoch", {}, table_of(feed_figures(stored), record.epochs)};
}

}  // namespace mlbench::report
