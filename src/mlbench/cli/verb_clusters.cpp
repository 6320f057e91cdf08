#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>

#include "mlbench/base/paths.h"
#include "mlbench/cli/clusters.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/remote.h"
#include "mlbench/cli/verbs.h"
#include "mlbench/home/owner.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kLocal = "local";  // this home, whoever serves it
// What stands before the name in MLBench's own command line.
constexpr std::array<std::string_view, 3> kProviders = {"gcloud", "aws", "kind"};

ExitCode list_clusters(const Context& context) {
  const Clusters clusters = read_clusters(context.home());
  if (context.json) {
    Json list = Json::array();
    for (const auto& [name, one] : clusters.known) {
      list.push_back({{"name", name},
                      {"url", one.url},
                      {"token_file", one.token_file},
                      {"certificate", one.certificate.empty() ? Json(nullptr) : Json(one.certificate)},
                      {"current", name == clusters.current}});
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
    print(fmt::format("{} {:<{}}  {}\n", name == clusters.current ? '*' : ' ', name, width, one.url));
  }
  return ExitCode::kOk;
}

struct SetCluster {
  std::vector<std::string> words;  // [PROVIDER] NAME
  std::string certificate;
  bool forget = false;
};

ExitCode set_cluster(const Context& context, const SetCluster& options) {
  if (options.words.size() == 2 &&
      std::find(kProviders.begin(), kProviders.end(), options.words[0]) == kProviders.end()) {
    throw UserError(fmt::format("unknown provider '{}': valid are gcloud, aws, kind, or none", options.words[0]));
  }
  if (options.words.size() > 2) throw UserError("one cluster can be set: give one NAME");
  const std::string& name = options.words.back();
  check_name(name, "cluster name");
  Clusters clusters = read_clusters(context.home());
  const auto known = clusters.known.find(name);
  if (context.url_option) {
    if (options.forget) throw UserError("--forget needs no -u");
    if (name == kLocal) throw UserError("'local' is this home: choose another name");
    const auto token_file =
        context.token_file_option ? fs::path(*context.token_file_option) : home::default_token_file(context.home());
    home::read_token(token_file);
    clusters.known[name] = {whole_url(*context.url_option), fs::absolute(token_file).lexically_normal(),
                            options.certificate.empty() ? "" : fs::absolute(options.certificate).lexically_normal()};
    clusters.current = name;
  } else if (context.token_file_option || !options.certificate.empty()) {
    throw UserError("--token-file and --certificate belong to -u URL");
  } else if (name == kLocal && !options.forget) {
    clusters.current.clear();
  } else if (known == clusters.known.end()) {
    throw UserError(
        fmt::format("Cluster {} not found: name it with 'mlbench set-cluster {} -u URL --token-file FILE'; "
                    "see 'mlbench list-clusters'",
                    name, name));
  } else if (options.forget) {
    clusters.known.erase(known);
    if (clusters.current == name) clusters.current.clear();
  } else {
    clusters.current = name;
  }
  write_clusters(context.home(), clusters);
  if (context.json) {
    print_json({{"current", clusters.current.empty() ? Json(nullptr) : Json(clusters.current)}});
  } else {
    print("Ok\n");
  }
  return ExitCode::kOk;
}

}  // namespace

void add_clusters(CLI::App& app, Program& program) {
  CLI::App* list =
      add_verb(app, program, "list-clusters", "Masters elsewhere that have names here; * is the chosen one");
  list->callback([&program] { program.action = [&program] { return list_clusters(program.context); }; });

  CLI::App* set = add_verb(app, program, "set-cluster", "Choose the master that the other verbs talk to");
  auto options = std::make_shared<SetCluster>();
  set->add_option("NAME", options->words, "with -u: a new name for it; 'local': this home again")
      ->required()
      ->type_name("");
  set->add_option("--certificate", options->certificate,
                  "of a master over TLS that no known authority vouches for (PEM)")
      ->type_name("FILE")
      ->group("Master");
  set->add_flag("--forget", options->forget, "take the name away");
  add_master_options(*set, program);
  set->callback(
      [&program, options] { program.action = [&program, options] { return set_cluster(program.context, *options); }; });
}

}  // namespace mlbench::cli
