#pragma once

// For tests: a Kubernetes whose nodes are all this host, one per pod. While it lives, KUBECONFIG names it. It keeps
// jobs, secrets and services as they are given, starts the pods of a job that is not suspended as processes, and
// deletes a job when these have ended.

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/kubernetes/manifest.h"
#include "mlbench/exec/kubernetes/test_kubelet.h"
#include "mlbench/net/http/server.h"

namespace mlbench::exec::kubernetes {

class FakeKubernetes final : public net::http::Service {
 public:
  // `guard` stands for mlbench-guard of the image, and `scratch` for the folder /scratch of all pods.
  FakeKubernetes(std::string guard, std::filesystem::path scratch)
      : guard_(std::move(guard)), scratch_(std::move(scratch)), before_(environment_variable("KUBECONFIG")) {
    server_.emplace(net::http::ServerOptions{}, *this);
    write_file_atomically(
        folder_ / "config",
        "apiVersion: v1\ncurrent-context: fake\ncontexts:\n- name: fake\n  context: {cluster: fake, user: "
        "me, namespace: team}\nclusters:\n- name: fake\n  cluster:\n    server: " +
            url() + "\nusers:\n- name: me\n  user: {token: sesame}\n");
    setenv("KUBECONFIG", (folder_ / "config").c_str(), 1);
  }
  ~FakeKubernetes() override {
    server_.reset();
    for (auto& [name, job] : jobs_) end(job, SIGKILL);
    if (before_) {
      setenv("KUBECONFIG", before_->c_str(), 1);
    } else {
      unsetenv("KUBECONFIG");
    }
  }
  FakeKubernetes(const FakeKubernetes&) = delete;
  FakeKubernetes& operator=(const FakeKubernetes&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }

  // The next `times` requests METHOD whose paths hold `part` are answered with `status`, after `delay`, and are not
  // done. With the status 0 they are done and answered as usual, after `delay`.
  void fail(const std::string& method, const std::string& part, int status, int times,
            std::chrono::milliseconds delay = std::chrono::milliseconds(0)) {
    const std::scoped_lock lock(mutex_);
    faults_.push_back({method, part, status, times, delay});
  }
  // Pods say `patch` in place of what their processes do. No process is started while `patch` is not null.
  void hold_pods(Json patch) {
    const std::scoped_lock lock(mutex_);
    held_ = std::move(patch);
  }
  // From now on, `patch` is merged into what this pod says.
  void change_pod(int rank, const Json& patch) {
    const std::scoped_lock lock(mutex_);
    for (auto& [name, job] : jobs_) job.pods.at(static_cast<size_t>(rank)).patch.merge_patch(patch);
  }
  void signal_pod(int rank, int number) {
    const std::scoped_lock lock(mutex_);
    for (auto& [name, job] : jobs_) job.pods.at(static_cast<size_t>(rank)).process->signal(number);
  }
  // Deletes all jobs, as an operator does it.
  void delete_jobs() {
    const std::scoped_lock lock(mutex_);
    for (auto& [name, job] : jobs_) remove(job);
  }
  void forget_jobs() {
    const std::scoped_lock lock(mutex_);
    for (auto& [name, job] : jobs_) end(job, SIGKILL);
    jobs_.clear();
    others_.clear();
  }
  void warn(const std::string& message) {
    const std::scoped_lock lock(mutex_);
    warning_ = message;
  }
  void warn_of_pod(int rank, const std::string& reason, const std::string& message) {
    const std::scoped_lock lock(mutex_);
    pod_warnings_.push_back({rank, reason, message});
  }
  void have_nodes(Json nodes) {
    const std::scoped_lock lock(mutex_);
    nodes_ = std::move(nodes);
  }
  void refuse_nodes() { fail("GET", "/nodes", 403, 1000); }

