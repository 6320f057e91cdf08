#include "mlbench/cli/clusters/defaults.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/cli/clusters/config.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::cli {

void apply_cluster(const Context& context, bool executor_given, spec::RunOptions& options) {
  if (context.url_option) return;
  const auto chosen = current_cluster(context.home_to_read());
  if (!chosen) return;
  const auto& [name, cluster] = *chosen;
  const std::string executor = cluster.provider == "hosts" ? "mpirun" : cluster.provider == "slurm" ? "slurm" : "";
  if (executor.empty() || (executor_given && options.executor != executor)) return;
  if (cluster.incomplete) {
    throw UserError(fmt::format("cluster {} is not complete: 'mlbench delete-cluster {} {}', and create it again", name,
                                cluster.provider, name));
  }
  options.executor = executor;
  const auto usual = [&options = options](const char* option, const std::string& value) {
    if (!value.empty() && !options.engine.contains(option)) options.engine[option] = value;
  };
  usual("hosts", cluster.hosts);
  usual("ssh_config", cluster.ssh_config);
  if (options.network_interface.empty()) options.network_interface = cluster.interface;
  usual("scratch", cluster.scratch);
  if (!cluster.setup.empty() && !options.engine.contains("setup")) {
    usual("setup", read_text_file(cluster.setup, inputs::kSetup));
  }
  const auto key_of = [](const std::string& option) { return option.substr(0, option.find('=')); };
  const auto given = options.engine.value("slurm", std::vector<std::string>());
  std::vector<std::string> slurm;
  for (const std::string& option : cluster.slurm) {
    const auto same = [&](const std::string& other) { return key_of(other) == key_of(option); };
    if (std::ranges::none_of(given, same)) slurm.push_back(option);
  }
  slurm.insert(slurm.end(), given.begin(), given.end());
  if (!slurm.empty()) options.engine["slurm"] = slurm;
  const std::string hosts = spec::engine_text(options.engine, "hosts");
  say(fmt::format("cluster {}: executor {}{}", name, executor, hosts.empty() ? "" : " on " + hosts));
}

}  // namespace mlbench::cli
