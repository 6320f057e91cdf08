#include "mlbench/exec/kubernetes/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/log.h"
#include "mlbench/exec/kubernetes/manifest.h"
#include "mlbench/net/http/message.h"
#include "mlbench/net/sockets.h"

namespace mlbench::exec::kubernetes {
namespace {

using std::chrono::milliseconds;

// The limit for what Kubernetes says of an allocation, which is asked for while ranks run already.
constexpr milliseconds kAllocationPatience{5000};
constexpr milliseconds kRemovalPoll{200};
// The exit code of a guard that reached nobody.
constexpr int kNobodyAnswered = static_cast<int>(ExitCode::kCommError);

std::string query(const std::string& key, const std::string& value) {
  return "?" + key + "=" + net::http::percent_encode(value);
}

// A text of what is shown of a look at the job: it changes when there are news.
std::string digest(const Seen& seen) {
  std::string text = seen.silence + "|" + seen.warning + (seen.gone ? "|gone" : "");
  for (const PodView& pod : seen.pods) {
    text +=
        fmt::format("|{} {} {} {} {} {}", pod.uid, pod.phase, pod.waiting, pod.unschedulable, pod.deleted(), pod.node);
  }
  return text + (seen.job.is_object() ? seen.job.value("status", Json()).dump() : "");
}

}  // namespace

std::string JobOfRun::path() const { return fmt::format("/apis/batch/v1/namespaces/{}/jobs/{}", name_space, name); }
std::string JobOfRun::pods_path() const {
  return fmt::format("/api/v1/namespaces/{}/pods{}", name_space,
                     query("labelSelector", fmt::format("{}={}", kStartLabel, name)));
}
std::string JobOfRun::events_path() const {
  return fmt::format("/api/v1/namespaces/{}/events{}", name_space, query("fieldSelector", "involvedObject.uid=" + uid));
}
std::string JobOfRun::warnings_path() const {
  return fmt::format("/api/v1/namespaces/{}/events{}", name_space,
                     query("fieldSelector", "type=Warning,involvedObject.kind=Pod"));
}

// ---- the watch -----------------------------------------------------------------------------------------------------

Watch::Watch(Cluster cluster, JobOfRun job, JobPace pace)
    : job_(std::move(job)), pace_(pace), cluster_(std::move(cluster)), thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Seen Watch::seen() const {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

std::vector<std::string> Watch::take_warnings() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(news_, {});
}

void Watch::hurry() {
  {
    const std::scoped_lock lock(mutex_);
    hurried_ = true;
  }
  wake_.notify_all();
}

void Watch::run() {
  net::block_signals_on_this_thread();
  Api api(cluster_, pace_.api);
  for (milliseconds wait = pace_.look;;) {
    try {
      look(api);
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex_);
      seen_.silence = error.what();
    }
    std::unique_lock lock(mutex_);
    wait = changed_ || hurried_ ? pace_.look : std::min(pace_.slow_look, wait * 3 / 2);
    wake_.wait_for(lock, wait, [this] { return stopped_ || hurried_; });
    hurried_ = false;
    if (stopped_) return;
  }
}

// Asks for the job, and notes the answer in `now`. A server that does not answer has lost no job.
void Watch::look_at_job(Api& api, Seen& now) const {
  const ApiAnswer job = api.get(job_.path());
  now.silence.clear();
  now.refused.clear();
  if (job.good() && job.body.is_object()) {
    now.job = job.body;
    now.gone = job.body.value("metadata", Json::object()).value("uid", "") != job_.uid;
  } else if (job.unknown()) {
    now.gone = true;
  } else {
    now.silence = job.words.empty() ? "Kubernetes answers nonsense" : job.words;
    if (job.status == 401 || job.status == 403) now.refused = job.words;
  }
}

// Looks once at the job and its pods.
void Watch::look(Api& api) {
  Seen now = seen();
  const std::string before = digest(now);
  look_at_job(api, now);
  if (!now.gone && now.silence.empty()) {
    const ApiAnswer pods = api.get(job_.pods_path());
    if (pods.good() && pods.body.is_object()) {
      const std::vector<PodView> earlier = std::exchange(now.pods, {});
      for (const Json& pod : pods.body.value("items", Json::array())) now.pods.push_back(pod_view(pod));
      // The job may have been deleted between the two answers: then it is the cause of its pods' ends.
      const auto is_news = [&](const PodView& pod) {
        const auto known = std::ranges::find(earlier, pod.uid, &PodView::uid);
        return pod.deleted() && (known == earlier.end() || !known->deleted());
      };
      if (!now.deleted() && std::ranges::any_of(now.pods, is_news)) look_at_job(api, now);
    } else {
      now.silence = pods.words;
    }
    now.warning.clear();
    if (std::ssize(now.pods) < job_.ranks && now.job.value("spec", Json::object()).value("suspend", Json()) != true) {
      const ApiAnswer events = api.get(job_.events_path());
      if (events.good() && events.body.is_object()) {
        for (const Json& event : events.body.value("items", Json::array())) {
          if (event.value("type", "") == "Warning") now.warning = event.value("message", "");
        }
      }
    }
  }
  const bool changed = digest(now) != before;
  if (!now.pods.empty() && now.silence.empty() && (changed || std::chrono::steady_clock::now() >= warnings_at_)) {
    look_for_warnings(api);
  }
  const std::scoped_lock lock(mutex_);
  changed_ = changed;
  seen_ = std::move(now);
}