  std::vector<std::string> asked() const {  // each as "METHOD /path"
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  std::vector<Json> jobs() const {
    const std::scoped_lock lock(mutex_);
    std::vector<Json> all;
    for (const auto& [name, job] : jobs_) all.push_back(job.object);
    return all;
  }
  std::vector<Json> others() const {  // secrets and services
    const std::scoped_lock lock(mutex_);
    std::vector<Json> all;
    for (const auto& [path, object] : others_) all.push_back(object);
    return all;
  }
  // Whether nothing is there. Jobs that were deleted go when somebody looks.
  bool empty() {
    const std::scoped_lock lock(mutex_);
    collect();
    return jobs_.empty() && others_.empty();
  }

  net::http::Admission begin(const net::http::Request& /*request*/) override {
    return {.known = true, .body_bytes = size_t{4} << 20};
  }

  net::http::Response handle(const net::http::Request& request) override {
    std::chrono::milliseconds delay{0};
    int status = 0;
    {
      const std::scoped_lock lock(mutex_);
      asked_.push_back(request.method + " " + request.raw_target);
      for (Fault& fault : faults_) {
        const bool hit = fault.times > 0 && fault.method == request.method &&
                         request.raw_target.find(fault.part) != std::string::npos;
        if (!hit) continue;
        --fault.times;
        delay = fault.delay;
        status = fault.status;
        break;
      }
    }
    net::http::Response response = status != 0 ? failure(status, "made by the test") : done(request);
    std::this_thread::sleep_for(delay);
    return response;
  }

 private:
  struct Fault {
    std::string method, part;
    int status = 0, times = 0;
    std::chrono::milliseconds delay{0};
  };
  struct PodWarning {
    int rank = 0;
    std::string reason, message;
  };
  struct Pod {
    std::optional<ChildProcess> process;
    std::filesystem::path log;
    Json patch = Json::object();
  };
  struct Job {
    Json object;
    std::vector<Pod> pods;
    bool started = false;
  };

  static net::http::Response json(int status, const Json& body) {
    net::http::Response response;
    response.status = status;
    response.body = body.dump();
    return response;
  }
  static net::http::Response failure(int status, const std::string& message) {
    return json(status, {{"kind", "Status"}, {"status", "Failure"}, {"message", message}, {"code", status}});
  }

  net::http::Response done(const net::http::Request& request) {
    const std::scoped_lock lock(mutex_);
    collect();
    return answer(request);
  }

  net::http::Response answer(const net::http::Request& request) {
    const std::vector<std::string>& path = request.target.segments;
    if (request.raw_target == "/version") return json(200, {{"gitVersion", "v1.34.4"}});
    if (path.size() >= 3 && path[2] == "nodes") {
      // Each page has one node.
      const size_t mark = request.raw_target.find("&continue=after");
      const size_t at = mark == std::string::npos ? 0 : std::stoul(request.raw_target.substr(mark + 15));
      Json page = {{"metadata", Json::object()}, {"items", Json::array()}};
      if (at < nodes_.size()) page["items"].push_back(nodes_[at]);
      if (at + 1 < nodes_.size()) page["metadata"]["continue"] = "after" + std::to_string(at + 1);
      return json(200, page);
    }
    const bool batch = path.size() >= 6 && path[1] == "batch";
    const size_t kind = batch ? 5 : 4;  // /apis/batch/v1/namespaces/NS/jobs, /api/v1/namespaces/NS/pods
    if (path.size() <= kind) return failure(404, "no such path");
    const std::string name = path.size() > kind + 1 ? path[kind + 1] : "";
    if (request.method == "POST")
      return create(path[kind], try_parse_json(request.body, inputs::kJsonBody).value_or(Json()));
    if (path[kind] == "pods") return json(200, {{"kind", "PodList"}, {"items", pods()}});
    if (path[kind] == "events") {
      const bool of_pods = request.raw_target.find("involvedObject.kind") != std::string::npos;
      return json(200, {{"kind", "EventList"}, {"items", of_pods ? pod_events() : events()}});
    }
    const auto job = jobs_.find(name);
    if (path[kind] != "jobs" || job == jobs_.end()) return failure(404, "jobs.batch \"" + name + "\" not found");
    if (request.method == "PATCH") {
      job->second.object.merge_patch(try_parse_json(request.body, inputs::kJsonBody).value_or(Json::object()));
      if (job->second.object["spec"]["suspend"] == false && !job->second.started) begin_pods(job->second);
    } else if (request.method == "DELETE") {
      remove(job->second);
    }
    return json(200, job->second.object);
  }

  net::http::Response create(const std::string& kind, Json object) {
    const std::string name = object["metadata"]["name"];
    const bool taken = kind == "jobs" ? jobs_.contains(name) : others_.contains(kind + "/" + name);
    if (taken) return failure(409, kind + " \"" + name + "\" already exists");
    object["metadata"]["uid"] = "uid-" + std::to_string(++last_uid_);
    if (kind == "jobs") {
      jobs_[name].object = object;
    } else {
      others_[kind + "/" + name] = object;
    }
    return json(201, object);
  }

  Json events() const {
    if (warning_.empty()) return Json::array();
    return Json::array({{{"type", "Warning"}, {"reason", "FailedCreate"}, {"message", warning_}}});
  }

  Json pod_events() const {
    Json list = Json::array();
    for (const auto& [name, job] : jobs_) {
      for (const PodWarning& one : pod_warnings_) {
        list.push_back({{"type", "Warning"},
                        {"reason", one.reason},
                        {"message", one.message},
                        {"involvedObject", {{"kind", "Pod"}, {"name", name + "-" + std::to_string(one.rank) + "-x"}}}});
      }
    }
    return list;
  }

  // The value of a container's variable. `known` are the variables before it, whose names may stand in the value.
  std::string value_of(const Json& variable, size_t rank, const std::map<std::string, std::string>& known) const {
    if (variable.contains("value")) return by_kubelet(variable["value"], known);
    const Json& from = variable["valueFrom"];
    if (from.contains("secretKeyRef")) {
      const std::string secret = from["secretKeyRef"]["name"];
      return others_.at("secrets/" + secret)["stringData"][from["secretKeyRef"]["key"].get<std::string>()];
    }
    return from["fieldRef"]["fieldPath"] == "spec.nodeName" ? "node-" + std::to_string(rank) : std::to_string(rank);
  }

  void begin_pods(Job& job) {
    job.started = true;
    const size_t count = job.object["spec"]["completions"];
    if (!warning_.empty()) return;
    job.pods.resize(count);
    for (size_t rank = 0; rank < count && held_.is_null(); ++rank) {
      const Json& container = job.object["spec"]["template"]["spec"]["containers"][0];
      ProcessOptions options;
      std::map<std::string, std::string> known;
      for (const Json& variable : container["env"]) {
        known[variable["name"]] = value_of(variable, rank, known);
      }
      for (const Json& word : container["command"]) options.arguments.push_back(by_kubelet(word, known));
      options.arguments.front() = guard_;
      fill_in(options.arguments, kScratch, scratch_.string());
      options.environment = known;
      for (auto& [name, value] : options.environment) fill_in(value, kScratch, scratch_.string());
      options.environment["JOB_COMPLETION_INDEX"] = std::to_string(rank);
      // Each pod has a /tmp of its own.
      const std::filesystem::path own = scratch_ / ("tmp-" + std::to_string(rank));
      std::filesystem::create_directories(own);
      options.environment["TMPDIR"] = own.string();
      options.working_directory = container.value("workingDir", "");
      options.output = job.pods[rank].log =
          folder_ / (job.object["metadata"]["name"].get<std::string>() + "-" + std::to_string(rank));
      job.pods[rank].process = ChildProcess::start(options);
    }
  }

  Json pods() {
    Json list = Json::array();
    for (auto& [name, job] : jobs_) {
      for (size_t rank = 0; rank < job.pods.size(); ++rank) list.push_back(pod(name, job, rank));
    }
    return list;
  }

  Json pod(const std::string& name, Job& job, size_t rank) {
    Pod& one = job.pods[rank];
    const std::string number = std::to_string(rank);
    Json pod = {{"metadata",
                 {{"name", name + "-" + number + "-x"},
                  {"uid", job.object["metadata"]["uid"].get<std::string>() + "-" + number},
                  {"labels", {{kIndexLabel, number}}}}},
                {"spec", {{"nodeName", "node-" + number}}}};
    if (!one.process) {
      pod["spec"].erase("nodeName");
      pod["status"]["phase"] = "Pending";
      if (held_.is_object()) pod.merge_patch(held_);
    } else {
      Json state = {{"running", Json::object()}};
      const auto ended = one.process->wait(std::chrono::milliseconds(0));
      if (ended) {
        state = {{"terminated",
                  {{"exitCode", ended->code},
                   {"reason", ended->code == 0 ? "Completed" : "Error"},
                   {"message", std::filesystem::exists(one.log) ? read_file(one.log) : ""}}}};
      }
      pod["status"] = {
          {"phase", !ended             ? "Running"
                    : ended->code == 0 ? "Succeeded"
                                       : "Failed"},
          {"containerStatuses",
           Json::array({{{"name", kRankContainer}, {"imageID", "worker@sha256:1234"}, {"state", state}}})}};
    }
    pod.merge_patch(one.patch);
    return pod;
  }

  static void end(Job& job, int signal_number) {
    for (Pod& pod : job.pods) {
      if (!pod.process) continue;
      pod.process->signal(signal_number);
      if (signal_number == SIGKILL) pod.process->wait(std::chrono::seconds(5));
    }
  }

  static void remove(Job& job) {
    if (job.object["metadata"].contains("deletionTimestamp")) return;
    job.object["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z";
    for (Pod& pod : job.pods) pod.patch["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:05Z";
    end(job, SIGTERM);
  }

  // Removes the jobs that were deleted and whose pods have ended, with all that the jobs own.
  void collect() {
    for (auto entry = jobs_.begin(); entry != jobs_.end();) {
      Job& job = entry->second;
      const bool goes =
          job.object["metadata"].contains("deletionTimestamp") && std::ranges::all_of(job.pods, [](Pod& pod) {
            return !pod.process || pod.process->wait(std::chrono::milliseconds(0));
          });
      if (!goes) {
        ++entry;
        continue;
      }
      const Json uid = job.object["metadata"]["uid"];
      std::erase_if(others_, [&](const auto& other) {
        const Json owners = other.second["metadata"].value("ownerReferences", Json::array());
        return !owners.empty() && owners[0]["uid"] == uid;
      });
      entry = jobs_.erase(entry);
    }
  }

  const std::string guard_;
  const std::filesystem::path scratch_;
  const std::optional<std::string> before_;
  TemporaryFolder folder_;
  mutable std::mutex mutex_;
  std::vector<Fault> faults_;
  std::vector<std::string> asked_;
  std::map<std::string, Job> jobs_;     // by name
  std::map<std::string, Json> others_;  // by kind/name
  Json held_, nodes_ = Json::array();
  std::string warning_;
  std::vector<PodWarning> pod_warnings_;
  int last_uid_ = 0;
  std::optional<net::http::Server> server_;  // last member: its threads use the others
};

}  // namespace mlbench::exec::kubernetes
