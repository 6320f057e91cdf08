#include "mlbench/exec/obstacles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/process.h"
#include "mlbench/net/sockets.h"

namespace mlbench::exec {

std::string missing_program(std::span<const char* const> programs, const char* package) {
  for (const char* program : programs) {
    if (!program_exists(program)) return fmt::format("there is no {} in PATH (Debian: {})", program, package);
  }
  return "";
}

std::string missing_gpu(const LaunchRequest& request) {
  if (!request.gpu || (request.rank_words && !gives_own_gpu(request))) return "";
  try {
    gpu_of_rank(visible_gpus(), request.workers - 1);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

std::string no_interface(const std::string& asked) {
  return fmt::format("--interface '{}': ranks cannot listen there; the network interfaces of this host are {}",
                     shortened(asked), fmt::join(net::interface_names(), ", "));
}

std::string missing_interface(const LaunchRequest& request) {
  const std::string& asked = request.network_interface;
  if (asked.empty()) return "";
  try {
    net::listen_on(asked, 0);
    return "";
  } catch (const IoError&) {
    return no_interface(asked);
  }
}

}  // namespace mlbench::exec
