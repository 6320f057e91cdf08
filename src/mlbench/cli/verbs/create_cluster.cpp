// The verbs create-cluster and delete-cluster, each with a verb below it for every provider.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "mlbench/base/numbers.h"
#include "mlbench/base/paths.h"
#include "mlbench/cli/clusters/config.h"
#include "mlbench/cli/clusters/provider.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/interrupt.h"
#include "mlbench/cli/terminal/prompt.h"
#include "mlbench/cli/verbs/verbs.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr Range kNodes{1, 1000};
constexpr Range kMadeNodes{2, 1000};

struct ClusterVerb {
  const ProviderRow* row = nullptr;
  std::unique_ptr<Provider> provider;
  std::vector<std::string> words;  // [NUM] NAME
  bool dry_run = false, yes = false;
};

std::string removal_of(const ClusterVerb& verb, const std::string& name) {
  return fmt::format("mlbench delete-cluster {} {}", verb.row->name, name);
}

ClusterRequest request_of(const Context& context, const ClusterVerb& verb) {
  ClusterRequest request;
  const bool counted = verb.words.size() == 2;
  if (verb.words.size() > 2 || (verb.row->makes_nodes && !counted)) {
    throw UserError(fmt::format("expected {} NAME: mlbench create-cluster {} 3 my-cluster makes {}",
                                verb.row->makes_nodes ? "NUM" : "[NUM]", verb.row->name, "my-cluster-3"));
  }
  if (counted) {
    request.nodes = parse_count(verb.words.front(), verb.row->makes_nodes ? "NUM, one more than workers" : "NUM",
                                verb.row->makes_nodes ? kMadeNodes : kNodes);
  }
  request.name = counted ? fmt::format("{}-{}", verb.words.back(), request.nodes) : verb.words.back();
  check_name(request.name, "cluster name");
  if (verb.row->makes_nodes) check_cluster_label(request.name);
  if (request.name == "local") throw UserError("'local' is this home: choose another name");
  request.folder = cluster_folder(context.home(), request.name);
  return request;
}

void print_commands(const Context& context, const std::string& name, const std::vector<Step>& steps) {
  if (!context.json) {
    for (const Step& step : steps) print(to_text(step) + "\n");
    return;
  }
  Json commands = Json::array();
  for (const Step& step : steps) commands.push_back(to_text(step));
  print_json({{"name", name}, {"commands", commands}});
}

// Stores the cluster under its name. Called before anything is made, so that delete-cluster finds it in any case.
void keep_cluster(const fs::path& home, const std::string& name, const Cluster& cluster) {
  Clusters clusters = read_clusters(home);
  clusters.known[name] = cluster;
  if (!cluster.incomplete) clusters.current = name;
  write_clusters(home, clusters);
}

void forget_cluster(const fs::path& home, const std::string& name) {
  Clusters clusters = read_clusters(home);
  if (clusters.known.erase(name) > 0) {
    if (clusters.current == name) clusters.current.clear();
    write_clusters(home, clusters);
  }
  std::error_code error;
  fs::remove_all(cluster_folder(home, name), error);
  if (error) throw IoError(fmt::format("cannot remove {}: {}", cluster_folder(home, name).string(), error.message()));
}

ExitCode create(const Context& context, const ClusterVerb& verb) {
  const InterruptGuard guard;
  const fs::path home = context.home();
  const ClusterRequest request = request_of(context, verb);
  if (!verb.dry_run && read_clusters(home).known.contains(request.name)) {
    throw UserError(
        fmt::format("cluster {} is known already: choose another name, 'mlbench set-cluster {}' uses it, and "
                    "'mlbench delete-cluster PROVIDER {}' removes it",
                    request.name, request.name, request.name));
  }
  ClusterPlan plan = verb.provider->plan(request);
  if (verb.dry_run) {
    print_commands(context, request.name, plan.steps);
    return ExitCode::kOk;
  }
  check_programs(plan.steps);
  for (const std::string& note : plan.notes) say("note: " + note);
  plan.cluster.incomplete = true;
  keep_cluster(home, request.name, plan.cluster);
  StepRunner runner;
  try {
    verb.provider->create(plan, runner);
  } catch (const std::exception& error) {
    const bool interrupted = InterruptGuard::count() > 0;
    std::string text = error.what();
    if (runner.made_something()) {
      text += fmt::format("\n  what was made stays, and may cost money, until: {}", removal_of(verb, request.name));
    } else {
      forget_cluster(home, request.name);
      text += "\n  nothing was made";
    }
    if (!interrupted) {
      if (dynamic_cast<const UserError*>(&error) != nullptr) throw UserError(text);
      throw CommError(text);
    }
    say(text);
    return ExitCode::kStopped;
  }
  plan.cluster.incomplete = false;
  keep_cluster(home, request.name, plan.cluster);
  if (context.json) {
    Json answer = {{"name", request.name}};
    answer.update(to_json(plan.cluster));
    answer["current"] = true;
    print_json(answer);
  } else {
    print(fmt::format("MLBench successfully deployed\nNext: {} run my-run {}    {} get-dashboard-url    {}\n",
                      context.command, std::max<int64_t>(1, plan.cluster.nodes - (verb.row->makes_nodes ? 1 : 0)),
                      context.command, removal_of(verb, request.name)));
  }
  return ExitCode::kOk;
}

