#pragma once

// The API of MLBench's dashboard, for its clients: paths, fields, types and spellings are MLBench's. Where MLBench's
// server answers 304 or 500, this one answers 400, 404, 409 or 422 with a JSON message that says what is wrong.
// Internal to legacy_*.cpp.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/master/http/services.h"

namespace mlbench::master::legacy {

// ---- requests (legacy_request.cpp); errors in a request throw HttpError 400 or 404 ---------------------------------

// The fields of a form or a JSON object, as texts. JSON booleans are "true" and "false"; objects stay JSON text.
class FieldsOf {
 public:
  // Throws HttpError 413 for a form that is too large, and 415 for another content type.
  explicit FieldsOf(const Request& request);
  std::optional<std::string> find(std::string_view name) const;
  std::string need(std::string_view name) const;  // throws HttpError 400 where it is missing
  // Whether a form has the text "true"; a JSON true does not count, as in MLBench.
  bool flag(std::string_view name) const { return !is_json_ && find(name) == "true"; }

 private:
  net::http::Fields fields_;
  bool is_json_ = false;
};

int64_t whole(const std::string& text, std::string_view name);
double real(const std::string& text, std::string_view name);

// Splits "1.json" into "1" (returned) and "json" (in `format`); `format` is unchanged without such an ending. Run ids
// and pod names of this server hold no such ending.
std::string take_suffix(std::string key, std::string& format);
// The format of the answer: `by_suffix`, else that of the query, else "json". Throws HttpError 404 for one that is
// neither "json" nor, where `zip` allows it, "zip".
std::string format_of(const Request& request, const std::string& by_suffix, bool zip);

std::filesystem::path folder_of(const Services& services, const std::string& id);

// A pod is a slot of this host.
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
