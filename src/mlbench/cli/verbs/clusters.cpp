#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "mlbench/base/or_null.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/text.h"
#include "mlbench/cli/clusters/config.h"
#include "mlbench/cli/clusters/provider.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/home/owner.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kLocal = "local";  // the name of this home, whether or not a master serves it

// A cluster in short: "http://lab:8080", "gcloud, 3 nodes, europe-west1-b", "hosts h1:2,h2:2".
std::string words_for(const Cluster& cluster) {
  if (cluster.provider == kMaster) return cluster.url;
  std::string text = cluster.provider;
  if (!cluster.hosts.empty()) {
    text += " " + cluster.hosts;
  } else if (cluster.nodes > 0) {
    text += ", " + counted(cluster.nodes, "node");
  }
  for (const std::string& option : cluster.slurm) text += " --" + option;
  if (!cluster.zone.empty()) text += ", " + cluster.zone;
  if (!cluster.context.empty()) text += ", context " + cluster.context;
  if (cluster.incomplete) text += ", not complete";
  return text;
}

ExitCode list_clusters(const Context& context) {
  const Clusters clusters = read_clusters(context.home());
  if (context.json) {
    Json list = Json::array();
    for (const auto& [name, one] : clusters.known) {
      Json row = {{"name", name},
                  {"url", text_or_null(one.url)},
                  {"token_file", text_or_null(one.token_file)},
                  {"certificate", text_or_null(one.certificate)},
                  {"current", name == clusters.current}};
      row.update(to_json(one));
      list.push_back(std::move(row));
    }
    print_json(list);
    return ExitCode::kOk;
  }
  if (clusters.known.empty()) {
    print("No clusters are currently configured\n");
    return ExitCode::kOk;
  }
  size_t width = 0;
  for (const auto& [name, one] : clusters.known) width = std::max(width, name.size());
  for (const auto& [name, one] : clusters.known) {
    print(fmt::format("{} {:<{}}  {}\n", name == clusters.current ? '*' : ' ', name, width, words_for(one)));
  }
  return ExitCode::kOk;
}

struct SetCluster {
  std::vector<std::string> words;  // [PROVIDER] NAME
  std::string certificate;
  bool forget = false;
};

ExitCode set_cluster(const Context& context, const SetCluster& options) {
  if (options.words.size() > 2) throw UserError("one cluster can be set: give one NAME");
  const std::string& name = options.words.back();
  check_name(name, "cluster name");
  Clusters clusters = read_clusters(context.home());
  const auto known = clusters.known.find(name);
  if (options.words.size() == 2) {
    const std::string& of = options.words.front();
    provider(of);
    const std::string_view is = known != clusters.known.end() ? known->second.provider : name == kLocal ? kLocal : of;
    if (of != is) throw UserError(fmt::format("{} is no cluster of {}: see 'mlbench list-clusters'", name, of));
  }
  if (context.url_option) {
    if (options.forget) throw UserError("--forget needs no -u");
    if (name == kLocal) throw UserError("'local' is this home: choose another name");
    const auto token_file =
        context.token_file_option ? fs::path(*context.token_file_option) : home::default_token_file(context.home());
    home::read_token(token_file);
    if (known != clusters.known.end() && known->second.provider != kMaster) {
      throw UserError(fmt::format("{} is a cluster of {}: choose another name", name, known->second.provider));
    }
    Cluster master{.provider = kMaster, .url = whole_url(*context.url_option)};
    master.token_file = fs::absolute(token_file).lexically_normal();
    if (!options.certificate.empty()) master.certificate = fs::absolute(options.certificate).lexically_normal();
    clusters.known[name] = std::move(master);
    clusters.current = name;
  } else if (context.token_file_option || !options.certificate.empty()) {
    throw UserError("--token-file and --certificate belong to -u URL");
  } else if (name == kLocal && !options.forget) {
    clusters.current.clear();
  } else if (known == clusters.known.end()) {
    throw UserError(
        fmt::format("Cluster {} not found: name it with 'mlbench set-cluster {} -u URL --token-file FILE', or make "
                    "one with 'mlbench create-cluster'; see 'mlbench list-clusters'",
                    name, name));
  } else if (options.forget) {
    if (known->second.provider != kMaster) {
      throw UserError(fmt::format("{} is a cluster of {}: 'mlbench delete-cluster {} {}' removes it", name,
                                  known->second.provider, known->second.provider, name));
    }
    clusters.known.erase(known);
    if (clusters.current == name) clusters.current.clear();
  } else {
    if (known->second.provider != kMaster) provider(known->second.provider).make()->choose(known->second);
    clusters.current = name;
  }
  write_clusters(context.home(), clusters);
  if (context.json) {
    print_json({{"current", text_or_null(clusters.current)}});
  } else {
    print("Ok\n");
  }
  return ExitCode::kOk;
}

}  // namespace

void add_clusters(CLI::App& app, Program& program) {
  CLI::App* list = add_verb(app, program, "list-clusters",
                            "Clusters and masters elsewhere that have names here; * is the chosen one");
  act(*list, program, [](const Context& context) { return list_clusters(context); });

  CLI::App* set =
      add_verb(app, program, "set-cluster", "Choose the cluster or master that runs and the other verbs go to");
  auto options = std::make_shared<SetCluster>();
  set->add_option("NAME", options->words, "[PROVIDER] NAME; with -u: a new name for a master; 'local': this home")
      ->required()
      ->type_name("");
  set->add_option("--certificate", options->certificate,
                  "of a master over TLS that no known authority vouches for (PEM)")
      ->type_name("FILE")
      ->group("Master");
  set->add_flag("--forget", options->forget, "take the name away");
  add_master_options(*set, program);
  act(*set, program, [options](const Context& context) { return set_cluster(context, *options); });
}

}  // namespace mlbench::cli
