#include "mlbench/master/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "mlbench/base/growing_lines.h"
#include "mlbench/base/log.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/system_error.h"
#include "mlbench/home/runs.h"
#include "mlbench/home/summary.h"
#include "mlbench/master/watch.h"
#include "mlbench/report/records.h"

namespace mlbench::master {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kPeriod = 250ms, kBusyPeriod = 5ms;  // the latter while a viewer reads what the file already holds
constexpr size_t kMostPiece = 256 << 10;            // bytes of a file that a round sends
constexpr int kTicksPerHeartbeat = 40;              // keeps proxies from closing idle connections
constexpr int64_t kNewest = 50;

std::string event(const char* name, const std::string& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

Json progress_json(const report::Progress& progress) {
  Json json = {{"segment", progress.segment},
               {"prepared", progress.prepared},
               {"training", progress.training},
               {"steps_done", progress.steps_done},
               {"last_step", progress.last_step},
               {"steps_per_epoch", progress.steps_per_epoch},
               {"evaluations", progress.evaluations},
               {"evaluation", nullptr},
               {"rows", progress.rows},
               {"loss", nullptr},
               {"samples_per_s", nullptr}};
  if (progress.loss) json["loss"] = *progress.loss;
  if (progress.samples_per_s) json["samples_per_s"] = *progress.samples_per_s;
  if (progress.evaluation) json["evaluation"] = *progress.evaluation;
  return json;
}

void push_to(std::vector<std::shared_ptr<Stream>>& streams, const std::string& text) {
  std::erase_if(streams, [&](const auto& stream) { return !stream->push(text); });
}

}  // namespace

LiveFeed::LiveFeed(fs::path home, const store::RunIndex& index) : home_(std::move(home)), index_(index) {
  thread_ = std::thread([this] { work(); });
}

LiveFeed::~LiveFeed() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  for (auto& [name, feed] : runs_) {
    for (const auto& stream : feed.streams) stream->end();
  }
  for (const FileFeed& feed : files_) feed.stream->end();
  for (const auto& stream : all_) stream->end();
  for (const auto& [name, stream] : arrived_.runs) stream->end();
  for (const FileFeed& feed : arrived_.files) feed.stream->end();
  for (const auto& stream : arrived_.all) stream->end();
}

void LiveFeed::follow_run(const std::string& name, std::shared_ptr<Stream> stream) {
  const std::lock_guard lock(mutex_);
  arrived_.runs.emplace_back(name, std::move(stream));
  wake_.notify_all();
}

void LiveFeed::follow_all(std::shared_ptr<Stream> stream) {
  const std::lock_guard lock(mutex_);
  arrived_.all.push_back(std::move(stream));
  wake_.notify_all();
}

void LiveFeed::follow_file(const std::string& name, fs::path file, uintmax_t offset, std::shared_ptr<Stream> stream) {
  const std::lock_guard lock(mutex_);
  arrived_.files.push_back({name, std::move(file), offset, std::move(stream)});
  wake_.notify_all();
}

size_t LiveFeed::viewers() const {
  const std::lock_guard lock(mutex_);
  return viewers_ + arrived_.count();
}

void LiveFeed::welcome(Arrived arrived) {
  for (auto& [name, stream] : arrived.runs) {
    auto found = runs_.find(name);
    if (found == runs_.end()) {
      RunFeed feed{report::ProgressReader(runs_dir(home_) / name), "", {}, 0};
      found = runs_.emplace(name, std::move(feed)).first;
    }
    found->second.streams.push_back(std::move(stream));
  }
  for (FileFeed& feed : arrived.files) files_.push_back(std::move(feed));
  for (auto& stream : arrived.all) all_.push_back(std::move(stream));
}

