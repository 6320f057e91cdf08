#include "mlbench/base/choices.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/master/http/legacy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>

#include "mlbench/base/input.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/catalog/programs/programs.h"
#include "mlbench/home/owner.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/http/dates.h"
#include "mlbench/report/records.h"
#include "mlbench/spec/collectives.h"
#include "mlbench/spec/run_options.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::master::legacy {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostLogLines = 10'000;
constexpr std::chrono::seconds kStopPatience{20};
constexpr int64_t kMostCpus = 1'000'000;

struct Image {
  std::string_view image, task;
};
constexpr std::array<Image, 8> kImages = {{
    {"mlbench/pytorch-cifar10-resnet20-all-reduce:latest", "1a"},
    {"mlbench/pytorch-cifar10-resnet20-ddp:latest", "1a-ddp"},
    {"mlbench/pytorch-epsilon-logistic-regression-all-reduce:latest", "2a"},
    {"mlbench/pytorch-wikitext2-lstm-all-reduce:latest", "3a"},
    {"mlbench/pytorch-wmt16-gnmt-all-reduce:latest", "4a"},
    {"mlbench/pytorch-wmt17-transformer-all-reduce:latest", "4b"},
    {"mlbench/tensorflow-cifar10-resnet:latest", "1a-tf"},
    {"mlbench/pytorch-backend-benchmark:latest", "0a"},
}};

std::string date_or(const Json& record, const char* key) {
  const std::string stamp = record.contains(key) && record[key].is_string() ? record[key].get<std::string>() : "";
  const auto time = parse_date(stamp);
  return time ? format_date(*time, Fraction::kSixOrNone) : "";
}

std::string state_of(const std::string& state) {
  if (state == "queued") return "initialized";
  if (state == "running") return "started";
  return state == "finished" ? "finished" : "failed";
}

// An id that never changes for a run; MLBench's is that of a queue.
std::string job_id(const Json& record) {
  const std::string hash = sha256_hex(record.value("name", "") + record.value("created_at", ""));
  return fmt::format("{}-{}-4{}-8{}-{}", hash.substr(0, 8), hash.substr(8, 4), hash.substr(13, 3), hash.substr(17, 3),
                     hash.substr(20, 12));
}

// A run as MLBench's clients expect it, from a record or its summary.
Json run_object(const Json& record) {
  const std::string state = state_of(record.value("state", ""));
  const std::string finished = date_or(record, "finished_at");
  return {{"id", record.contains("id") ? record["id"] : Json(0)},
          {"name", record.value("name", "")},
          {"created_at", date_or(record, "created_at")},
          {"finished_at", state == "finished" && !finished.empty() ? Json(finished) : Json(nullptr)},
          {"state", state},
          {"job_id", state == "initialized" ? "" : job_id(record)},
          {"job_metadata", Json::object()},
          {"num_workers", record.contains("workers") ? record["workers"] : Json(0)}};
}

Json job_metadata(const Services& services, const fs::path& run_dir, const record::Record& record) {
  const int64_t segments = record::segment_count(record);
  const auto log_of = [&](LogStream stream) { return rank_log_path(logs_dir(run_dir), segments, 0, stream); };
  // What the supervisor said stands behind what rank 0 said.
  std::vector<std::string> errors = report::last_lines(log_of(LogStream::kStderr), kMostLogLines);
  for (std::string& line : report::last_lines(supervisor_log_path(run_dir), kMostLogLines)) {
    errors.push_back(std::move(line));
  }
  Json metadata = {{"stdout", report::last_lines(log_of(LogStream::kStdout), kMostLogLines)},
                   {"stderr", std::move(errors)}};
  if (record.state == "queued") return metadata;
  metadata["pods"] = Json::array();
  for (int64_t rank = 0; rank < record.workers.value_or(0); ++rank) {
    metadata["pods"].push_back({"127.0.0.1", "default", pod_name(services, rank), labels_of(services, rank)});
  }
  metadata["command"] = fmt::format("{} --run-dir {} --segment {}", catalog::program_with(record.framework).name,
                                    run_dir.string(), segments);
  metadata["master_name"] = pod_name(services, 0);
  return metadata;
}

void check_run_name(const std::string& name) {
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool good = !name.empty() && plain(name.front()) && plain(name.back()) &&
                    std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '-'; });
  if (!good || name.size() > 63) {
    throw HttpError(400, fmt::format("name '{}': expected 1 to 63 letters, digits and hyphens, with a letter or digit "
                                     "at both ends",
                                     name.substr(0, 80)));
  }
}

std::string task_of_image(const Services& services, const std::string& image) {
  std::vector<std::string> names;
  for (const Json& task : services.planner.tasks()) names.push_back(task.value("name", ""));
  std::vector<std::string> valid;
  for (const Image& known : kImages) {
    const bool built = std::find(names.begin(), names.end(), known.task) != names.end();
    if (known.image == image && built) return std::string(known.task);
    if (known.image == image) {
      throw HttpError(422, fmt::format("image_name '{}' is task {}, which this mlbench has not", image, known.task));
    }
    if (built) valid.emplace_back(known.image);
  }
  throw HttpError(422, unknown_text("image_name", image, valid));
}

// Whether the light goal of `task` ("" for a custom image) is asked for. Throws HttpError where the task has no goal.
bool asks_for_light_goal(const FieldsOf& fields, const std::string& task) {
  const bool light = fields.need("light_target") == "true" && fields.flag("light_target");
  if (light && task == spec::kTask0a) {
    throw HttpError(422, fmt::format("light_target true: task {} measures all-reduce and has no goal, so no light one "
                                     "either; expected false",
                                     task));
  }
  return light;
}

