#pragma once

// Records that differ in only one condition, for the tests of what may be compared.

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "mlbench/report/study/comparison.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {

// A record that tells a value for every key. Times fall and rates rise with the workers.
inline RecordJson told_record(const std::string& name, int64_t workers) {
  const auto k = static_cast<double>(workers);
  RecordJson record = make_record(name, workers, 60 / k, 3000 * k, true);
  record["task_hash"] = std::string(64, 'a');
  record["algorithm"] = {{"rule", "sgd"},
                         {"coder", "none"},
                         {"pattern", "centralized"},
                         {"options", {{"momentum", 0.9}}},
                         {"lr", 0.1},
                         {"schedule", {{"decay", "constant"}}},
                         {"rates", "task"}};
  record["comm_stack"] = "gloo";
  record["inter_op_threads"] = 1;
  record["shared_host"] = false;
  record["requested"] = {{"device", "cpu"},
                         {"precision", "float32"},
                         {"layout", nullptr},
                         {"bucket_mb", nullptr},
                         {"checkpoint_every", nullptr}};
  record["effective"] = {{"device", "cpu"}, {"precision", "float32"}, {"layout", "nhwc"}};
  record["data"]["fingerprint"] = std::string(64, 'b');
  record["storage"] = {{"kind", "local"}, {"endpoint", nullptr}};
  record["engine"] = nullptr;
  record["placement"] = Json::array();
  for (int64_t rank = 0; rank < workers; ++rank) record["placement"].push_back({{"rank", rank}, {"host", "node-1"}});
  record["environment"] = {{"version", "1.0.0"}, {"git_describe", "abc"}};
  const Json nic = {{"name", "eth0"}, {"speed_mbit", 10000}};
  const Json host = {{"name", "node-1"},           {"cpu", "AMD EPYC"},    {"cores", 8}, {"ram_bytes", 64'000'000'000},
                     {"nics", Json::array({nic})}, {"gpus", Json::array()}};
  record["hosts"] = Json::array({host});
  return record;
}

inline Json given_override(const char* key, const char* value) {
  return Json::array({Json::object({{"key", key}, {"value", value}})});
}

// The member `custom` of a run whose command declares the task of told_record().
inline Json declared_custom(const std::string& script) {
  const Json declared = {{"task", "fashion-mnist"},
                         {"rules", nullptr},
                         {"variant", nullptr},
                         {"data", "fashion-mnist"},
                         {"goal", "Prec@1>=85"}};
  return {{"command", {"python3", script}}, {"declared", declared}, {"result", nullptr}};
}

struct Change {
  std::string key;  // the key in which the record then differs; "": none
  std::string what;
  std::function<void(Json&)> apply;
};

inline RecordJson with(RecordJson record, const Change& change) {
  change.apply(record);
  return record;
}

// Every way in which two records can differ in one key, whatever their numbers of workers.
inline std::vector<Change> changes_of_one_key() {
  const auto set = [](const char* pointer, const Json& value) {
    return [path = Json::json_pointer(pointer), value](Json& record) { record[path] = value; };
  };
  const Json batch = given_override("batch_size", "64"), lr = given_override("optimizer.lr", "1"),
             bf16 = given_override("precision", "bf16"), target = given_override("goal.target", "80");
  return {
      {"task", "the task", set("/task", "mnist")},
      {"task", "the rules", set("/rules", "2018")},
      {"task", "the variant", set("/variant", "v2-20")},
      {"task", "the hash alone: a copy of the task file that was altered", set("/task_hash", std::string(64, 'c'))},
      {"overrides", "an override", set("/overrides", batch)},
      {"command", "one's own", set("/custom", {{"command", {"python3", "train.py"}}, {"result", nullptr}})},
      {"command", "a command that declares the task", set("/custom", declared_custom("train.py"))},
      {"algorithm", "the rule", set("/algorithm/rule", "lars")},
      {"algorithm", "the coder", set("/algorithm/coder", "top_k")},
      {"algorithm", "the pattern", set("/algorithm/pattern", "local")},
      {"algorithm", "an option", set("/algorithm/options/momentum", 0.8)},
      {"algorithm", "the schedule", set("/algorithm/schedule/decay", "plateau")},
      {"algorithm", "none that is told", set("/algorithm", nullptr)},
      {"algorithm", "the rate, as an override",
       [=](Json& record) {
         record["overrides"] = lr;
         record["division"] = "open";
         record["algorithm"]["lr"] = 1;
         record["algorithm"]["rates"] = "given";
       }},
      {"division", "open", set("/division", "open")},
      {"division", "a task of one's own", set("/division", "own")},
      {"division", "throughput only", set("/division", "throughput")},
      {"division", "custom", set("/division", "custom")},
      {"goal", "the metric", set("/goal/metric", "loss")},
      {"goal", "the split", set("/goal/split", "train")},
      {"goal", "the target", set("/goal/target", 84.999)},
      {"goal", "the direction", set("/goal/higher_is_better", false)},
      {"goal", "full and light", set("/limits/light", false)},
      {"goal", "none", set("/goal", nullptr)},
      {"goal", "the target, as an override",
       [=](Json& record) {
         record["overrides"] = target;
         record["division"] = "open";
         record["goal"]["target"] = 80;
       }},
      {"data", "the set", set("/data/name", "mnist")},
      {"data", "the fingerprint", set("/data/fingerprint", std::string(64, 'd'))},
      {"data", "official", set("/data/official", false)},
      {"data", "made data", set("/data/synthetic", true)},
      {"data", "images that cannot be decoded",
       set("/data/bad_images", {{"allowed", 5}, {"count", 2}, {"first", Json::array()}})},
      {"compute", "an emulated step", set("/emulated_step_s", 0.15)},
      {"compute", "an emulated step on a fixed batch",
       [](Json& record) {
         record["emulated_step_s"] = 0.15;
         record["data"]["fixed_batch"] = true;
       }},
      {"framework", "the framework", set("/framework", "native")},
      {"framework", "its layout", set("/requested/layout", "nchw")},
      {"framework", "the order of its convolutions", set("/effective/convolution", "winograd")},
      {"framework", "the order that was forced",
       [](Json& record) { record["requested"]["convolution"] = record["effective"]["convolution"] = "winograd"; }},
      {"backend", "the back end", set("/backend", "nccl")},
      {"backend", "what wraps it", set("/comm_stack", "netem(gloo)")},
      {"backend", "its buckets", set("/requested/bucket_mb", 25)},
      {"backend", "its layers", set("/requested/by_layer", true)},
      {"executor", "the executor", set("/executor", "slurm")},
      {"device", "the device", set("/effective/device", "cuda:0")},
      {"precision", "as used", set("/effective/precision", "bf16")},
      {"precision", "as an override",
       [=](Json& record) {
         record["overrides"] = bf16;
         record["division"] = "open";
         record["effective"]["precision"] = "bf16";
       }},
      {"threads_per_worker", "threads", set("/threads_per_worker", 2)},
      {"threads_per_worker", "the limit of CPUs", set("/engine/cpus", 1.5)},
      {"threads_per_worker", "threads that decode", set("/effective/decoding_threads", 2)},
      {"inter_op_threads", "threads beside each other", set("/inter_op_threads", 2)},
      {"oversubscribed", "more than the cores", set("/oversubscribed", true)},
      {"shared_host", "beside other runs", set("/shared_host", true)},
      {"hosts", "on two hosts of one kind",
       [](Json& record) {
         record["hosts"].push_back(record["hosts"][0]);
         record["hosts"][1]["name"] = "node-2";
       }},
      {"hardware", "the CPU", set("/hosts/0/cpu", "Intel Xeon")},
      {"hardware", "the cores", set("/hosts/0/cores", 16)},
      {"hardware", "the memory", set("/hosts/0/ram_bytes", 60'000'000'000)},
      {"hardware", "a GPU", set("/hosts/0/gpus", Json::array({Json::object({{"name", "T4"}})}))},
      {"network", "the network", set("/hosts/0/nics/0/speed_mbit", 1000)},
      {"storage", "the storage", set("/storage/kind", "s3")},
      {"storage", "one that is not known", set("/storage/kind", "not known")},
      {"backend", "its interface", set("/communication/interface", "eth1")},
      {"checkpoints", "every epoch", set("/requested/checkpoint_every", "epoch")},
      {"checkpoints", "every few steps", set("/requested/checkpoint_every", 5)},
      {"recording", "what operations cost", set("/requested/profile", "time")},
      {"recording", "a timeline", set("/requested/timeline", true)},
      {"slurm", "the partition that was asked for", set("/engine/slurm", {"partition=long"})},
      {"slurm", "the partition that Slurm chose", set("/allocation/partition", "long")},
      {"setup", "modules", set("/engine/setup", "module load a\nmodule load b\n")},
      {"scratch", "another disk", set("/engine/scratch", "/nvme")},
      {"image", "the image", set("/engine/image", "mlbench:2")},
      {"kube_context", "another cluster", set("/engine/kube_context", "lab")},
      {"memory", "the limit of memory", set("/engine/memory", "4Gi")},
      {"data_volume", "the volume", set("/engine/data_volume", "/data")},
      {"host_network", "the network of the nodes", set("/engine/host_network", true)},
      {"pod_overlay", "what pods get beside", set("/engine/pod_overlay", "{}")},
  };
}

// Changes after which two records still differ in no key.
inline std::vector<Change> changes_of_no_key() {
  const auto set = [](const char* pointer, const Json& value) {
    return [path = Json::json_pointer(pointer), value](Json& record) { record[path] = value; };
  };
  const Json buckets = given_override("optimizer.bucket_mb", "25");
  return {
      {"", "the seed", set("/seed", 43)},
      {"", "the repeat", set("/repeat", 2)},
      {"", "the name of the host", set("/hosts/0/name", "node-7")},
      {"", "a little of the memory", set("/hosts/0/ram_bytes", 63'000'000'000)},
      {"", "which GPU it is", set("/effective/device", "cpu:1")},
      {"", "the layout that came of it", set("/effective/layout", "nChw16c")},
      {"", "direct convolutions that were asked for", set("/requested/convolution", "direct")},
      {"", "a limit", set("/limits/max_epochs", 3)},
      {"", "bad images that were allowed",
       set("/data/bad_images", {{"allowed", 5}, {"count", 0}, {"first", Json::array()}})},
      {"", "names of hosts", set("/engine/hosts", "h1:2,h2:2")},
      {"", "the configuration of ssh", set("/engine/ssh_config", "/etc/mine")},
      {"", "the namespace", set("/engine/namespace", "ml")},
      {"", "the queue", set("/engine/queue", "night")},
      {"", "how often it may go on", set("/engine/requeue", 3)},
      {"", "which kernels were taken", set("/requested/profile", "explain")},
      {"", "the commit", set("/environment/git_describe", "def")},
      {"", "how rates were chosen that are the same", set("/algorithm/rates", "given")},
      {"", "an override outside of the hash, which is the back end's", set("/overrides", buckets)},
  };
}

inline const ComparisonKey& key_named(const std::string& name) {
  for (const ComparisonKey& key : comparison_keys()) {
    if (key.name == name) return key;
  }
  throw std::out_of_range("no key " + name);
}

// Whether runs that differ in their numbers of workers and in this change have a speed-up.
inline bool speed_up_allowed(const Change& change) {
  return change.key.empty() || key_named(change.key).kind == KeyKind::kFollowsWorkers;
}
// Whether runs that differ in this change alone have a ratio in `mlbench compare`.
inline bool ratio_allowed(const Change& change) {
  return change.key.empty() || key_named(change.key).kind != KeyKind::kFixed;
}

}  // namespace mlbench::report
