#include "mlbench/report/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/input.h"
#include "mlbench/base/run_folder.h"

namespace mlbench::report {

namespace fs = std::filesystem;

namespace {
constexpr std::uintmax_t kMostTailBytes = 4 << 20;
}

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::symlink_status(spec_path(folder), error).type() != fs::file_type::not_found && !error;
}

std::vector<std::string> run_names(const fs::path& home) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runs_dir(home), error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with('.') && is_run(entry.path())) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<fs::path> list_runs(const fs::path& home) {
  std::vector<std::pair<int64_t, fs::path>> runs;
  for (const std::string& name : run_names(home)) {
    const fs::path folder = runs_dir(home) / name;
    int64_t id = 0;
    try {
      id = integer_member(read_json_file(spec_path(folder), inputs::kSpec), "id");
    } catch (const std::exception&) {
      // A damaged spec is still a folder that the user can see and delete.
    }
    runs.emplace_back(id, folder);
  }
  std::sort(runs.begin(), runs.end());
  std::vector<fs::path> folders;
  for (auto& [id, folder] : runs) folders.push_back(std::move(folder));
  return folders;
}

fs::path find_run(const fs::path& home, const std::string& name) {
  const bool plain = name.find('/') == std::string::npos && !name.starts_with('.');
  if (plain && is_run(runs_dir(home) / name)) return runs_dir(home) / name;
  const std::vector<std::string> names = run_names(home);
  if (names.empty()) {
    throw UserError(fmt::format("no run '{}': {} holds no runs yet; start one with: mlbench run NAME K --task TASK",
                                name, runs_dir(home).string()));
  }
  std::vector<std::string> meant = nearest(name, names);
  if (meant.empty()) {  // the latest ones
    for (const fs::path& folder : list_runs(home)) meant.push_back(folder.filename());
    meant.erase(meant.begin(), meant.end() - std::min<std::ptrdiff_t>(3, std::ssize(meant)));
  }
  throw UserError(fmt::format("no run '{}' in {}; there are {}: {}{} (all: mlbench status)", name,
                              runs_dir(home).string(), names.size(), fmt::join(meant, ", "),
                              meant.size() < names.size() ? ", ..." : ""));
}

namespace {

constexpr double kMostWorkers = 65'536, kMostSegments = 10'000, kMostSpools = 500'000;

bool is_or_null(const Json& value, std::string_view type) {
  if (value.is_null()) return true;
  return type == "text"            ? value.is_string()
         : type == "number"        ? value.is_number()
         : type == "whole number"  ? value.is_number_integer() && std::abs(value.get<double>()) < 9e18
         : type == "true or false" ? value.is_boolean()
         : type == "list"          ? value.is_array()
                                   : value.is_object();
}

struct MemberType {
  std::string_view type;
  std::vector<std::string_view> names;
};

void check_members(const Json& object, const std::string& path, const std::vector<MemberType>& types) {
  for (const MemberType& row : types) {
    for (const std::string_view name : row.names) {
      const auto found = object.find(name);
      if (found != object.end() && !is_or_null(*found, row.type)) {
        throw UserError(fmt::format("the record's {}{} is no {}", path, name, row.type));
      }
    }
  }
}

// Members that readers take without asking, so that null is none of their values.
void check_present(const Json& object, const std::string& path, const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    const auto found = object.find(name);
    if (found != object.end() && found->is_null())
      throw UserError(fmt::format("the record's {}{} is null", path, name));
  }
}

}  // namespace

void check_record(const Json& record) {
  if (!record.is_object()) throw UserError("the record is no JSON object");
  check_members(
      record, "",
      {{"text",
        {"name", "state", "created_at", "started_at", "finished_at", "executor", "task", "rules", "variant", "division",
         "task_hash", "framework", "backend", "comm_stack", "weights_sha256", "stop_reason"}},
       {"whole number", {"id", "repeat", "workers", "threads_per_worker", "seed"}},
       {"true or false", {"oversubscribed", "shared_host"}},
       {"list",
        {"overrides", "exit_codes", "notes", "segments", "placement", "hosts", "evaluations", "epochs", "operations"}},
       {"object",
        {"communication", "limits", "requested", "effective", "failure", "environment", "data", "storage", "goal",
         "engine", "allocation", "clocks", "steps_s", "exchange", "throughput", "utilisation", "custom"}}});
  check_present(
      record, "",
      {"id", "name", "state", "created_at", "overrides", "segments", "evaluations", "epochs", "limits", "steps_s"});
  for (const char* list : {"overrides", "segments", "evaluations", "epochs", "operations"}) {
    const auto rows = record.find(list);
    if (rows == record.end() || !rows->is_array()) continue;
    for (const Json& row : *rows) {
      const std::string path = fmt::format("{}[{}].", list, &row - &rows->front());
      if (!row.is_object())
        throw UserError(fmt::format("the record's {} is no object", path.substr(0, path.size() - 1)));
      check_members(row, path, {{"object", {"metrics"}}, {"text", {"split"}}, {"true or false", {"cadence"}}});
      check_present(row, path, {"metrics"});
    }
  }
  const auto member = [&](const char* name) {
    const auto found = record.find(name);
    return found != record.end() && found->is_object() ? *found : Json::object();
  };
  check_members(member("limits"), "limits.", {{"true or false", {"light", "to_the_end"}}});
  check_present(member("limits"), "limits.", {"light"});
  check_members(member("goal"), "goal.",
                {{"text", {"metric", "split"}},
                 {"true or false", {"higher_is_better", "reached"}},
                 {"object", {"best", "steps_s", "exchange"}}});
  check_present(member("goal"), "goal.", {"reached"});
  const auto workers = record.find("workers");
  const double ranks = workers != record.end() && workers->is_number() ? workers->get<double>() : 0;
  const auto segments = static_cast<double>(segment_count(record));
  if (ranks < 0 || ranks > kMostWorkers || segments > kMostSegments || ranks * segments > kMostSpools) {
    throw UserError(fmt::format("the record has {:g} workers and {:g} segments: more than any run", ranks, segments));
  }
}

Json read_record(const fs::path& run_dir) {
  const fs::path file = record_path(run_dir);
  Json record = read_json_file(file, inputs::kRecord);
  try {
    check_record(record);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", file.string(), error.what()));
  }
  return record;
}

int64_t segment_count(const Json& record) {
  const auto segments = record.find("segments");
  return segments != record.end() && segments->is_array() ? std::max<int64_t>(1, std::ssize(*segments)) : 1;
}

bool is_active(const Json& record) {
  const auto state = record.find("state");
  return state != record.end() && (*state == "queued" || *state == "running");
}

std::vector<std::string> last_lines(const fs::path& file, size_t count) {
  std::error_code error;
  const auto size = fs::is_regular_file(file, error) ? fs::file_size(file, error) : 0;
  if (error || size == 0) return {};
  // Backwards in growing pieces, until there are enough line ends in front of the last one.
  std::string text;
  for (std::uintmax_t bytes = 1 << 16;; bytes *= 4) {
    const std::uintmax_t most = std::min<std::uintmax_t>({bytes, kMostTailBytes, size});
    text = read_from(file, size - most, static_cast<size_t>(most));
    const auto ends = std::count(text.begin(), text.end(), '\n') - (text.ends_with('\n') ? 1 : 0);
    if (most == size) break;
    if (static_cast<size_t>(ends) >= count || most == kMostTailBytes) {
      text.erase(0, text.find('\n') + 1);  // of a line whose beginning is elsewhere
      break;
    }
  }
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace mlbench::report
