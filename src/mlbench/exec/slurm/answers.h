#pragma once

// Reads what Slurm's commands answer.

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
// The job in the output of sbatch; empty where it names none.
std::optional<JobName> parse_submission(const std::string& output);

enum class JobPhase {
  kQueued,   // the job has no nodes; it may have had some
  kRunning,  // the job has nodes, or they are being made ready
  kEnding,   // its last processes are being ended
  kEnded,
};

struct JobInfo {
  std::map<std::string, std::string> fields;  // "JobState", "Reason", "NodeList", ...; "" where Slurm writes (null)

  std::string field(const std::string& name) const;
  std::string state() const { return field("JobState"); }
  JobPhase phase() const;
  bool requeued() const;
  bool host_gone() const;        // whether Slurm says that a node failed
  bool preempted() const;        // whether Slurm ended the job for another one
  bool ended_by_itself() const;  // whether its script ended or is about to, as far as `fields` say
  // The job's state for people: "PENDING (Resources)", "RUNNING on n[1-4]".
  std::string words() const;
};

// The job in the one line of `scontrol show job --oneliner ID`. Empty where the line is none.
std::optional<JobInfo> parse_job(const std::string& output);
// Whether scontrol said, in `errors`, that there is no such job (any more).
bool job_is_unknown(const std::string& errors);

// The nodes in the lines of `scontrol show nodes --oneliner`. Other lines are left out.
std::vector<ClusterNode> parse_nodes(const std::string& output);

// What is known of a job before Slurm is asked: the first members of allocation_of(). job_of() is the inverse; empty
// where `allocation` names no job of Slurm's.
Json identity_of(const JobName& name);
std::optional<JobName> job_of(const Json& allocation);

// The record's `allocation` (api/run.schema.json).
Json allocation_of(const JobName& name, const JobInfo& job);

}  // namespace mlbench::exec::slurm
