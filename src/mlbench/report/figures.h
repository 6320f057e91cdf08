#pragma once

// What a run record says, as figures. Those that do not exist are empty, never zero.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"

namespace mlbench::report {

// A number inside a document of JSON, number(document, "/goal/target"); empty when absent, null or no number.
std::optional<double> number(const Json& document, const char* pointer);
// A text inside it; "" when absent, null or no text.
std::string text(const Json& document, const char* pointer);

// Of a run that reached its goal: whether it ended there, so that what the whole run took is what it took to the goal.
bool ended_at_goal(const record::Record& record);

// Parts of a run's time.
struct TimeSums {
  record::NamedNumbers steps_s;
  std::optional<record::Exchange> exchange;
};
TimeSums sums_of(const record::Record& record);
// Of the time up to its goal: its goal tells them, or the whole record where the run ended there. Empty where the goal
// was not reached, or that is not on record.
std::optional<TimeSums> sums_to_goal(const record::Record& record);

// Time in init, fwd_pass, comp_loss, backprop and opt_step; empty where none of them is known.
std::optional<double> compute_seconds(const record::NamedNumbers& steps_s);

// Of rank 0; empty where `of_ranks` has none.
std::optional<double> of_rank_0(const std::vector<double>& of_ranks);

bool reached_goal(const record::Record& record);

// What a table shows of one run.
struct RunFigures {
  std::string name, state;
  int64_t workers = 0, threads_per_worker = 0;
  bool has_goal = true;                  // false: a throughput run
  std::optional<double> time_to_goal_s;  // train clock; only when the goal was reached
  std::optional<double> wall_to_goal_s;  // wall clock, from the launch to the end of the evaluation that met it
  std::optional<double> train_s, train_legacy_s, wall_s;
  std::optional<double> samples_per_s;
  std::optional<double> communication_share;  // of the train clock: steps_s.agg / clocks.train_s
  // Of rank 0's train clock: waiting for the slowest rank, moving bytes. Not exact: at least and at most so much.
  std::optional<double> wait_share, transfer_share;
  bool exchange_exact = false;
  // The part of both that ran while the gradient was computed; known where wait and transfer are.
  std::optional<double> hidden_share;
  bool hides() const { return hidden_share.value_or(0) > 0; }
  // "Prec@1 84.21", the goal's metric at the last evaluation; of a benchmark of collectives how many rows there are.
  std::string evaluation;
  bool shared_host = false;         // other runs on its host changed its times, which stand in no table
  std::vector<std::string> labels;  // what a reader must know before comparing
};
RunFigures figures_of(const record::Record& record);

// Behind the others, unless it is among them.
void add_label(std::vector<std::string>& labels, const std::string& label);

}  // namespace mlbench::report
