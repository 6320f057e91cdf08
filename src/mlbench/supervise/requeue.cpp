#include "mlbench/supervise/requeue.h"

#include <fmt/format.h>

#include "mlbench/base/run_folder.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/supervise/link_files.h"

namespace mlbench::supervise {

Requeue::Verdict Requeue::next(const Outcome& outcome) {
  const int64_t most = spec::engine_count(run_.engine, "requeue");
  const bool no_start = outcome.failure && outcome.failure->kind == "start_failed";
  if (most == 0 || !(outcome.lost_place || (times_ > 0 && no_start))) return {};
  if (times_ == most)
    return {.step = {}, .note = fmt::format("not requeued: it was {} times, as often as asked for", most)};
  const std::vector<int64_t> steps = checkpoint_steps(run_.run_dir);
  if (steps.empty()) return {.step = {}, .note = "not requeued: there is no checkpoint yet to go on from"};
  ++times_;
  return {.step = steps.back(),
          .note = fmt::format("requeued from step {} ({} of {}): {}", steps.back(), times_, most,
                              outcome.failure ? outcome.failure->message : ""),
          .wait = !outcome.lost_place};
}

}  // namespace mlbench::supervise
