#pragma once

// Derives MLBench's result of a run (official_result.txt, by clocks.train_legacy_s) again from the raw events in its
// archive, and compares it with what the archive claims. Two kinds of archives have the same layout (zip.h):
//
//   mlbench     what `mlbench download` writes: it has run.json. Times are whole nanoseconds, so every figure must
//               agree exactly. The total is the clock train_legacy: all step kinds but batch_load and checkpoint.
//   dashboard   what MLBench's dashboard writes. Times are sums of floating-point numbers, which must agree to 1e-6
//               (relative), and the total, which its text rounds, to 1 ms. The total is the sum of
//               CumulativeTrainTimeEpoch.
//
// As in both programs, the result is rank 0's. The goal is met at the first evaluation whose value meets it; run.json
// says which evaluation a limit brought about, and that one meets no goal. The times are sums over the epochs that
// ended by then. A run that went on past its goal has no such result, since its totals are later ones. A goal that is
// met in the middle of an epoch (the dashboard's translation tasks) is in no epoch's sum. Then the run's own totals
// (global_cum_*) are taken, and `source` says "totals".
// The dashboard's task 0 measures all-reduces of growing sizes and has no result of MLBench's. Its archive holds four
// series: val_tensor_size, val_dtype, val_cuda, val_avg_time. The i-th values of all four, in the order of time, become
// one row of `collectives`, with the mean time at rank 0.
// The total is divided into compute (fwd_pass + comp_loss + backprop + opt_step), communication (agg), metrics
// (comp_metrics), preprocessing (batch_load) and other, which is what is left of it.

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::report {

// Derives the result of an archive with these members:
// {"format": "mlbench" | "custom" (a custom run's download) | "dashboard", "name": text|null, "task": text|null,
//  "light": bool|null, "workers": n,
//  "goal": {"metric", "split", "target", "higher_is_better", "reached", "value": at the evaluation that met the goal,
//  else the best | null, "evaluation": the number of that evaluation, from 1 | null} | null,
//  "official_result": text|null, "claimed": official_result.txt|null,
//  "seconds": {"total", "compute", "communication", "metrics", "preprocessing", "other", "train": clock|null},
//  "steps_s": {kind of step: its seconds}, "source": "epochs" | "totals", "epochs": n, "evaluations": n,
//  "differences": [{"what", "claimed", "derived"}], "notes": [text],
//  "run_notes": as to_json() of notes.h has them | null}
// For task 0, "task" is "0a"; "goal", "seconds" and "source" are null; "epochs" and "evaluations" are 0; there is no
// "steps_s", but "collectives": {"results": rows (record/collectives.h)}.
// Throws UserError, naming the member, where what is needed is missing or malformed, and for a run that has not ended.
Json derive_result(const std::vector<ZipMember>& members);

// The result for people: whose it is, MLBench's result, where the time went, whether the claims hold.
std::string result_text(const Json& result, const TableStyle& style = {});

}  // namespace mlbench::report
