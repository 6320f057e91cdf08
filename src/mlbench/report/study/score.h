#pragma once

// Scores of submissions over workloads, by performance profiles (Dolan & More 2002; AlgoPerf, Dahl et al. 2023).
//
// A submission is an algorithm with its rule of tuning; a workload is a task. The profile of a submission at tau is the
// share of workloads on which its time to the target is at most tau times the denominator. The denominator is the time
// of the fastest submission, or of a pinned reference: the second does not change when another submission joins.
//
// The score is the mean of the profile over tau from 1 to tau_max. A workload that was not reached, or only after
// tau_max denominators, adds nothing.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/draw/charts.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

// How often a submission was measured on a workload: AlgoPerf's studies, or repeats.
struct WorkloadTimes {
  std::vector<double> target_s;  // time to the target of each repeat; infinite where it was missed
  std::vector<double> step_s;    // seconds per step of repeats that reached it, where they are known
};

struct Submission {
  std::string name;
  std::map<std::string, WorkloadTimes> workloads;  // by name
};

struct SubmissionScore {
  std::string name;
  std::vector<std::optional<double>> target_s;   // median over repeats, by workload; empty: missed
  double published = 0;                          // AlgoPerf's rule: tau to 4, 100 points, trapezoids
  double score_2 = 0, score_4 = 0, score_8 = 0;  // exact integrals, tau to 2, 4 and 8
  Interval leave_one_out;                        // least and most of score_4 when one workload is left out
  std::optional<Interval> over_repeats;          // 95 % of score_4 over repeats drawn again; empty for one repeat
  std::optional<double> beside_reference;        // score_4 with the reference's times as denominators
  // Geometric mean of the reference's time over this submission's, over the workloads that both reach.
  std::optional<double> speed_up;
};

struct Scores {
  std::vector<std::string> workloads;
  std::vector<SubmissionScore> submissions;  // in the order in which they were given
  std::string reference;                     // "": none
  std::vector<std::string> notes;            // workloads whose repeats differ in seconds per step, ...
};

// Scores over all workloads that any submission has; one that a submission lacks counts as missed. `held_out` are
// workloads (variant, base) that count for no score by themselves: a base whose variant a submission misses, or reaches
// only after 4 times the fastest, is missed, too. Throws UserError for no submission, no workload, or a reference that
// is no submission.
Scores score(const std::vector<Submission>& submissions, const std::string& reference,
             const std::map<std::string, std::string>& held_out = {});

// The profiles, drawn over tau from 1 to 4 beside the fastest.
Chart profile_chart(const Scores& scores);
std::string scores_text(const Scores& scores);
Json to_json(const Scores& scores);

}  // namespace mlbench::report