// Looks for warnings of the job's pods. Where the server does not let events be seen, there are none.
void Watch::look_for_warnings(Api& api) {
  warnings_at_ = std::chrono::steady_clock::now() + pace_.warnings;
  const ApiAnswer events = api.get(job_.warnings_path());
  if (!events.good() || !events.body.is_object()) return;
  std::vector<std::string> news = warnings_.news(events.body.value("items", Json::array()), job_.name, job_.name_space);
  const std::scoped_lock lock(mutex_);
  std::ranges::move(news, std::back_inserter(news_));
}

// ---- the job -------------------------------------------------------------------------------------------------------

Job::Job(const Cluster& cluster, JobOfRun job, JobPace pace)
    : job_(std::move(job)),
      pace_(pace),
      api_(cluster, pace.api),
      watch_(std::make_unique<Watch>(cluster, job_, pace)) {}

StartStatus Job::status() {
  if (!failure_.empty()) return {.state = StartState::kFailed, .words = failure_, .late = late_};
  const Seen seen = watch_->seen();
  const JobWords now = before_ranks(seen, job_.ranks, job_.queue);
  std::string words = said(now.words);
  if (!seen.silence.empty() && !seen.job.is_null()) words += fmt::format(" (no news: {})", seen.silence);
  if (now.state != JobState::kStuck) stuck_since_.reset();
  if (now.state != JobState::kRuns) running_since_.reset();
  switch (now.state) {
    case JobState::kWaits:
      return {StartState::kQueued, words};
    case JobState::kBegins:
      return {StartState::kStarting, words};
    case JobState::kStuck:
      if (!stuck_since_) stuck_since_ = Clock::now();
      if (Clock::now() - *stuck_since_ < pace_.stuck) return {StartState::kStarting, words};
      break;
    case JobState::kRuns:
      if (!running_since_) running_since_ = Clock::now();
      if (Clock::now() - *running_since_ < pace_.start) return {StartState::kStarted, words};
      words = said(fmt::format("its pods run, and not all of their {} within {} s: pods have to reach {}{}",
                               job_.pods_meet ? "ranks" : "guards came",
                               std::chrono::duration<double>(pace_.start).count(), job_.supervisor,
                               job_.pods_meet ? ", and each other at ports above 1023, where Open MPI listens" : ""));
      break;
    case JobState::kOver:
      if (std::ranges::any_of(seen.pods, [](const PodView& pod) { return pod.exit_code == kNobodyAnswered; })) {
        words += fmt::format(" (pods have to reach {}, where the supervisor listens: a NetworkPolicy, a firewall?)",
                             job_.supervisor);
      }
      break;
  }
  failure_ = words;
  late_ = now.state == JobState::kRuns;
  return {.state = StartState::kFailed, .words = failure_, .late = late_};
}

std::vector<EngineWord> Job::news() {
  const Seen seen = watch_->seen();
  // The first look that shows a pod for each rank: looks before the ranks ran may be older than their pods.
  if (!first_ && std::ssize(seen.pods) == job_.ranks) first_ = seen.pods;
  std::vector<EngineWord> news;
  for (EngineWord& word : done_to(seen, first_.value_or(std::vector<PodView>{}))) {
    if (!told_.insert(word.words).second) continue;
    word.words = said(word.words);
    news.push_back(std::move(word));
  }
  return news;
}

Json Job::allocation() {
  const auto placed = [&](const Seen& seen) {
    return std::ssize(seen.pods) == job_.ranks &&
           std::ranges::none_of(seen.pods, [](const PodView& pod) { return pod.node.empty() || pod.image_id.empty(); });
  };
  const auto deadline = Clock::now() + kAllocationPatience;
  Seen seen = watch_->seen();
  while (!placed(seen) && Clock::now() < deadline) {
    watch_->hurry();
    std::this_thread::sleep_for(kRemovalPoll);
    seen = watch_->seen();
  }
  std::set<std::string> nodes, images;
  for (const PodView& pod : seen.pods) {
    if (!pod.node.empty()) nodes.insert(pod.node);
    if (!pod.image_id.empty()) images.insert(pod.image_id);
  }
  return {{"engine", "kubernetes"},
          {"job", job_.name},
          {"namespace", job_.name_space},
          {"nodes", nodes},
          {"image", job_.image},
          {"image_ids", images},
          {"server", job_.server.empty() ? Json() : Json(job_.server)}};
}

// Deletes the job. Guards whose links are closed end their ranks, and then themselves; those that never came are ended
// by their node.
void Job::end(milliseconds /*patience*/) {
  watch_.reset();
  try {
    if (!api_.remove(job_.path(), kGraceSeconds)) return;
    const auto deadline = Clock::now() + pace_.removal;
    for (;;) {
      const ApiAnswer answer = api_.get(job_.path());
      const bool another = answer.good() && answer.body.is_object() &&
                           answer.body.value("metadata", Json::object()).value("uid", "") != job_.uid;
      if (answer.unknown() || another) return;
      if (Clock::now() >= deadline) break;
      std::this_thread::sleep_for(kRemovalPoll);
    }
    spdlog::warn("{}",
                 said(fmt::format("it was deleted, and is not gone after {} s: Kubernetes keeps pods of a node that "
                                  "is out of reach until that is back, or removed",
                                  std::chrono::duration<double>(pace_.removal).count())));
  } catch (const std::exception& error) {
    spdlog::warn("{}; remove it with: kubectl delete job {} --namespace {}", error.what(), job_.name, job_.name_space);
  }
}

std::string Job::said(const std::string& what) const { return fmt::format("job {}: {}", job_.name, what); }

}  // namespace mlbench::exec::kubernetes
