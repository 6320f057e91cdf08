#pragma once

// The master of a home takes runs, starts them, and answers over HTTP. No run needs it: whatever of it fails, runs go
// on, and their folders hold everything.

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
  std::filesystem::path program;  // the program mlbench, which starts supervisors
  std::filesystem::path worker;   // the program mlbench-worker; the others lie beside it
  std::filesystem::path core_lock;
  std::filesystem::path token_file;  // empty: HOME/token, made where it is missing
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any free one
  // Where this master listens on all addresses: the address under which programs of runs on other hosts reach it. "":
  // they cannot reach it.
  std::string address = {};
  std::vector<std::string> allowed_hosts;
  bool legacy_api = false;
  std::filesystem::path certificate, key;  // PEM; both or none
  int cores = 1;
  net::http::Limits limits;
};

class Master {
 public:
  // Serves when the constructor returns. Throws UserError where another master owns the home, the port is taken, the
  // token file can be read by others, or the certificate is unusable. Precondition: `planner` outlives the master.
  Master(MasterOptions options, plan::Planner& planner);
  // Finishes running requests and closes streams. Runs go on.
  ~Master();
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  // For a shutdown that runs cannot outlive: takes no more requests, starts nothing more, and stops the started runs.
  // Waits up to about `patience` until they have ended, and returns the names of those that have not. Runs that wait in
  // the queue are left to the next master.
  std::vector<std::string> stop_runs(std::chrono::milliseconds patience);

  const std::string& url() const;
  const std::filesystem::path& token_file() const;
  const std::string& token() const;
  // Method and path of every route, for comparison with api/openapi.json.
  std::vector<std::pair<std::string, std::string>> routes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Splits "127.0.0.1:8080", ":8080" (which is 127.0.0.1) or "[::1]:80" into host and port. Throws UserError for any
// other text.
std::pair<std::string, uint16_t> parse_listen(const std::string& text);

}  // namespace mlbench::master
