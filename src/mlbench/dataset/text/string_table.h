#pragma once

// A hash table with texts as keys that is searched by a view, without a copy. Internal to dataset/.

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace mlbench::dataset::text {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};
template <typename Value>
using StringTable = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

}  // namespace mlbench::dataset::text