// A fair share of the hosts' cores for each worker, where they are known. What exceeds them is refused by the engine.
int64_t most_cores_each(const exec::HostsOffer& hosts, int64_t workers) {
  int64_t most = kMostCpus;
  if (hosts.cores) most = std::min(most, *hosts.cores / workers);
  if (hosts.cores_on_host) most = std::min(most, *hosts.cores_on_host);
  return std::max<int64_t>(1, most);
}

// Writes CPUs as 2 and 2.5, where a request of MLBench's clients has 2.0 and 2.5.
Json json_of(double cpus) { return std::floor(cpus) == cpus ? Json(static_cast<int64_t>(cpus)) : Json(cpus); }

// Refuses requests without a token or login: MLBench's clients show none, and may not start whatever they like.
void check_is_known(const Services& services, const Request& request) {
  const std::string_view secret = shown_secret(request);
  if (home::same_secret(secret, services.token) || services.sessions.holds(secret)) return;
  throw HttpError(422,
                  "custom_image: custom images and commands are started for those alone that show the token of this "
                  "server, 'Authorization: Bearer TOKEN'; the rest of this API asks for none");
}

}  // namespace

Response one_run(const Services& services, const Call& call) {
  std::string suffix;
  const std::string id = take_suffix(call.parameters[0], suffix);
  format_of(call.request, suffix, false);
  const fs::path run_dir = folder_of(services, id);
  const record::Record record = home::current_record(run_dir);
  Json run = run_object(record::to_json(record));
  run["job_metadata"] = job_metadata(services, run_dir, record);
  return json_response(200, run);
}

Response all_runs(const Services& services, const Call& call) {
  format_of(call.request, "", false);
  Json runs = Json::array();
  const std::vector<std::string> newest = services.index.newest_summaries(1'000'000);
  for (auto summary = newest.rbegin(); summary != newest.rend(); ++summary) {
    const Json record = try_parse_json(*summary, inputs::kSummary).value_or(Json::object());
    if (record.value("state", "damaged") != "damaged") runs.push_back(run_object(record));
  }
  return json_response(200, runs);
}

Response create_run(Services& services, const Call& call) {
  const FieldsOf fields(call.request);
  const std::string name = fields.need("name");
  check_run_name(name);
  const int64_t workers = whole(fields.need("num_workers"), "num_workers");
  const double cpus = real(fields.need("num_cpus"), "num_cpus");
  if (workers < 1 || workers > spec::kMostWorkers)
    throw HttpError(400, fmt::format("num_workers {} is not from 1 to {}", workers, spec::kMostWorkers));
  if (cpus < 0) throw HttpError(400, fmt::format("num_cpus {} is less than 0", cpus));
  const std::string image = fields.need("image_name");
  std::string backend = fields.need("backend");
  const bool custom = image == "custom_image";
  if (custom) check_is_known(services, call.request);
  const std::string task = custom ? "" : task_of_image(services, image);
  const bool light = asks_for_light_goal(fields, task);
  if (backend == "custom_backend") {
    backend = fields.need("custom_backend");
    if (custom && !fields.flag("run_all_nodes")) {
      throw HttpError(422, "run_all_nodes is not true: a command is started on all workers, or not at all");
    }
  }
  std::transform(backend.begin(), backend.end(), backend.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  const bool gpu = fields.flag("gpu_enabled");
  const plan::ClusterOffer offer = services.planner.offer();
  if (gpu && offer.hosts.gpus == 0) {
    throw HttpError(422, fmt::format("gpu_enabled: no host of the executor '{}', which starts runs of this API, has a "
                                     "GPU to give",
                                     offer.executor));
  }
  const int64_t most = most_cores_each(offer.hosts, workers);
  const int64_t here = std::max<int64_t>(1, static_cast<int64_t>(std::min(cpus, static_cast<double>(most))));
  Json request = {
      {"name", "api"}, {"workers", {workers}}, {"backend", backend}, {"gpu", gpu}, {"threads_per_worker", here}};
  plan::PlannedRuns planned;
  try {
    if (custom) {
      request["image"] = fields.need("custom_image_name");
      request["command"] = split_words(fields.need("custom_image_command"));
      if (request["command"].empty()) throw UserError("custom_image_command has no program");
    } else {
      request["task"] = task;
      request["light"] = light;
    }
    planned = services.planner.plan(request);
    // Containers may have a fraction of a CPU.
    const bool on_others = supervise::hosts_needed(planned.runs.front()).empty();
    const double asked = cpus > 0 && (on_others || custom) ? std::min(cpus, static_cast<double>(most)) : here;
    if (asked != here) {
      request["threads_per_worker"] = json_of(asked);
      planned = services.planner.plan(request);
    }
  } catch (const plan::AboveLimit&) {
    throw;
  } catch (const UserError& error) {
    throw HttpError(422, error.what());
  }
  MLBENCH_CHECK(planned.runs.size() == 1, "one worker count, no repeats");
  planned.runs.front().name = name;
  const auto runs = submit(services, std::move(planned.runs), false);
  return json_response(201, run_object(record::to_json(home::first_record(runs.front()))));
}

Response delete_run(Services& services, const Call& call) {
  const fs::path run_dir = folder_of(services, call.parameters[0]);
  if (home::is_active_run(run_dir)) {
    home::stop_run(services.home, run_dir);
    const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
    while (home::is_active_run(run_dir) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  delete_everywhere(services, run_dir);
  return {204, "", {}, "", {}};
}

}  // namespace mlbench::master::legacy
