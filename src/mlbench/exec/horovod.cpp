#include "mlbench/exec/horovod.h"

#include <utility>

namespace mlbench::exec {

void add_horovod(LaunchRequest& request) {
  auto& environment = request.environment;
  const std::string library = request.backend == "mpi" ? "mpi" : "gloo";
  environment.emplace("HOROVOD_CONTROLLER", library);
  environment.emplace("HOROVOD_CPU_OPERATIONS", library);
  const auto address = environment.find("MASTER_ADDR"), port = environment.find("MASTER_PORT");
  if (library == "mpi" || address == environment.end() || port == environment.end()) return;
  const std::string host = address->second, number = port->second;
  environment.emplace("HOROVOD_GLOO_RENDEZVOUS_ADDR", host);
  environment.emplace("HOROVOD_GLOO_RENDEZVOUS_PORT", number);
  if (host.starts_with("127.")) environment.emplace("HOROVOD_GLOO_IFACE", "lo");
}

void add_horovod(std::map<std::string, std::string>& environment, const HorovodPlace& place) {
  const std::pair<const char*, int> values[] = {
      {"HOROVOD_RANK", place.rank},
      {"HOROVOD_SIZE", place.size},
      {"HOROVOD_LOCAL_RANK", place.local_rank},
      {"HOROVOD_LOCAL_SIZE", place.local_size},
      {"HOROVOD_CROSS_RANK", place.cross_rank},
      {"HOROVOD_CROSS_SIZE", place.cross_size},
  };
  for (const auto& [name, value] : values) environment.emplace(name, std::to_string(value));
}

}  // namespace mlbench::exec
