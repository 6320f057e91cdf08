#pragma once

// Reads what Kubernetes says of a run's job and its pods.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/exec/observation.h"

namespace mlbench::exec::kubernetes {

// The member `key` of `object`; null where the object has none, or where `object` is no object.
const Json& member(const Json& object, const char* key);

// What a run needs to know of a pod. Texts that Kubernetes does not give are "".
struct PodView {
  int rank = -1;  // -1: the pod does not say
  std::string name, uid, node;
  std::string phase;                   // Pending, Running, Succeeded, Failed, Unknown
  std::string deleted_at;              // when the pod was deleted; "": nobody deleted it
  std::string unschedulable;           // the scheduler's words; "": the pod has a node, or nobody looked yet
  std::string waiting, waiting_words;  // why a container does not run: ImagePullBackOff, ...
  std::optional<int> exit_code;        // the exit code of the rank's container, or of an init container
  std::string end_reason, end_words;   // of that container: OOMKilled, Error, ...; its last lines
  std::string reason, reason_words;    // the pod's: Evicted, ...
  std::string disruption, disruption_words;
  std::string image_id;

  bool deleted() const { return !deleted_at.empty(); }
  bool over() const { return phase == "Succeeded" || phase == "Failed"; }
};
PodView pod_view(const Json& pod);

// What is known of a job at one moment.
struct Seen {
  Json job = nullptr;  // as last seen; null: never seen
  std::vector<PodView> pods = {};
  bool gone = false;         // whether there is no such job any more
  std::string refused = {};  // why Kubernetes does not let this process see the job; "": it does
  std::string silence = {};  // why nothing newer is known; "": the last look was answered
  std::string warning = {};  // the message of the job's last event that is a warning

  bool deleted() const;  // whether somebody deletes the job
};

// How a pod ended, or why Kubernetes ends it: "pod r-1-x (rank 1 on node n2) ran out of memory (OOMKilled, exit code
// 137)".
std::string end_of(const PodView& pod);

enum class JobState {
  kWaits,   // it waits for admission, for nodes, for pods
  kBegins,  // its images and containers are made ready
  kStuck,   // it begins, with an error that seldom passes
  kRuns,    // all its containers run
  kOver,    // it cannot run any more
};
struct JobWords {
  JobState state = JobState::kWaits;
  std::string words;
};
// The state of a job before all ranks run. `queue` is the job's queue of Kueue, or "".
JobWords before_ranks(const Seen& seen, int ranks, const std::string& queue);

// What became of the job and its pods while ranks run, heaviest first. `first` are the pods as the ranks began.
std::vector<EngineWord> done_to(const Seen& seen, const std::vector<PodView>& first);

// Collects what Kubernetes warns of at a job's pods (events of the type Warning), in words for people.
class Warnings {
 public:
  static constexpr size_t kMost = 16;

  // Returns the warnings in `events` of the pods of `job` that were not returned before. Each reason comes once for a
  // pod, and each text once. At most kMost warnings are returned in all; the last says where there may be more.
  std::vector<std::string> news(const Json& events, const std::string& job, const std::string& name_space);

 private:
  std::set<std::string> said_;
  size_t count_ = 0;
};

}  // namespace mlbench::exec::kubernetes
