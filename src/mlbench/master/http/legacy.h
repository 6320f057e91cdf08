#pragma once

// The API of MLBench's dashboard, for its clients: paths, fields, types and spellings are theirs. Where their server
// answers 304 or 500, this one says what is wrong: 400, 404, 409 or 422 with a JSON message. For legacy_*.cpp alone.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/master/http/services.h"

namespace mlbench::master::legacy {

// ---- requests (legacy_request.cpp); what is wrong in one is HttpError 400 or 404 -----------------------------------

// A form or a JSON object, as texts. JSON booleans are "true" and "false"; objects stay JSON text.
class FieldsOf {
 public:
  // HttpError 413 for a form that is too large, 415 for another content type.
  explicit FieldsOf(const Request& request);
  std::optional<std::string> find(std::string_view name) const;
  std::string need(std::string_view name) const;  // HttpError 400
  // "true" is the only text that means it; a JSON true does not, as in MLBench.
  bool flag(std::string_view name) const { return !is_json_ && find(name) == "true"; }

 private:
  net::http::Fields fields_;
  bool is_json_ = false;
};

int64_t whole(const std::string& text, std::string_view name);
double real(const std::string& text, std::string_view name);

// "1.json" -> "1" and "json". Run ids and pod names of this server hold no such ending.
std::string take_suffix(std::string key, std::string& format);
// "json" or "zip", by the suffix or else the query.
std::string format_of(const Request& request, const std::string& by_suffix, bool zip);

std::filesystem::path folder_of(const Services& services, const std::string& id);

// A pod is a slot of the host.
std::string pod_name(const Services& services, int64_t slot);
std::string labels_of(const Services& services, int64_t slot);

// ---- answers --------------------------------------------------------------------------------------------------------

Response one_run(const Services& services, const Call& call);
Response all_runs(const Services& services, const Call& call);
Response create_run(Services& services, const Call& call);
Response delete_run(Services& services, const Call& call);

Response metrics_of_key(Services& services, const Call& call);
Response all_metrics(Services& services, const Call& call);
Response post_metric(Services& services, const Call& call);

}  // namespace mlbench::master::legacy
