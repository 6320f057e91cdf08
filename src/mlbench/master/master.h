#pragma once

// The master of a home: takes runs, starts them, and answers over HTTP. It owns nothing that a run needs: whatever dies
// here, runs go on and their folders say everything.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/net/http/server.h"
#include "mlbench/plan/planner.h"

namespace mlbench::master {

struct MasterOptions {
  std::filesystem::path home;
  std::filesystem::path program;  // mlbench: starts supervisors
  std::filesystem::path worker;   // mlbench-worker
  std::filesystem::path core_lock;
  std::filesystem::path token_file;  // empty: HOME/token, made when absent
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any free one
  // By which programs of runs on other hosts reach this one, where it listens on all addresses; "": they do not.
  std::string address = {};
  std::vector<std::string> allowed_hosts;
  bool legacy_api = false;
  std::filesystem::path certificate, key;  // PEM; both or none
  int cores = 1;
  net::http::Limits limits;
};

class Master {
 public:
  // Serves on return. UserError when another master owns the home, the port is taken, the token file is open to others,
  // the certificate is unusable. `planner` outlives it.
  Master(MasterOptions options, plan::Planner& planner);
  // Orderly: running requests end, streams are closed; runs go on.
  ~Master();
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  // For the end, where runs cannot outlive this process: takes no requests and starts nothing any more, stops the runs
  // that were started, and waits up to about `patience` until they have ended. Names of those that have not. What waits
  // is for the next master.
  std::vector<std::string> stop_runs(std::chrono::milliseconds patience);

  const std::string& url() const;
  const std::filesystem::path& token_file() const;
  const std::string& token() const;
  // Method and path of everything that is answered, for the check against api/openapi.json.
  std::vector<std::pair<std::string, std::string>> routes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// "127.0.0.1:8080", ":8080", "[::1]:80" -> host and port. UserError for anything else.
std::pair<std::string, uint16_t> parse_listen(const std::string& text);

}  // namespace mlbench::master