bool LiveFeed::tick(RunFeed& feed, const std::string& name, bool heartbeat) {
  const fs::path run_dir = runs_dir(home_) / name;
  const record::Record record = report::read_record(run_dir);
  feed.reader.update();
  const Json now = {{"run", home::summary_of(record, report::notes_or_none(run_dir))},
                    {"progress", progress_json(feed.reader.progress())}};
  const std::string text = event("run", now.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (text != feed.last) {
    push_to(feed.streams, text);
    feed.last = text;
  } else {
    for (size_t i = std::min(feed.greeted, feed.streams.size()); i < feed.streams.size(); ++i) {
      feed.streams[i]->push(text);
    }
    if (heartbeat) push_to(feed.streams, ": still here\n\n");
  }
  feed.greeted = feed.streams.size();
  if (!record::is_active(record)) {
    push_to(feed.streams, event("end", "{}"));
    for (const auto& stream : feed.streams) stream->end();
    return false;
  }
  return !feed.streams.empty();
}

bool LiveFeed::tick(FileFeed& feed) {
  // The state is read first: what is written between the two is read in the next round.
  const bool active = feed.more || home::is_active_run(runs_dir(home_) / feed.name);
  const size_t room = std::min(feed.stream->room(), kMostPiece);
  const std::string text = room == 0 ? "" : read_from(feed.file, feed.offset, room);
  feed.offset += text.size();
  if (!feed.stream->push(text)) return false;
  feed.more = text.size() == room;
  if (!active && !feed.more) {
    feed.stream->end();
    return false;
  }
  return true;
}

void LiveFeed::tick_all(bool heartbeat) {
  if (all_.empty()) return;
  const bool first = all_greeted_ < all_.size();
  std::map<std::string, int64_t> stamps = index_.stamps();
  const bool changed = stamps != all_stamps_;
  all_stamps_ = std::move(stamps);
  if (changed || first) {
    Json states = Json::object();
    int64_t total = 0;
    for (const auto& [state, count] : index_.count_by_state()) {
      states[state] = count;
      total += count;
    }
    const std::vector<std::string> newest = index_.newest_summaries(kNewest);
    std::string data = fmt::format("{{\"total\":{},\"states\":{},\"newest\":[", total, states.dump());
    for (size_t i = 0; i < newest.size(); ++i) data += (i == 0 ? "" : ",") + newest[i];
    push_to(all_, event("runs", data + "]}"));
  } else if (heartbeat) {
    push_to(all_, ": still here\n\n");
  }
  all_greeted_ = all_.size();
}

namespace {

bool guarded(const std::string& name, const std::function<bool()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    spdlog::debug("viewers of {}: {}", name, error.what());  // the run was deleted
    return is_transient(error);
  }
}

}  // namespace

bool LiveFeed::feed_files() {
  bool more = false;
  for (auto file = files_.begin(); file != files_.end();) {
    if (guarded(file->name, [&] { return tick(*file); })) {
      more = more || (file->more && file->stream->room() > 0);
      ++file;
      continue;
    }
    file->stream->end();
    file = files_.erase(file);
  }
  return more;
}

void LiveFeed::round(bool heartbeat) {
  for (auto run = runs_.begin(); run != runs_.end();) {
    if (guarded(run->first, [&] { return tick(run->second, run->first, heartbeat); })) {
      ++run;
      continue;
    }
    for (const auto& stream : run->second.streams) stream->end();
    run = runs_.erase(run);
  }
  guarded("all runs", [&] {
    tick_all(heartbeat);
    return true;
  });
}

void LiveFeed::work() {
  std::unique_lock lock(mutex_);
  auto next_round = std::chrono::steady_clock::now();
  for (int number = 1; !stopping_;) {
    Arrived arrived = std::exchange(arrived_, {});
    const bool greets = arrived.count() > 0;
    lock.unlock();
    welcome(std::move(arrived));
    const auto now = std::chrono::steady_clock::now();
    if (greets || now >= next_round) round(number++ % kTicksPerHeartbeat == 0);
    if (now >= next_round) next_round = now + kPeriod;
    const bool more = feed_files();
    size_t viewers = files_.size() + all_.size();
    for (const auto& [name, feed] : runs_) viewers += feed.streams.size();
    viewers_ = viewers;
    lock.lock();
    const auto pause = more ? kBusyPeriod
                            : std::max<std::chrono::steady_clock::duration>(
                                  next_round - std::chrono::steady_clock::now(), kBusyPeriod);
    if (!stopping_ && arrived_.count() == 0) wake_.wait_for(lock, pause);
  }
}

}  // namespace mlbench::master
