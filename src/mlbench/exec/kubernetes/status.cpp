#include "mlbench/exec/kubernetes/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>
#include <tuple>

#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/exec/kubernetes/manifest.h"

namespace mlbench::exec::kubernetes {

const Json& member(const Json& object, const char* key) {
  static const Json kNone;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

namespace {

// The condition of that type in an object's status, or null.
const Json& condition(const Json& object, std::string_view type) {
  static const Json kNone;
  for (const Json& one : member(member(object, "status"), "conditions")) {
    if (text_member(one, "type") == type) return one;
  }
  return kNone;
}

// Notes what keeps the pod's containers from running, or ended them.
void look_at(const Json& containers, PodView& view) {
  for (const Json& container : containers) {
    const Json& state = member(container, "state");
    const Json& waiting = member(state, "waiting");
    if (view.waiting.empty()) {
      view.waiting = text_member(waiting, "reason");
      view.waiting_words = text_member(waiting, "message");
    }
    const Json& ended = member(state, "terminated");
    const auto code = integer_of(member(ended, "exitCode"));
    if (code && (*code != 0 || text_member(container, "name") == kRankContainer) && view.exit_code.value_or(0) == 0) {
      view.exit_code = static_cast<int>(*code);
      view.end_reason = text_member(ended, "reason");
      view.end_words = text_member(ended, "message");
    }
    if (text_member(container, "name") == kRankContainer) view.image_id = text_member(container, "imageID");
  }
}

bool is_error(std::string_view waiting) {
  constexpr std::array<std::string_view, 8> kErrors = {
      "ImagePullBackOff", "ErrImagePull",         "ErrImageNeverPull", "InvalidImageName",
      "CrashLoopBackOff", "CreateContainerError", "RunContainerError", "CreateContainerConfigError"};
  return std::ranges::find(kErrors, waiting) != kErrors.end();
}

std::string name_of(const PodView& pod) {
  return fmt::format("pod {}{}", pod.name,
                     pod.rank < 0       ? ""
                     : pod.node.empty() ? fmt::format(" (rank {})", pod.rank)
                                        : fmt::format(" (rank {} on node {})", pod.rank, pod.node));
}

std::string behind(const std::string& words) {
  std::string text = words;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.empty() ? "" : ": " + text;
}

bool disturbed(const PodView& pod) {
  return !pod.disruption.empty() || pod.reason == "Evicted" || pod.reason == "NodeLost" ||
         pod.end_reason == "OOMKilled";
}
bool ended_by_itself(const PodView& pod) { return pod.phase == "Failed" && !disturbed(pod) && !pod.deleted(); }

bool node_gone(const PodView& pod) {
  return pod.reason == "NodeLost" || pod.disruption == "DeletionByTaintManager" ||
         pod.disruption == "DeletionByPodGC" || pod.phase == "Unknown";
}

// Whether somebody or something else ended the pod, so that its rank could run elsewhere.
bool place_taken(const PodView& pod) {
  return pod.end_reason != "OOMKilled" &&
         (pod.deleted() || !pod.disruption.empty() || pod.reason == "Evicted" || node_gone(pod));
}

// Exit codes above this one are those of signals.
constexpr int kSignals = 128;

EngineFact fact_of_end(const PodView& pod) {
  if (node_gone(pod)) return EngineFact::kHostGone;
  if (disturbed(pod)) return EngineFact::kRankTaken;
  return ended_by_itself(pod) ? EngineFact::kRankEnded : EngineFact::kRankDeleted;
}

// The pods that have ended or are about to. The one with which that began comes first, as the job deletes all once one
// has failed.
std::vector<PodView> ending(const std::vector<PodView>& pods) {
  std::vector<PodView> all;
  std::ranges::copy_if(pods, std::back_inserter(all),
                       [](const PodView& pod) { return disturbed(pod) || ended_by_itself(pod) || pod.deleted(); });
  std::ranges::stable_sort(all, {}, [](const PodView& pod) {
    const int weight = disturbed(pod) ? 0 : ended_by_itself(pod) ? 1 : 2;
    return std::tuple(weight, weight == 2 ? pod.deleted_at : "", weight == 2 && !pod.over());
  });
  return all;
}

}  // namespace

PodView pod_view(const Json& pod) {
  const Json &metadata = member(pod, "metadata"), &spec = member(pod, "spec"), &status = member(pod, "status");
  PodView view;
  view.name = text_member(metadata, "name");
  view.uid = text_member(metadata, "uid");
  view.node = text_member(spec, "nodeName");
  view.phase = text_member(status, "phase");
  view.deleted_at = text_member(metadata, "deletionTimestamp");
  std::string index = text_member(member(metadata, "labels"), kIndexLabel);
  if (index.empty()) index = text_member(member(metadata, "annotations"), kIndexLabel);
  std::from_chars(index.data(), index.data() + index.size(), view.rank);
  const Json& scheduled = condition(pod, "PodScheduled");
  if (text_member(scheduled, "status") == "False") {
    view.unschedulable = text_member(scheduled, "reason") + behind(text_member(scheduled, "message"));
  }
  look_at(member(status, "initContainerStatuses"), view);
  if (view.waiting.empty() || view.waiting == "PodInitializing") {
    view.waiting.clear();
    look_at(member(status, "containerStatuses"), view);
  } else {
    PodView rest;
    look_at(member(status, "containerStatuses"), rest);
    view.image_id = rest.image_id;
  }
  view.reason = text_member(status, "reason");
  view.reason_words = text_member(status, "message");
  const Json& disruption = condition(pod, "DisruptionTarget");
  if (text_member(disruption, "status") == "True") {
    view.disruption = text_member(disruption, "reason");
    view.disruption_words = text_member(disruption, "message");
  }
  return view;
}

std::string end_of(const PodView& pod) {
  const std::string name = name_of(pod);
  if (pod.reason == "Evicted") return fmt::format("{} was evicted{}", name, behind(pod.reason_words));
  if (!pod.disruption.empty()) {
    return fmt::format("{} was disrupted ({}){}", name, pod.disruption, behind(pod.disruption_words));
  }
  if (pod.end_reason == "OOMKilled") {
    return fmt::format("{} ran out of memory (OOMKilled, exit code {}): give its ranks more with --memory", name,
                       pod.exit_code.value_or(137));
  }
  const int code = pod.exit_code.value_or(0);
  if (pod.deleted() && (code == 0 || code > kSignals)) return name + " was deleted";  // its processes got signals
  if (pod.exit_code) {
    return fmt::format("{} ended with exit code {}{}{}", name, code,
                       pod.end_reason.empty() ? "" : " (" + pod.end_reason + ")", behind(pod.end_words));
  }
  return fmt::format("{} is {}{}{}", name, pod.phase.empty() ? "in no phase" : pod.phase,
                     pod.reason.empty() ? "" : " (" + pod.reason + ")", behind(pod.reason_words));
}

bool Seen::deleted() const { return !text_member(member(job, "metadata"), "deletionTimestamp").empty(); }

JobWords before_ranks(const Seen& seen, int ranks, const std::string& queue) {
  if (seen.gone) return {JobState::kOver, "somebody deleted it"};
  if (!seen.refused.empty() && seen.job.is_null()) return {JobState::kOver, "it cannot be seen: " + seen.refused};
  if (seen.job.is_null()) {
    return {seen.silence.empty() ? JobState::kBegins : JobState::kWaits, "is submitted" + behind(seen.silence)};
  }
  if (seen.deleted()) return {JobState::kOver, "somebody deletes it"};
  if (const auto pods = ending(seen.pods); !pods.empty()) return {JobState::kOver, end_of(pods.front())};
  for (const PodView& pod : seen.pods) {
    if (pod.over()) return {JobState::kOver, end_of(pod)};
  }
  if (const Json& failed = condition(seen.job, "Failed"); text_member(failed, "status") == "True") {
    return {JobState::kOver,
            fmt::format("it failed ({}){}", text_member(failed, "reason"), behind(text_member(failed, "message")))};
  }
  if (member(member(seen.job, "spec"), "suspend") == Json(true)) {
    return {JobState::kWaits,
            queue.empty() ? "is suspended" : fmt::format("waits for admission by Kueue (queue {})", queue)};
  }
  const std::string count = fmt::format("of {} pods", ranks);
  if (std::ssize(seen.pods) < ranks) {
    return {seen.warning.empty() ? JobState::kBegins : JobState::kWaits,
            fmt::format("has {} {}{}", seen.pods.size(), count, behind(seen.warning))};
  }
  const auto waits = std::ranges::find_if(seen.pods, [](const PodView& pod) { return !pod.unschedulable.empty(); });
  if (waits != seen.pods.end()) {
    const auto number = std::ranges::count_if(seen.pods, [](const PodView& pod) { return !pod.unschedulable.empty(); });
    return {JobState::kWaits, fmt::format("{} {} wait for a node: {}", number, count, waits->unschedulable)};
  }
  for (const PodView& pod : seen.pods) {
    if (!is_error(pod.waiting)) continue;
    return {JobState::kStuck, fmt::format("{}: {}{}", name_of(pod), pod.waiting, behind(pod.waiting_words))};
  }
  const auto running = std::ranges::count(seen.pods, "Running", &PodView::phase);
  return {running == ranks ? JobState::kRuns : JobState::kBegins, fmt::format("{} {} run", running, count)};
}

std::vector<EngineWord> done_to(const Seen& seen, const std::vector<PodView>& first) {
  if (seen.gone) return {{EngineFact::kJobTaken, "somebody deleted it under its ranks"}};
  if (seen.job.is_null()) return {};
  if (seen.deleted()) return {{EngineFact::kJobTaken, "somebody deletes it under its ranks"}};
  std::vector<EngineWord> words;
  for (const PodView& pod : ending(seen.pods)) {
    words.push_back({fact_of_end(pod), end_of(pod), pod.rank, pod.exit_code, place_taken(pod)});
  }
  for (const PodView& before : first) {
    const bool there = std::ranges::any_of(seen.pods, [&](const PodView& one) { return one.uid == before.uid; });
    if (!there) words.push_back({EngineFact::kRankDeleted, name_of(before) + " was deleted", before.rank, {}, true});
  }
  return words;
}

std::vector<std::string> Warnings::news(const Json& events, const std::string& job, const std::string& name_space) {
  constexpr size_t kLongestWords = 400;
  std::vector<std::string> notes;
  for (const Json& event : events) {
    const Json& object = member(event, "involvedObject");
    const std::string pod = text_member(object, "name"), reason = text_member(event, "reason");
    const std::string words = text_member(event, "message");
    if (count_ == kMost) break;
    if (text_member(event, "type") != "Warning" || text_member(object, "kind") != "Pod" || !pod.starts_with(job + "-"))
      continue;
    // All of a hundred pods may say the same.
    const bool of_pod = said_.insert(pod + " " + reason).second, of_all = said_.insert(reason + ": " + words).second;
    if (!of_pod || !of_all) continue;
    notes.push_back(
        fmt::format("Kubernetes warns of pod {}: {}: {}", pod, printable(reason), printable(words, kLongestWords)));
    if (++count_ == kMost) {
      notes.back() += fmt::format(
          "; there may be more: kubectl get events --namespace {} --field-selector type=Warning", name_space);
    }
  }
  return notes;
}

}  // namespace mlbench::exec::kubernetes
