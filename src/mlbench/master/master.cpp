#include "mlbench/master/master.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <condition_variable>
#include <set>
#include <thread>

#include "mlbench/base/clock.h"
#include "mlbench/base/descriptors.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/log.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/home/owner.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/http/services.h"
#include "mlbench/net/sockets.h"
#include "mlbench/report/records.h"

namespace mlbench::master {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kIngestPeriod = 1000ms;
constexpr auto kHousekeeping = 500ms;
constexpr auto kStopPoll = 100ms;

std::vector<Route> all_routes(Services& services) {
  std::vector<Route> routes;
  for (auto part : {system_routes(services), metrics_routes(services), node_routes(services), run_routes(services),
                    legacy_routes(services), mlflow_routes(services), page_routes(services)}) {
    for (Route& route : part) routes.push_back(std::move(route));
  }
  return routes;
}

fs::path checked_token_file(const MasterOptions& options) {
  return options.token_file.empty() ? home::default_token_file(options.home) : fs::absolute(options.token_file);
}

// File descriptors that a master itself has open: stores and their logs, locks, run folders that it looks at, children
// that it starts. The rest is for connections.
constexpr size_t kOwnDescriptors = 192, kLeastConnections = 64;

// Returns the home after finishing submissions and deletions that were cut short.
const fs::path& collected(const fs::path& home) {
  home::lock_runs(home);  // finishes what commands left behind
  return home;
}

net::http::ServerOptions server_options(const MasterOptions& options) {
  const size_t descriptors = raise_descriptor_limit();
  if (descriptors < kOwnDescriptors + kLeastConnections) {
    throw UserError(
        fmt::format("a master needs {} open files and sockets, and this process may have {}: raise the limit "
                    "('ulimit -n 1024' in the shell that starts it)",
                    kOwnDescriptors + kLeastConnections, descriptors));
  }
  net::http::ServerOptions server;
  server.host = options.host;
  server.port = options.port;
  server.limits = options.limits;
  server.limits.connections =
      static_cast<unsigned>(std::min<size_t>(options.limits.connections, descriptors - kOwnDescriptors));
  if (options.certificate.empty() != options.key.empty()) {
    throw UserError("TLS needs both --certificate and --key");
  }
  if (!options.certificate.empty()) {
    server.tls_certificate = read_file(options.certificate);
    server.tls_key = read_file(options.key);
  }
  return server;
}

}  // namespace

class Master::Impl {
 public:
  Impl(MasterOptions options, plan::Planner& planner)
      : options_(std::move(options)),
        owner_(options_.home),
        token_file_(checked_token_file(options_)),
        token_(home::ensure_token(token_file_)),
        index_(collected(options_.home) / "store"),
        series_(options_.home / "store" / "series.sqlite", true),
        journal_(options_.home / "store"),
        tracking_(options_.home / "store"),
        ingest_(series_, &last_steps_),
        live_(options_.home, index_),
        watcher_(options_.home, index_, [this](const std::vector<fs::path>& runs) { ingest_active(runs); }),
        scheduler_({options_.home, options_.program, options_.worker, options_.core_lock,
                    Cluster{"local", options_.cores, true}, active_runs()}),
        sessions_(clock_),
        services_{options_.home, planner, index_, series_, journal_, tracking_, scheduler_, watcher_,
                  last_steps_,   ingest_, live_,  hosts_,  gpus_,    sessions_, token_},
        api_({token_, options_.legacy_api, allowed_hosts(), &sessions_}, all_routes(services_)),
        server_(server_options(options_), api_) {
    const bool everywhere = options_.host == "0.0.0.0" || options_.host == "::";
    url_ = url_at(everywhere ? "127.0.0.1" : options_.host);
    const std::string url_of_runs = everywhere && !options_.address.empty() ? url_at(options_.address) : url_;
    home::MasterAddress address{url_, token_file_, "", getpid()};
    if (!options_.certificate.empty()) address.certificate = fs::absolute(options_.certificate);
    owner_.publish(address);
    scheduler_.begin({{variables::kUrl, url_of_runs}, {variables::kTokenFile, token_file_.string()}});
    housekeeper_ = std::thread([this] { keep_house(); });
  }

  ~Impl() {
    server_.stop();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    housekeeper_.join();
  }

