#include "mlbench/record/feed.h"

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/record/events.h"
#include "mlbench/record/record.h"
#include "mlbench/record/record_fields.h"
#include "mlbench/record/record_parts.h"
#include "mlbench/record/spool.h"

namespace mlbench::record {

namespace {

// The sum of a member over one event of each rank; empty where a rank did not say it.
std::optional<int64_t> sum_of(const std::vector<Json>& events, const Member<int64_t>& member) {
  int64_t sum = 0;
  for (const Json& event : events) {
    const auto value = find(event, member);
    if (!value) return std::nullopt;
    sum += *value;
  }
  return events.empty() ? std::nullopt : std::optional(sum);
}

// A member that is an object; empty where the event has none, or one of another form.
template <typename T>
std::optional<T> part_in(const Json& event, const Member<Json>& member) {
  const auto given = find(event, member);
  if (!given) return std::nullopt;
  try {
    return read_part<T>(*given, std::string(member.name));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// The rings of all events as one; empty where one of them has none, or no batch was taken.
std::optional<Ring> ring_of(const std::vector<Json>& events) {
  Ring all;
  double fills = 0;
  for (const Json& event : events) {
    const auto ring = part_in<Ring>(event, member::kRing);
    if (!ring) return std::nullopt;
    if (ring->takes <= 0) continue;
    all.min_fill = all.takes == 0 ? ring->min_fill : std::min(all.min_fill, ring->min_fill);
    all.capacity = std::max(all.capacity, ring->capacity);
    all.takes += ring->takes;
    all.waits += ring->waits;
    fills += ring->mean_fill * static_cast<double>(ring->takes);
  }
  if (all.takes == 0) return std::nullopt;
  all.mean_fill = fills / static_cast<double>(all.takes);
  return all;
}

// What all ranks have checked. One that checked nothing of a kind does not say it; empty where a rank said nothing at
// all, or nobody checked anything.
std::optional<Checks> checks_of(const std::vector<Json>& words) {
  Checks all;
  bool any = false;
  for (const Json& word : words) {
    if (word.is_null()) return std::nullopt;
    const auto checks = part_in<Checks>(word, member::kChecks);
    if (!checks) continue;
    any = true;
    for (const auto kind : {&Checks::images, &Checks::objects, &Checks::cache_blocks, &Checks::records}) {
      const std::optional<CheckedBytes>& one = (*checks).*kind;
      if (!one) continue;
      std::optional<CheckedBytes>& sum = all.*kind;
      if (!sum) sum.emplace();
      sum->bytes += one->bytes;
      sum->seconds += one->seconds;
    }
  }
  return any ? std::optional(all) : std::nullopt;
}

// The last word of a rank in a segment, which says what the rank had read. Null where there is none: it was killed.
Json last_word_of(const RankSpool& spool) {
  for (auto event = spool.events.rbegin(); event != spool.events.rend(); ++event) {
    if (is(*event, EventKind::kEnd) || is(*event, EventKind::kFailure)) return *event;
  }
  return {};
}

// What each rank says at the end of the epoch; null of a rank that does not say it.
std::vector<Json> ends_of(const Epoch& epoch, const std::vector<std::vector<RankSpool>>& ranks) {
  std::vector<Json> ends;
  for (const auto& segments : ranks) {
    ends.emplace_back();
    if (epoch.segment.value_or(0) < 1 || *epoch.segment > std::ssize(segments)) continue;
    for (const Json& event : events_of(segments[static_cast<size_t>(*epoch.segment - 1)], EventKind::kEpoch)) {
      if (find(event, member::kEpoch) == epoch.epoch) ends.back() = event;
    }
  }
  return ends;
}

}  // namespace

Json to_json(const Ring& ring) { return written(ring); }
Json to_json(const Checks& checks) { return written(checks); }

std::optional<Ring> tell_feed(const std::vector<std::vector<RankSpool>>& ranks, std::vector<Epoch>& epochs,
                              Storage& storage) {
  for (Epoch& epoch : epochs) {
    const std::vector<Json> ends = ends_of(epoch, ranks);
    epoch.device_read_bytes = sum_of(ends, member::kDeviceReadBytes);
    epoch.call_read_bytes = sum_of(ends, member::kCallReadBytes);
    epoch.object_bytes = sum_of(ends, member::kObjectBytes);
    epoch.object_cache_bytes = sum_of(ends, member::kObjectCacheBytes);
    epoch.ring = ring_of(ends);
  }
  std::vector<Json> words;
  for (const auto& segments : ranks) {
    for (const RankSpool& spool : segments) {
      words.push_back(last_word_of(spool));
      // Each rank lists the same, so that one that says it is enough.
      if (!storage.objects) storage.objects = find(words.back(), member::kObjects);
    }
  }
  storage.device_read_bytes = sum_of(words, member::kDeviceReadBytes);
  storage.call_read_bytes = sum_of(words, member::kCallReadBytes);
  storage.bytes = sum_of(words, member::kObjectBytes);
  storage.requests = sum_of(words, member::kObjectRequests);
  storage.retries = sum_of(words, member::kObjectRetries);
  storage.cache_hits = sum_of(words, member::kObjectCacheHits);
  storage.cache_bytes = sum_of(words, member::kObjectCacheBytes);
  storage.checks = checks_of(words);
  return ring_of(words);
}

}  // namespace mlbench::record
