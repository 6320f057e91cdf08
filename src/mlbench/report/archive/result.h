#pragma once

// MLBench's result of a run (official_result.txt, by clocks.train_legacy_s), derived again from the raw events in its
// archive, and compared with what the archive claims. Two kinds of archives have the same layout (zip.h):
//
//   mlbench     what `mlbench download` writes: it has run.json. Times are whole nanoseconds, so every figure must
//               agree exactly. The total is the clock train_legacy: all step kinds but batch_load and checkpoint.
//   dashboard   what MLBench's dashboard writes. Times are sums of floating-point numbers: 1e-6 relative, and 1 ms for
//               the total, which its text rounds. The total is the sum of CumulativeTrainTimeEpoch.
//
// Derived on rank 0, as both programs do: the goal is met at the first evaluation whose value meets it (not at one that
// a limit brought about: run.json says which); the times are sums over the epochs that ended by then. A run that went
// on past its goal has no such result: its totals are later ones. A goal met in the middle of an epoch (the dashboard's
// translation tasks) is in no epoch's sum: then the run's own totals (global_cum_*) are all there is, and `source` says
// "totals".
// A dashboard's archive of task 0, which measures all-reduces of growing sizes and has no result of MLBench's, holds
// four series side by side: val_tensor_size, val_dtype, val_cuda, val_avg_time. The i-th values of all four, in the
// order of time, belong together; they become rows (`collectives`), with the mean time at rank 0.
// Compute is fwd_pass + comp_loss + backprop + opt_step, communication agg, metrics comp_metrics, preprocessing
// batch_load, other what is left of the total.

#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/archive/zip.h"

namespace mlbench::report {

// {"format": "mlbench" | "custom" (of a custom run's download) | "dashboard", "name": text|null, "task": text|null,
//  "light": bool|null, "workers": n,
//  "goal": {"metric", "split", "target", "higher_is_better", "reached", "value": of the evaluation that met it or the
//  best | null, "evaluation": its number from 1 | null} | null,
//  "official_result": text|null, "claimed": official_result.txt|null,
//  "seconds": {"total", "compute", "communication", "metrics", "preprocessing", "other", "train": clock|null},
//  "steps_s": {kind of step: what of the total it took}, "source": "epochs" | "totals", "epochs": n, "evaluations": n,
//  "differences": [{"what", "claimed", "derived"}], "notes": [text],
//  "run_notes": as to_json() of notes.h has them | null}
// Of task 0: "task" "0a"; "goal", "seconds" and "source" null, no "steps_s", "epochs" and "evaluations" 0; and
//  "collectives": {"results": rows (record/collectives.h)}
// UserError naming the member: what a derivation needs is missing or malformed.
Json derive_result(const std::vector<ZipMember>& members);

// For people: what it is, MLBench's result, where the time went, whether the claims hold.
std::string result_text(const Json& result);

}  // namespace mlbench::report
