#include "mlbench/exec/horovod.h"

#include <map>
#include <utility>

namespace mlbench::exec {

void add_horovod(LaunchRequest& request) {
  auto& environment = request.environment;
  const std::string library = request.by_mpirun ? "mpi" : "gloo";
  environment.emplace("HOROVOD_CONTROLLER", library);
  environment.emplace("HOROVOD_CPU_OPERATIONS", library);
  const auto address = environment.find("MASTER_ADDR"), port = environment.find("MASTER_PORT");
  if (library == "mpi" || address == environment.end() || port == environment.end()) return;
  const std::string host = address->second, number = port->second;
  environment.emplace("HOROVOD_GLOO_RENDEZVOUS_ADDR", host);
  environment.emplace("HOROVOD_GLOO_RENDEZVOUS_PORT", number);
  if (host.starts_with("127.")) environment.emplace("HOROVOD_GLOO_IFACE", "lo");
}

std::vector<HorovodPlace> horovod_places(std::span<const LocalPlace> places) {
  std::map<int, int> across;  // ranks that are the first, second, ... of their hosts
  std::vector<HorovodPlace> result;
  for (const LocalPlace& place : places) {
    result.push_back({.rank = static_cast<int>(result.size()),
                      .size = static_cast<int>(places.size()),
                      .local_rank = place.rank,
                      .local_size = place.size,
                      .cross_rank = across[place.rank]++});
  }
  for (HorovodPlace& place : result) place.cross_size = across[place.local_rank];
  return result;
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
