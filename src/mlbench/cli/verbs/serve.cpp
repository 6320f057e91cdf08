#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <tuple>

#include "mlbench/base/descriptors.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/log.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/signals.h"
#include "mlbench/cli/clusters/port_forward.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/keeper.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/exec/executor.h"
#include "mlbench/home/owner.h"
#include "mlbench/master/master.h"
#include "mlbench/plan/plan.h"
#include "mlbench/plan/planner.h"
#include "mlbench/supervise/core_lock.h"

namespace mlbench::cli {

namespace {

constexpr std::chrono::seconds kForwardPoll{1};
constexpr Range kStopTimes{1, 3600};

struct ServeOptions {
  std::string listen = "127.0.0.1:8080";
  std::string data_dir, token_file, certificate, key;
  std::vector<std::string> allowed_hosts;
  std::string stop_runs;  // the time for stopping runs at the end; "": runs go on
  bool legacy_api = false;
  bool keep = false;
};

ExitCode serve(const Context& context, const ServeOptions& options) {
  if (options.keep) {
    if (const auto end = keep_running()) return static_cast<ExitCode>(*end);
  }
  set_up_logging("serve");
  raise_descriptor_limit();  // before any thread
  master::MasterOptions settings;
  std::tie(settings.host, settings.port) = master::parse_listen(options.listen);
  settings.home = context.home();
  settings.program = program_path();
  settings.worker = context.worker();
  settings.core_lock = supervise::default_core_lock();
  settings.token_file = options.token_file;
  settings.allowed_hosts = options.allowed_hosts;
  settings.legacy_api = options.legacy_api;
  const plan::ServeDefaults defaults = plan::serve_defaults(environment_variable);
  settings.address = defaults.address;
  const bool stops = !options.stop_runs.empty();
  const double stop_s = stops ? parse_duration(options.stop_runs, "--stop-runs", kStopTimes) : 0;
  settings.certificate = options.certificate;
  settings.key = options.key;
  settings.cores = available_cores();
  std::string data_dir = options.data_dir;
  if (!data_dir.empty()) data_dir = plan::data_dirs(data_dir, settings.home).front();

  plan::Planner planner({settings.home, settings.worker, defaults, data_dir});
  master::Master master(settings, planner);
  if (context.json) {
    print_json({{"url", master.url()}, {"token_file", master.token_file().string()}, {"home", settings.home.string()}});
  } else {
    print(fmt::format("serving {} at {}\ntoken in {}\n", settings.home.string(), master.url(),
                      master.token_file().string()));
  }
  flush_output();
  if (settings.certificate.empty() && settings.host != "127.0.0.1" && settings.host != "::1" &&
      settings.host != "localhost") {
    say("note: without --certificate and --key the token crosses the network in the clear");
  }
  const sigset_t signals = end_signals();  // blocked in every thread, since the first instruction
  int signal = 0;
  sigwait(&signals, &signal);
  const char* why = signal == SIGINT ? "interrupted" : "asked to end";
  if (!stops) {
    spdlog::info("{}: stopping; runs go on", why);
    return ExitCode::kOk;
  }
  spdlog::info("{}: stopping its runs first", why);
  const std::vector<std::string> left =
      master.stop_runs(std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(stop_s)));
  if (!left.empty()) spdlog::warn("not ended after {} s: {}", stop_s, fmt::join(left, ", "));
  return ExitCode::kOk;
}

// The address of the dashboard, and a link with a code that logs in once. The code stands behind the #, a part that
// browsers do not send, so that no log has it.
Json dashboard_of(const MasterClient& client, const std::string& url, std::string& note) {
  Json answer = {{"url", url}, {"login_url", nullptr}, {"login_expires_s", nullptr}};
  try {
    const Json code = client.post("/session/codes", Json::object());
    answer["login_url"] = url + "/#login=" + code.at("code").get<std::string>();
    answer["login_expires_s"] = code.at("expires_s");
    note = fmt::format("logs in once, within {} minutes: {}", code.at("expires_s").get<int>() / 60,
                       answer["login_url"].get<std::string>());
  } catch (const CommError& error) {  // the address is known nevertheless
    note = fmt::format("no link that logs in: {}", error.what());
  }
  return answer;
}

struct DashboardOptions {
  std::string port = "8080";
  bool forward = false;
};

ExitCode dashboard(const Context& context, const DashboardOptions& options) {
  const auto chosen = context.url_option ? std::nullopt : current_cluster(context.home_to_read());
  const bool in_kubernetes = chosen && !chosen->second.release.empty() && !chosen->second.incomplete;
  if (options.forward && !in_kubernetes) {
    throw UserError("--forward is for clusters in Kubernetes; any other address is open as it is");
  }
  const int port = static_cast<int>(parse_count(options.port, "--port", {1, 65535}));
  std::shared_ptr<PortForward> way;
  std::string note;
  Json answer;
  if (in_kubernetes) {
    const Cluster& cluster = chosen->second;
    way = std::make_shared<PortForward>(cluster, options.forward ? port : 0);
    const std::string url = fmt::format("http://127.0.0.1:{}", port);
    answer = dashboard_of(MasterClient(way, home::read_token(cluster.token_file)), url, note);
    answer["port_forward"] = port_forward_command(cluster, port);
    note += fmt::format("\n{}: {}", options.forward ? "open until Ctrl-C" : "open while this runs",
                        exec::command_line({}, port_forward_command(cluster, port)));
  } else {
    const MasterClient client = the_master(context);
    answer = dashboard_of(client, client.url(), note);
    answer["port_forward"] = nullptr;
  }
  if (context.json) {
    print_json(answer);
  } else {
    print(answer.at("url").get<std::string>() + "\n");
    say(note);
  }
  if (!options.forward) return ExitCode::kOk;
  flush_output();
  // Ctrl-C ends this program, and kubectl ends with it.
  for (;;) {
    way->keep_open();
    way->wait(kForwardPoll);
  }
}

}  // namespace

