#include "mlbench/base/choices.h"
#include "mlbench/base/to_number.h"
#include "mlbench/master/http/legacy.h"

#include <fmt/format.h>

#include <cmath>

#include "mlbench/base/input.h"

namespace mlbench::master::legacy {

namespace fs = std::filesystem;

FieldsOf::FieldsOf(const Request& request) {
  const std::string type = request.content_type();
  if (type == "application/x-www-form-urlencoded" || type == "multipart/form-data") {
    size_t bytes = 0;
    for (const auto& [name, value] : request.form) bytes += name.size() + value.size();
    if (bytes > inputs::kForm.most_bytes) {
      throw HttpError(413, fmt::format("a form of {} bytes: at most {}", bytes, inputs::kForm.most_bytes));
    }
    fields_ = request.form;
    return;
  }
  if (type != "application/json") {
    throw HttpError(415, fmt::format("Unsupported media type \"{}\" in request.", type.substr(0, 80)));
  }
  is_json_ = true;
  const Json body = json_body(request);
  for (const auto& [key, value] : body.items()) {
    fields_.emplace_back(
        key, value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

std::optional<std::string> FieldsOf::find(std::string_view name) const {
  for (auto one = fields_.rbegin(); one != fields_.rend(); ++one) {
    if (one->first == name) return one->second;
  }
  return std::nullopt;
}

std::string FieldsOf::need(std::string_view name) const {
  if (auto value = find(name)) return *value;
  throw HttpError(400, fmt::format("{} has to be supplied", name));
}

int64_t whole(const std::string& text, std::string_view name) {
  const auto value = to_number<int64_t>(text);
  if (!value) throw HttpError(400, fmt::format("{} '{}' is no whole number", name, text.substr(0, 40)));
  return *value;
}

double real(const std::string& text, std::string_view name) {
  const auto value = to_number<double>(text);
  if (!value || !std::isfinite(*value)) {
    throw HttpError(400, fmt::format("{} '{}' is no number", name, text.substr(0, 40)));
  }
  return *value;
}

std::string take_suffix(std::string key, std::string& format) {
  for (const char* suffix : {".json", ".zip"}) {
    if (!key.ends_with(suffix)) continue;
    format = suffix + 1;
    key.resize(key.size() - std::string_view(suffix).size());
    break;
  }
  return key;
}

std::string format_of(const Request& request, const std::string& by_suffix, bool zip) {
  const std::string format = by_suffix.empty() ? request.query("format").value_or("json") : by_suffix;
  std::vector<std::string> valid = {"json"};
  if (zip) valid.emplace_back("zip");
  if (std::ranges::find(valid, format) != valid.end()) return format;
  throw HttpError(404, unknown_text("format", format, valid));
}

fs::path folder_of(const Services& services, const std::string& id) {
  if (id.empty() || id.find_first_not_of("0123456789") != std::string::npos) {
    throw HttpError(404, fmt::format("there is no run with id '{}'", id.substr(0, 40)));
  }
  return find_run_folder(services, id);
}

std::string pod_name(const Services& services, int64_t slot) {
  return fmt::format("{}-{}", services.hosts.host(), slot);
}

std::string labels_of(const Services& services, int64_t slot) {
  return fmt::format("{{'app': 'mlbench', 'component': 'worker', 'slot': '{}', 'host': '{}'}}", slot,
                     services.hosts.host());
}

}  // namespace mlbench::master::legacy
