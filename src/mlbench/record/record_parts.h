#pragma once

// What the makers of a record's parts share. Only build_record.cpp, curve.cpp and feed.cpp include this header.

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/events.h"
#include "mlbench/record/spool.h"

namespace mlbench::record {

// Returns null also where `object` is no object: a rank may not have said it yet.
inline Json field_of(const Json& object, std::string_view name) {
  return object.is_object() ? object.value(name, Json(nullptr)) : Json(nullptr);
}

template <typename T>
Json field_of(const Json& event, const Member<T>& member) {
  return field_of(event, member.name);
}

inline std::vector<Json> events_of(const RankSpool& spool, EventKind kind) {
  std::vector<Json> found;
  std::ranges::copy_if(spool.events, std::back_inserter(found), [&](const Json& event) { return is(event, kind); });
  return found;
}

}  // namespace mlbench::record
