#pragma once

// What Kubernetes says of a run's job and its pods.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::exec::kubernetes {

struct PodView {
  int rank = -1;  // -1: it does not say
  std::string name, uid, node;
  std::string phase;  // Pending, Running, Succeeded, Failed, Unknown
  bool deleted = false;
  std::string unschedulable;           // the scheduler's words; "": it has a node, or nobody looked yet
  std::string waiting, waiting_words;  // why a container does not run: ImagePullBackOff, ...
  std::optional<int> exit_code;        // of the rank's container, or of one before it
  std::string end_reason, end_words;   // OOMKilled, Error, ...; its last lines
  std::string reason, reason_words;    // of the pod: Evicted, ...
  std::string disruption, disruption_words;
  std::string image_id;

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

struct JobEnd {
  std::string words;
  bool node_gone = false;
};
// While ranks run: what Kubernetes, or somebody, does to the job or its pods. `first`: the pods as the ranks began.
// Empty: nothing.
std::optional<JobEnd> done_to(const Seen& seen, const std::vector<PodView>& first);

}  // namespace mlbench::exec::kubernetes
