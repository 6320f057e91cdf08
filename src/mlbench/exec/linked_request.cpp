// How a request changes where its ranks are on other hosts.

#include <fmt/format.h>
#include <unistd.h>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/linked.h"
#include "mlbench/guard/channel.h"

namespace mlbench::exec {

std::filesystem::path folder_here(const LaunchRequest& request) {
  return request.links.folder.empty() ? request.log_dir.parent_path() : request.links.folder;
}

std::vector<std::string> files_for_guards(const LaunchRequest& request) {
  if (!std::filesystem::exists(spec_path(request.links.folder))) return {};
  return {std::string(kSpecFile)};
}

std::filesystem::path folder_on_hosts(const LaunchRequest& request, const std::filesystem::path& scratch) {
  constexpr size_t kHashDigits = 8;
  std::string identity = request.run_identity;
  if (identity.empty()) {
    const std::string here = folder_here(request).lexically_normal().string();
    identity = sha256_hex(fmt::format("{}:{}:{}", host_name(), here, request.run_id)).substr(0, kHashDigits);
  }
  return (scratch.empty() ? "/tmp" : scratch) / fmt::format("mlbench-{}", geteuid()) /
         fmt::format("{}-{}", request.run_name.empty() ? "run" : request.run_name, identity);
}

std::map<std::string, std::string> guard_environment(const LaunchRequest& request,
                                                     const std::filesystem::path& folder) {
  std::map<std::string, std::string> variables = {{variables::kGuard, "link:" + request.links.rendezvous},
                                                  {variables::kGuardSecret, request.links.secret},
                                                  {variables::kGuardFolder, folder.string()}};
  if (request.rank_words) variables[variables::kGuardRankWords] = "1";
  return variables;
}

std::vector<std::string> variables_of_links(const LaunchRequest& request) {
  std::vector<std::string> names = {variables::kRunId, variables::kResumeSeconds, variables::kGuard,
                                    variables::kGuardSecret, variables::kGuardFolder};
  if (request.rank_words) {
    names.emplace_back(variables::kGuardRankWords);
  } else {  // workers alone have a rendezvous of ours
    names.insert(names.end(), {"MASTER_ADDR", "MASTER_PORT", variables::kSecret});
  }
  return names;
}

LaunchRequest moved_to(LaunchRequest request, const std::filesystem::path& folder) {
  const std::string here = request.links.folder.string();
  MLBENCH_CHECK(!here.empty(), "a run that is moved has a folder here");
  for (std::string& word : request.command) replace_path(word, here, folder.string());
  for (auto& [name, value] : request.environment) replace_path(value, here, folder.string());
  return request;
}

}  // namespace mlbench::exec
