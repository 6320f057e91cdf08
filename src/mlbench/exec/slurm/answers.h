#pragma once

// What Slurm's commands answer.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/exec/nodes.h"

namespace mlbench::exec::slurm {

// A job as sbatch --parsable names it: "12", or "12;cluster".
struct JobName {
  std::string id;
  std::string cluster = {};  // "": the only one
};
std::optional<JobName> parse_submission(const std::string& output);

enum class JobPhase {
  kQueued,   // has no nodes; it may have had some
  kRunning,  // has them, or they are being made ready
  kEnding,   // its last processes are being ended
  kEnded,
};

struct JobInfo {
  std::map<std::string, std::string> fields;  // "JobState", "Reason", "NodeList", ...; "" where Slurm writes (null)

  std::string field(const std::string& name) const;
  std::string state() const { return field("JobState"); }
  JobPhase phase() const;
  bool requeued() const;
  bool host_gone() const;        // a node failed, says Slurm
  bool preempted() const;        // for another job
  bool ended_by_itself() const;  // its script did, or is about to, as far as this says
  // "PENDING (Resources)", "RUNNING on n[1-4]".
  std::string words() const;
};

// The one line of `scontrol show job --oneliner ID`. Empty when it is none.
std::optional<JobInfo> parse_job(const std::string& output);
// Of scontrol, where it said that there is no such job (any more).
bool job_is_unknown(const std::string& errors);

// The lines of `scontrol show nodes --oneliner`; what is none is left out.
std::vector<ClusterNode> parse_nodes(const std::string& output);

// What is known of it before Slurm is asked: the beginning of the following; and back. Empty where it is no job's.
Json identity_of(const JobName& name);
std::optional<JobName> job_of(const Json& allocation);

// The record's `allocation` (api/run.schema.json).
Json allocation_of(const JobName& name, const JobInfo& job);

}  // namespace mlbench::exec::slurm
