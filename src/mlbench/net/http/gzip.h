#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlbench::net::http {

enum class GzipError { kDamaged, kTooLarge };

struct Gunzipped {
  std::string text;
  std::optional<GzipError> error;
};

// Unpacks a gzip body, also of several members. The result has at most `limit` bytes, else `error` is kTooLarge.
Gunzipped gunzip(std::string_view packed, size_t limit);

}  // namespace mlbench::net::http