  std::vector<std::string> stop_runs(std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    server_.stop();
    scheduler_.pause();
    std::vector<fs::path> runs;
    for (const std::string& name : report::run_names(options_.home)) {
      const fs::path folder = runs_dir(options_.home) / name;
      try {
        if (!home::is_active_run(folder) || home::read_waiting(folder)) continue;
        runs.push_back(folder);
        home::stop_run(options_.home, folder);
      } catch (const std::exception& error) {
        spdlog::warn("run {}: {}", name, error.what());  // it just ended
      }
    }
    while (!runs.empty() && std::chrono::steady_clock::now() < deadline) {
      std::erase_if(runs, [](const fs::path& run) { return !home::is_active_run(run); });
      if (!runs.empty()) std::this_thread::sleep_for(kStopPoll);
    }
    std::vector<std::string> left;
    for (const fs::path& run : runs) left.push_back(run.filename());
    return left;
  }

  const std::string& url() const { return url_; }
  const fs::path& token_file() const { return token_file_; }
  const std::string& token() const { return token_; }
  std::vector<std::pair<std::string, std::string>> routes() const { return api_.routes(); }

 private:
  std::string url_at(const std::string& host) const {
    return fmt::format("{}://{}", options_.certificate.empty() ? "http" : "https",
                       net::endpoint_text(host, server_.port()));
  }

  std::vector<std::string> allowed_hosts() const {
    std::vector<std::string> hosts = options_.allowed_hosts;
    hosts.push_back(hosts_.host());
    hosts.push_back(options_.host);
    return hosts;
  }

  std::vector<fs::path> active_runs() const {
    std::vector<fs::path> folders;
    for (const char* state : {"running", "queued"}) {
      for (const std::string& name : index_.names_in_state(state)) {
        folders.push_back(runs_dir(options_.home) / name);
      }
    }
    for (const std::string& name : watcher_.unread()) folders.push_back(runs_dir(options_.home) / name);
    return folders;
  }

  // Called by the watcher's thread.
  void ingest_active(const std::vector<fs::path>& runs) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_ingest_) return;
    next_ingest_ = now + kIngestPeriod;
    std::set<int64_t> active;
    for (const fs::path& run_dir : runs) {
      try {
        active.insert(ingest_.catch_up(run_dir));
      } catch (const std::exception& error) {
        spdlog::debug("run {}: {}", run_dir.filename().string(), error.what());  // the run was deleted
      }
    }
    last_steps_.keep_only(active);
  }

  void keep_house() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      wake_.wait_for(lock, kHousekeeping);
      lock.unlock();
      try {
        journal_.flush();
        journal_.compact();
      } catch (const std::exception& error) {
        spdlog::error("the journal: {}", error.what());
      }
      lock.lock();
    }
  }

  const MasterOptions options_;
  home::HomeOwner owner_;
  const fs::path token_file_;
  const std::string token_;
  store::RunIndex index_;
  store::SeriesStore series_;
  store::Journal journal_;
  store::Tracking tracking_;
  LastSteps last_steps_;
  Ingest ingest_;
  std::chrono::steady_clock::time_point next_ingest_{};
  LiveFeed live_;
  Watcher watcher_;
  Scheduler scheduler_;
  const SystemClock clock_;
  HostSampler hosts_{clock_};
  GpuSampler gpus_{clock_};
  Sessions sessions_;
  Services services_;
  Api api_;
  net::http::Server server_;
  std::string url_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread housekeeper_;
};

Master::Master(MasterOptions options, plan::Planner& planner)
    : impl_(std::make_unique<Impl>(std::move(options), planner)) {}
Master::~Master() = default;
std::vector<std::string> Master::stop_runs(std::chrono::milliseconds patience) { return impl_->stop_runs(patience); }
const std::string& Master::url() const { return impl_->url(); }
const fs::path& Master::token_file() const { return impl_->token_file(); }
const std::string& Master::token() const { return impl_->token(); }
std::vector<std::pair<std::string, std::string>> Master::routes() const { return impl_->routes(); }

std::pair<std::string, uint16_t> parse_listen(const std::string& text) {
  const size_t colon = text.rfind(':');
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  const bool has_port = colon != std::string::npos && colon + 1 < text.size();
  const auto [last, error] = std::from_chars(has_port ? text.data() + colon + 1 : end, end, port);
  std::string host = text.substr(0, has_port ? colon : 0);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!has_port || error != std::errc() || last != end) {
    throw UserError(
        fmt::format("--listen '{}': expected ADDRESS:PORT, e.g. 127.0.0.1:8080 (port 0: any free one)", text));
  }
  return {host.empty() ? "127.0.0.1" : host, port};
}

}  // namespace mlbench::master