void add_serve(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "serve", "Be the master of this home: take runs over HTTP and show them");
  auto options = std::make_shared<ServeOptions>();
  verb->add_option("--listen", options->listen, "address and port; port 0: any free one")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  verb->add_option("--data-dir", options->data_dir, "data sets of runs that name no folder")->type_name("DIR");
  verb->add_option("--token-file", options->token_file, "token of clients (default: HOME/token, made when absent)")
      ->type_name("FILE");
  verb->add_option("--certificate", options->certificate, "serve over TLS: certificate chain (PEM)")->type_name("FILE");
  verb->add_option("--key", options->key, "its key (PEM)")->type_name("FILE");
  verb->add_option("--allow-host", options->allowed_hosts, "a name by which clients call this server (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb->add_option("--stop-runs", options->stop_runs,
                   "at the end stop the runs that it started, within this time: where they cannot outlive it (default: "
                   "they go on)")
      ->type_name("TIME");
  verb->add_flag("--keep", options->keep,
                 "start it again when it crashes or is killed: a process of its own, which finds its runs again");
  verb->add_flag("--legacy-api", options->legacy_api,
                 "serve MLBench's clients under /api/, which send no token: for networks that you trust");
  act(
      *verb, program, [options](const Context& context) { return serve(context, *options); }, Signals::kRead);
}

void add_dashboard(CLI::App& app, Program& program) {
  CLI::App* verb =
      add_verb(app, program, "dashboard", "Where the master of this home is, and a link that logs a browser in");
  add_master_options(*verb, program);
  auto options = std::make_shared<DashboardOptions>();
  const char* group = "Kubernetes";
  verb->add_flag("--forward", options->forward, "hold a port of this machine open to it until Ctrl-C")->group(group);
  verb->add_option("--port", options->port, "that port")->capture_default_str()->type_name("PORT")->group(group);
  verb->alias("get-dashboard-url");
  act(*verb, program, [options](const Context& context) { return dashboard(context, *options); });
}

}  // namespace mlbench::cli
