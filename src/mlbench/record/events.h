#pragma once

// The one list of what a rank says beside its steps: types of events, and their members with type and unit. Writers
// make events with it, readers look members up with it, and api/event.schema.json is its schema. On disk (spool.h) an
// event is a JSON object on a line: {"event": NAME, "sequence": n, "end_ns": n, ...}.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "mlbench/base/input.h"
#include "mlbench/base/json.h"

namespace mlbench::record {

enum class EventKind {
  kPrepared,
  kBegin,
  kEpoch,
  kEvaluation,
  kCheckpoint,
  kGoal,
  kLossScale,
  kBadImage,
  kAveraging,
  kOperations,
  kCollective,
  kPairs,
  kEnd,
  kFailure
};

enum class MemberType { kText, kInteger, kNumber, kBoolean, kObject, kList };  // a number may be null: NaN or infinite

// A member with its type in C++: std::string, int64_t, double (any number), bool, Json (an object or list).
template <typename T>
struct Member {
  std::string_view name;
  // Makes the member's name and value. A whole number stays whole where the member may be any number.
  template <typename V>
  requires std::convertible_to<V, T> &&(!std::same_as<T, int64_t> || std::integral<V>)std::pair<std::string_view, Json>
  operator()(V value) const {
    return {name, Json(std::move(value))};
  }
};

// Members that every event may have.
namespace member {
inline constexpr Member<int64_t> kSequence{"sequence"};
inline constexpr Member<int64_t> kEndNs{"end_ns"};
inline constexpr Member<int64_t> kStep{"step"};
inline constexpr Member<double> kEpoch{"epoch"};
inline constexpr Member<int64_t> kTrainNs{"train_ns"};
inline constexpr Member<int64_t> kDurationNs{"duration_ns"};
inline constexpr Member<int64_t> kSamples{"samples"};
inline constexpr Member<int64_t> kPeakRss{"peak_rss"};
inline constexpr Member<int64_t> kDeviceReadBytes{"device_read_bytes"};
inline constexpr Member<int64_t> kCallReadBytes{"call_read_bytes"};
inline constexpr Member<int64_t> kObjects{"objects"};
inline constexpr Member<int64_t> kObjectBytes{"object_bytes"};
inline constexpr Member<int64_t> kObjectRequests{"object_requests"};
inline constexpr Member<int64_t> kObjectRetries{"object_retries"};
inline constexpr Member<int64_t> kObjectCacheHits{"object_cache_hits"};
inline constexpr Member<int64_t> kObjectCacheBytes{"object_cache_bytes"};
inline constexpr Member<Json> kRing{"ring"};
inline constexpr Member<Json> kChecks{"checks"};
inline constexpr Member<std::string> kSplit{"split"};
inline constexpr Member<Json> kMetrics{"metrics"};
inline constexpr Member<double> kTrainLoss{"train_loss"};
inline constexpr Member<bool> kCadence{"cadence"};
// of `prepared`
inline constexpr Member<double> kPrepareS{"prepare_s"};
inline constexpr Member<Json> kData{"data"};
// of `begin`
inline constexpr Member<int64_t> kStartStep{"start_step"};
inline constexpr Member<int64_t> kLastStep{"last_step"};
inline constexpr Member<int64_t> kStepsPerEpoch{"steps_per_epoch"};
inline constexpr Member<int64_t> kSamplesBefore{"samples_before"};
inline constexpr Member<int64_t> kParameters{"parameters"};
inline constexpr Member<Json> kEffective{"effective"};
inline constexpr Member<Json> kVersions{"versions"};
inline constexpr Member<std::string> kCommStack{"comm_stack"};
inline constexpr Member<Json> kStorage{"storage"};
inline constexpr Member<Json> kNotes{"notes"};
// of `epoch`, `loss_scale`, `end`
inline constexpr Member<double> kGradientNorm{"gradient_norm"};
inline constexpr Member<int64_t> kClippedSteps{"clipped_steps"};
inline constexpr Member<double> kLossScale{"loss_scale"};
inline constexpr Member<int64_t> kSkippedSteps{"skipped_steps"};
inline constexpr Member<Json> kStaleness{"staleness"};
// of `bad_image`
inline constexpr Member<int64_t> kSample{"sample"};
inline constexpr Member<int64_t> kStandIn{"stand_in"};
inline constexpr Member<std::string> kImage{"image"};
// of `goal`
inline constexpr Member<std::string> kMetric{"metric"};
inline constexpr Member<double> kTarget{"target"};
inline constexpr Member<double> kValue{"value"};
// of `checkpoint`, `operations`, `collective`, `pairs`, `bad_image`, `end`, `failure`
inline constexpr Member<std::string> kPath{"path"};
inline constexpr Member<Json> kOperationCosts{"operations"};
inline constexpr Member<Json> kRow{"row"};
inline constexpr Member<Json> kMatrix{"matrix"};
inline constexpr Member<std::string> kReason{"reason"};
inline constexpr Member<std::string> kWeightsSha256{"weights_sha256"};
inline constexpr Member<std::string> kKind{"kind"};
inline constexpr Member<std::string> kOperation{"operation"};
inline constexpr Member<int64_t> kSequenceNumber{"sequence_number"};
inline constexpr Member<std::string> kMessage{"message"};
}  // namespace member

struct MemberRow {
  std::string_view name;
  MemberType type;
  std::string_view unit;  // "" where there is none
  std::string_view meaning;
};
std::span<const MemberRow> event_members();

struct EventRow {
  EventKind kind;
  std::string_view name;
  std::string_view meaning;
  std::span<const std::string_view> always, sometimes;  // names of its own members; most of `sometimes` are rank 0's
};
std::span<const EventRow> event_types();

std::string_view name_of(EventKind kind);
// Empty for an event of a type that this program does not know.
std::optional<EventKind> kind_of(const Json& event);
inline bool is(const Json& event, EventKind kind) { return kind_of(event) == kind; }

// Makes an event for the recorder, which adds `sequence` and `end_ns`. Throws InternalError for a member that the type
// does not have, and when a member that the type always has is missing.
using Members = std::initializer_list<std::pair<std::string_view, Json>>;
Json make_event(EventKind kind, Members members);
// Adds more members to an event.
void add_members(Json& event, Members members);

// Reads a line of a file of events: an object within the limits (base/input.h) whose members have the types of the
// list. Empty for anything else.
std::optional<Json> parse_event(std::string_view line);

// The member's value; empty where the event has none, null, or a value of another type.
template <typename T>
std::optional<T> find(const Json& event, const Member<T>& member) {
  if (!event.is_object()) return std::nullopt;
  const auto found = event.find(member.name);
  if (found == event.end() || found->is_null()) return std::nullopt;
  if constexpr (std::is_same_v<T, int64_t>) return integer_of(*found);
  if constexpr (std::is_same_v<T, double>)
    return found->is_number() ? std::optional(found->template get<double>()) : std::nullopt;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? std::optional(found->template get<std::string>()) : std::nullopt;
  }
  if constexpr (std::is_same_v<T, bool>)
    return found->is_boolean() ? std::optional(found->template get<bool>()) : std::nullopt;
  if constexpr (std::is_same_v<T, Json>) return *found;
}
// The member's value, or `otherwise` where find() returns none.
template <typename T>
T get(const Json& event, const Member<T>& member, std::type_identity_t<T> otherwise = T{}) {
  return find(event, member).value_or(std::move(otherwise));
}

}  // namespace mlbench::record
