#include "mlbench/objects/location.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/text.h"
#include "mlbench/net/http/message.h"
#include "mlbench/objects/credentials.h"

namespace mlbench::objects {

namespace {

constexpr std::string_view kScheme = "s3://";

std::string first_of(std::initializer_list<std::string> texts) {
  for (const std::string& text : texts) {
    if (!text.empty()) return text;
  }
  return "";
}

std::string variable_or_empty(const char* name) { return environment_variable(name).value_or(""); }

bool all_of_name(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           more.find(c) != std::string_view::npos;
  });
}

std::string checked_endpoint(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool known = endpoint.starts_with("http://") || endpoint.starts_with("https://");
  // The endpoint is not repeated: somebody may have put a password there.
  if (endpoint.find('@') != std::string::npos) {
    throw UserError(
        "the endpoint of the object store has a name or password in it: credentials come from "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile");
  }
  if (!known || has_control_character(endpoint) || endpoint.find_first_of(" ?#\\") != std::string::npos) {
    throw UserError(
        fmt::format("endpoint '{}': expected http://HOST[:PORT] or https://HOST[:PORT]", shortened(endpoint)));
  }
  return endpoint;
}

}  // namespace

std::string Location::place() const {
  return fmt::format("{}{}{}{}", kScheme, bucket, prefix.empty() ? "" : "/", prefix);
}

std::string Location::url(std::string_view key) const {
  std::string url = endpoint;
  if (is_virtual) {
    url.insert(url.find("://") + 3, bucket + ".");
  } else {
    url += "/" + bucket;
  }
  if (key.empty()) return is_virtual ? url + "/" : url;
  for (const std::string& part : split_at(key, '/')) url += "/" + net::http::percent_encode(part);
  return url;
}

Location locate(const std::string& place, const StoreOptions& options) {
  Location location;
  const std::string rest = place.substr(kScheme.size());
  const size_t slash = rest.find('/');
  location.bucket = rest.substr(0, slash);
  if (location.bucket.size() < 3 || location.bucket.size() > 63 || !all_of_name(location.bucket, ".-_")) {
    throw UserError(
        fmt::format("'{}': expected s3://BUCKET/PREFIX with a bucket of 3 to 63 letters, digits, '.', '-' "
                    "or '_'",
                    shortened(place)));
  }
  if (slash != std::string::npos) location.prefix = rest.substr(slash + 1);
  while (location.prefix.ends_with('/')) location.prefix.pop_back();
  if (!location.prefix.empty()) {
    check_key(kScheme, location.prefix);
    location.prefix += '/';
  }
  location.region = first_of({options.region, variable_or_empty("AWS_REGION"), variable_or_empty("AWS_DEFAULT_REGION"),
                              profile_setting("region"), "us-east-1"});
  if (!all_of_name(location.region, "-_") || location.region.size() > 63) {
    throw UserError(fmt::format("region '{}': expected letters, digits and '-'", shortened(location.region)));
  }
  const std::string given = first_of({options.endpoint, variable_or_empty("AWS_ENDPOINT_URL_S3"),
                                      variable_or_empty("AWS_ENDPOINT_URL"), profile_setting("endpoint_url")});
  location.endpoint =
      checked_endpoint(given.empty() ? fmt::format("https://s3.{}.amazonaws.com", location.region) : given);
  if (!options.style.empty() && options.style != "path" && options.style != "virtual") {
    throw UserError(unknown_text("style", options.style, {"path", "virtual"}));
  }
  location.is_virtual = options.style.empty() ? given.empty() : options.style == "virtual";
  return location;
}

}  // namespace mlbench::objects