// Asks on the terminal; Enter means no.
bool agreed(const std::string& question) {
  tell(stderr, question + " [y/N]: ");
  const std::string answer = read_input_line().value_or("");
  return answer == "y" || answer == "Y" || answer == "yes";
}

ExitCode remove(const Context& context, const ClusterVerb& verb) {
  const InterruptGuard guard;
  const fs::path home = context.home();
  if (verb.words.size() != 1) throw UserError(fmt::format("expected NAME: {}", removal_of(verb, "NAME")));
  const std::string& name = verb.words.front();
  check_name(name, "cluster name");
  if (verb.row->makes_nodes) check_cluster_label(name);
  const Clusters clusters = read_clusters(home);
  const auto found = clusters.known.find(name);
  const Cluster* known = found == clusters.known.end() ? nullptr : &found->second;
  if (known != nullptr && known->provider != verb.row->name) {
    throw UserError(
        known->provider == kMaster
            ? fmt::format("{} is a master elsewhere: 'mlbench set-cluster {} --forget' takes its name away", name, name)
            : fmt::format("{} is a cluster of {}: 'mlbench delete-cluster {} {}'", name, known->provider,
                          known->provider, name));
  }
  const std::vector<Step> steps = verb.provider->plan_removal(name, known);
  if (verb.dry_run) {
    print_commands(context, name, steps);
    return ExitCode::kOk;
  }
  const bool nothing = known == nullptr && steps.empty();
  if (!nothing && !verb.yes && is_terminal(STDIN_FILENO) &&
      !agreed(fmt::format("Delete cluster {}: {}?", name, verb.provider->what_goes()))) {
    say("nothing was deleted");
    return ExitCode::kStopped;
  }
  if (!nothing) {
    check_programs(steps);
    StepRunner runner;
    try {
      verb.provider->remove(steps, runner);
    } catch (const CommError& error) {
      throw CommError(fmt::format("{}\n  it is still known: type the same again", error.what()));
    }
    forget_cluster(home, name);
  }
  if (context.json) {
    print_json({{"name", name}, {"deleted", !nothing}});
  } else {
    print(nothing ? fmt::format("no cluster {} of {} is known: nothing to delete\n", name, verb.row->name)
                  : fmt::format("deleted {}\n", name));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_create_cluster(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("create-cluster", "Make a cluster, or give a name to one: it is then chosen");
  group->require_subcommand(1);
  for (const ProviderRow& row : providers()) {
    CLI::App* verb = add_verb(*group, program, std::string(row.name), std::string(row.help));
    auto options = std::make_shared<ClusterVerb>();
    options->row = &row;
    options->provider = row.make();
    verb->add_option("NAME", options->words,
                     row.makes_nodes ? "NUM NAME: so many nodes, one more than workers; it is called NAME-NUM"
                                     : "[NUM] NAME; with a number it is called NAME-NUM")
        ->required()
        ->type_name("");
    verb->add_flag("--dry-run", options->dry_run, "print the commands, and run none");
    options->provider->add_create_options(*verb);
    act(
        *verb, program, [options](const Context& context) { return create(context, *options); }, Signals::kRead);
  }
}

void add_delete_cluster(CLI::App& app, Program& program) {
  CLI::App* group = app.add_subcommand("delete-cluster", "Remove a cluster that create-cluster made");
  group->require_subcommand(1);
  for (const ProviderRow& row : providers()) {
    CLI::App* verb = add_verb(*group, program, std::string(row.name), std::string(row.help));
    auto options = std::make_shared<ClusterVerb>();
    options->row = &row;
    options->provider = row.make();
    verb->add_option("NAME", options->words, "with its number: my-cluster-3")->required()->type_name("");
    verb->add_flag("-y,--yes", options->yes, "do not ask");
    verb->add_flag("--dry-run", options->dry_run, "print the commands, and run none");
    options->provider->add_delete_options(*verb);
    act(
        *verb, program, [options](const Context& context) { return remove(context, *options); }, Signals::kRead);
  }
}

}  // namespace mlbench::cli
