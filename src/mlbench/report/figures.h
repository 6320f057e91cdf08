#pragma once

// Figures that are derived from the record of a run. A figure that does not exist is empty, never zero.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"

namespace mlbench::report {

// The number at the JSON pointer `pointer`, such as "/goal/target"; empty when it is absent, null or no number.
std::optional<double> number(const Json& document, const char* pointer);
// The text at `pointer`; "" when it is absent, null or no text.
std::string text(const Json& document, const char* pointer);

// The share of takes that found the ring empty; empty without a ring.
std::optional<double> empty_share(const std::optional<record::Ring>& ring);

// Whether a run ends when it reaches its goal, so that the times of the whole run are its times to the goal.
// Precondition: the run reached its goal.
bool ended_at_goal(const record::Record& record);

// Whether a limit brought about the run's last evaluation, which then meets no goal.
bool ended_at_limit(const record::Record& record);

// What a run's time went to: seconds by kind of step, and the parts of the exchange.
struct TimeSums {
  record::NamedNumbers steps_s;
  std::optional<record::Exchange> exchange;
};
// The sums over the whole run.
TimeSums sums_of(const record::Record& record);
// The sums over the time up to the goal: those of the record's goal, or of the whole record where the run ended there.
// Empty where the goal was not reached, or where these sums are not on record.
std::optional<TimeSums> sums_to_goal(const record::Record& record);

// Seconds in init, fwd_pass, comp_loss, backprop and opt_step together; empty where none of them is known.
std::optional<double> compute_seconds(const record::NamedNumbers& steps_s);

// Rank 0's value, which is the first of `of_ranks`; empty where there is none.
std::optional<double> of_rank_0(const std::vector<double>& of_ranks);

bool reached_goal(const record::Record& record);

// How many images could not be decoded, so that others were taken in their place; 0 where the record does not say.
int64_t bad_images_of(const record::Record& record);

// The goal's metric at its last evaluation; empty where there is none.
std::optional<double> last_value(const record::Record& record);

// The limit of each worker's container, in CPUs; empty where there is none.
std::optional<double> cpus_of(const record::Record& record);

// The figures that tables show of one run.
struct RunFigures {
  std::string name, state;
  int64_t workers = 0, threads_per_worker = 0;
  bool has_goal = true;                  // false: a throughput run
  std::optional<double> time_to_goal_s;  // train clock; only when the goal was reached
  std::optional<double> wall_to_goal_s;  // wall clock, from the launch to the end of the evaluation that met it
  std::optional<double> train_s, train_legacy_s, wall_s;
  std::optional<double> samples_per_s;
  std::optional<double> communication_share;  // of the train clock: steps_s.agg / clocks.train_s
  // Shares of rank 0's train clock: waiting for the slowest rank, and moving bytes. Without `exchange_exact`, the true
  // wait is at least and the true transfer at most so much.
  std::optional<double> wait_share, transfer_share;
  bool exchange_exact = false;
  // The share of rank 0's train clock in which waiting or transfer ran while the gradient was computed.
  std::optional<double> hidden_share;
  bool hides() const { return hidden_share.value_or(0) > 0; }
  // The share of time in which rank 0's accelerator did not wait for data (docs/rules.md). Empty for real steps on a
  // GPU, since the host does not see when its passes end.
  std::optional<double> accelerator_utilisation;
  // The share of steps, of all ranks, that found no batch ready in the ring of those decoded ahead.
  std::optional<double> ring_empty_share;
  // The energy of all hosts of the ranks, by all their programs; empty where a host's is not known.
  std::optional<double> energy_joules, energy_to_goal_joules;
  // The goal's metric at its last evaluation, "Prec@1 84.21". For collectives: "160 rows, 3.21 GB/s, 0 wrong".
  std::string evaluation;
  bool shared_host = false;         // other runs on the same host changed the times, so tables show none
  std::vector<std::string> labels;  // what a reader must know before comparing the run with others
};
RunFigures figures_of(const record::Record& record);

// Appends `label` to `labels` unless it is among them.
void add_label(std::vector<std::string>& labels, const std::string& label);

}  // namespace mlbench::report
