#pragma once

// Sends to open viewers what happens: states and progress of runs (server-sent events), and log lines. One thread looks
// at the folders four times a second, once for all viewers of a run, and sends only what is new. A viewer of a log gets
// as much as it takes in: the file itself is the buffer.

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "mlbench/net/http/message.h"
#include "mlbench/report/progress.h"
#include "mlbench/store/run_index.h"

namespace mlbench::master {

using net::http::Stream;

class LiveFeed {
 public:
  LiveFeed(std::filesystem::path home, const store::RunIndex& index);
  ~LiveFeed();  // ends all streams
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  // The three functions below return at once; the thread reads the files.
  // Sends events "run" {summary, progress} until the run is over, then "end".
  void follow_run(const std::string& name, std::shared_ptr<Stream> stream);
  // Sends events "runs" {total, states, newest: [summary]} until the viewer leaves.
  void follow_all(std::shared_ptr<Stream> stream);
  // Sends what the file holds from `offset` on and what is appended to it, until the run `name` is over.
  void follow_file(const std::string& name, std::filesystem::path file, uintmax_t offset,
                   std::shared_ptr<Stream> stream);
  size_t viewers() const;

 private:
  struct RunFeed {
    report::ProgressReader reader;
    std::string last;
    std::vector<std::shared_ptr<Stream>> streams;
    size_t greeted = 0;  // number of streams that have got `last`
  };
  struct FileFeed {
    std::string name;
    std::filesystem::path file;
    uintmax_t offset;
    std::shared_ptr<Stream> stream;
    bool more = false;  // whether the file had more than the last round sent
  };
  // Viewers that came since the last round.
  struct Arrived {
    std::vector<std::pair<std::string, std::shared_ptr<Stream>>> runs;
    std::vector<FileFeed> files;
    std::vector<std::shared_ptr<Stream>> all;
    size_t count() const { return runs.size() + files.size() + all.size(); }
  };

  void work();
  void welcome(Arrived arrived);
  void round(bool heartbeat);
  bool feed_files();                                                  // whether there is more for a viewer with room
  bool tick(RunFeed& feed, const std::string& name, bool heartbeat);  // false: the run is over
  bool tick(FileFeed& feed);
  void tick_all(bool heartbeat);

  const std::filesystem::path home_;
  const store::RunIndex& index_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  Arrived arrived_;
  std::atomic<size_t> viewers_{0};
  // The members below are used by the thread alone.
  std::map<std::string, RunFeed> runs_;
  std::list<FileFeed> files_;
  std::vector<std::shared_ptr<Stream>> all_;
  size_t all_greeted_ = 0;
  std::map<std::string, int64_t> all_stamps_;
  std::thread thread_;
};

}  // namespace mlbench::master
