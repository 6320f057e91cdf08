#pragma once

// What Kubernetes says of a run's job and its pods.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/exec/observation.h"

namespace mlbench::exec::kubernetes {

// Of an object; null where it has none such, or is no object.
const Json& member(const Json& object, const char* key);

struct PodView {
  int rank = -1;  // -1: it does not say
  std::string name, uid, node;
  std::string phase;                   // Pending, Running, Succeeded, Failed, Unknown
  std::string deleted_at;              // "": nobody deleted it
  std::string unschedulable;           // the scheduler's words; "": it has a node, or nobody looked yet
  std::string waiting, waiting_words;  // why a container does not run: ImagePullBackOff, ...
  std::optional<int> exit_code;        // of the rank's container, or of one before it
  std::string end_reason, end_words;   // OOMKilled, Error, ...; its last lines
  std::string reason, reason_words;    // of the pod: Evicted, ...
  std::string disruption, disruption_words;
  std::string image_id;

  bool deleted() const { return !deleted_at.empty(); }
  bool over() const { return phase == "Succeeded" || phase == "Failed"; }
};
PodView pod_view(const Json& pod);

// At one moment.
struct Seen {
  Json job = nullptr;  // as it last was; null: never seen
  std::vector<PodView> pods = {};
  bool gone = false;         // there is no such job any more
  std::string refused = {};  // Kubernetes does not let us see it: why
  std::string silence = {};  // why there is nothing newer
  std::string warning = {};  // the last event of the job that is one
};

// "pod r-1-x (rank 1 on node n2) ran out of memory (OOMKilled, exit code 137)"; of one that ended, or that Kubernetes
// ends.
std::string end_of(const PodView& pod);

enum class JobState {
  kWaits,   // for admission, for nodes, for pods
  kBegins,  // images, containers
  kStuck,   // begins, with an error that seldom passes
  kRuns,    // all containers do
  kOver,    // it cannot run any more
};
struct JobWords {
  JobState state = JobState::kWaits;
  std::string words;
};
// Before all ranks run. `queue`: of Kueue, or "".
JobWords before_ranks(const Seen& seen, int ranks, const std::string& queue);

// While ranks run: what became of the job and its pods, heaviest first. `first`: the pods as the ranks began.
std::vector<EngineWord> done_to(const Seen& seen, const std::vector<PodView>& first);

// What Kubernetes warns of at a job's pods (events of the type Warning), for people.
class Warnings {
 public:
  static constexpr size_t kMost = 16;

  // Of a list of events: what was not said before of pods of the job, each reason of a pod once, each text once. The
  // last of kMost says where there may be more.
  std::vector<std::string> news(const Json& events, const std::string& job, const std::string& name_space);

 private:
  std::set<std::string> said_;
  size_t count_ = 0;
};

}  // namespace mlbench::exec::kubernetes
