#include "mlbench/cli/clusters/defaults.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/cli/clusters/config.h"

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
  if (options.hosts.empty()) options.hosts = cluster.hosts;
  if (options.ssh_config.empty()) options.ssh_config = cluster.ssh_config;
  if (options.network_interface.empty()) options.network_interface = cluster.interface;
  if (options.scratch.empty()) options.scratch = cluster.scratch;
  if (options.setup.empty() && !cluster.setup.empty()) options.setup = read_text_file(cluster.setup, inputs::kSetup);
  const auto key_of = [](const std::string& option) { return option.substr(0, option.find('=')); };
  std::vector<std::string> usual;
  for (const std::string& option : cluster.slurm) {
    const bool given =
        std::ranges::any_of(options.slurm, [&](const std::string& other) { return key_of(other) == key_of(option); });
    if (!given) usual.push_back(option);
  }
  options.slurm.insert(options.slurm.begin(), usual.begin(), usual.end());
  say(fmt::format("cluster {}: executor {}{}", name, executor, options.hosts.empty() ? "" : " on " + options.hosts));
}

}  // namespace mlbench::cli
