#include "mlbench/exec/container.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/process.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/linked.h"

namespace mlbench::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kAnswerPatience{30};  // limit for what the engine knows or does on this host

std::vector<std::string> variable_names(const LaunchRequest& request) {
  std::vector<std::string> names;
  for (int rank = 0; rank < request.workers; ++rank) names.push_back(container_name(request, rank));
  return names;
}

// The value of --volume. A colon in a path cannot be kept from the engine, whose language has no escape.
std::string volume(const SharedFolder& folder) {
  const std::string path = folder.path.string();
  if (path.find(':') != std::string::npos) {
    throw UserError(
        fmt::format("--image: the path {} has a colon in it, at which podman and docker take it apart: use "
                    "another folder",
                    path));
  }
  return fmt::format("{}:{}{}", path, path, folder.writable ? "" : ":ro");
}

// Podman takes GPUs from the host's description of its devices (CDI), docker from NVIDIA's runtime.
void add_gpus(std::vector<std::string>& words, const ContainerOptions& options) {
  if (options.gpus.empty()) return;
  if (options.engine == "podman") {
    for (const std::string& gpu : options.gpus) words.insert(words.end(), {"--device", "nvidia.com/gpu=" + gpu});
    return;
  }
  const std::string names = fmt::format("{}", fmt::join(options.gpus, ","));
  // Docker splits the value at commas that are in no quotes.
  const bool several = options.gpus.size() > 1;
  words.insert(words.end(), {"--gpus", names == kAllGpus ? names
                                       : several         ? fmt::format("\"device={}\"", names)
                                                         : "device=" + names});
}

// The id of an image. Empty where the image is not on this host, or the engine does not answer: the pull then says why.
std::optional<std::string> image_id(const std::string& engine, const std::string& image) {
  ProcessOptions ask;
  ask.arguments = {engine, "image", "inspect", "--format", "{{.Id}}", image};
  try {
    const ProcessOutput answer = run_process(ask, kAnswerPatience);
    if (answer.end.code != 0) return std::nullopt;
    return last_words(answer.standard_output);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Removes containers. They may be gone already, so errors are not reported.
void remove_containers(const std::string& engine, const std::vector<std::string>& names) {
  ProcessOptions remove;
  remove.arguments = {engine, "rm", "--force"};
  if (engine == "podman") remove.arguments.emplace_back("--ignore");
  remove.arguments.insert(remove.arguments.end(), names.begin(), names.end());
  try {
    run_process(remove, kAnswerPatience);
  } catch (const std::exception&) {
    // The guards within have ended all that ran there.
  }
}

// Removes what earlier containers of these ranks left.
void clear_up(const ContainerOptions& options, const std::vector<std::string>& names) {
  remove_containers(options.engine, names);
  std::error_code ignored;
  if (!options.session_folder.empty()) std::filesystem::remove_all(options.session_folder, ignored);
}

class ContainerStart final : public Start {
 public:
  ContainerStart(ContainerOptions options, const LaunchRequest& request, LaunchInImage launch)
      : options_(std::move(options)),
        names_(variable_names(request)),
        job_(container_name(request, 0).substr(0, container_name(request, 0).rfind('-'))),
        log_(launcher_log_path(request.log_dir, "image", request.segment)),
        launch_(std::move(launch)),
        id_(image_id(options_.engine, options_.image)) {
    if (id_) {
      launch_ranks();
    } else {
      ProcessOptions pull;
      pull.arguments = {options_.engine, "pull", options_.image};
      pull.output = log_;
      pull.die_with_parent = true;
      pull_ = ChildProcess::start(pull);
    }
  }
  ~ContainerStart() override {
    if (pull_ && !pull_->wait(milliseconds(0))) pull_->stop(seconds(2));
  }

  StartStatus poll(milliseconds timeout) override {
    if (!failure_.empty()) return {StartState::kFailed, failure_};
    if (ranks_) return ranks_->poll(timeout);
    const auto end = pull_->wait(timeout);
    if (!end) return {StartState::kQueued, fmt::format("{} pulls the image {}", options_.engine, options_.image)};
    if (end->code != 0) {
      failure_ = fmt::format("{} pull {} ended with code {}: {}", options_.engine, options_.image, end->code,
                             last_words_in(log_));
      return {StartState::kFailed, failure_};
    }
    id_ = image_id(options_.engine, options_.image);
    launch_ranks();
    return {StartState::kStarting};
  }

  std::unique_ptr<RankGroup> take() override {
    MLBENCH_CHECK(ranks_ != nullptr, "only ranks that run can be taken, once");
    return ranks_->take();
  }

 private:
  void launch_ranks() {
    clear_up(options_, names_);
    if (!options_.session_folder.empty()) std::filesystem::create_directories(options_.session_folder);
    Json ids = Json::array();
    if (id_ && !id_->empty()) ids.push_back(*id_);
    Surroundings around{{{"engine", options_.engine}, {"job", job_}, {"image", options_.image}, {"image_ids", ids}},
                        [options = options_, names = names_] { clear_up(options, names); }};
    ranks_ = launch_(std::move(around));
  }

  const ContainerOptions options_;
  const std::vector<std::string> names_;
  const std::string job_;
  const std::filesystem::path log_;
  const LaunchInImage launch_;
  std::optional<std::string> id_;
  std::optional<ChildProcess> pull_;
  std::unique_ptr<Start> ranks_;
  std::string failure_;
};

}  // namespace

std::string container_engine() {
  for (const char* engine : {"podman", "docker"}) {
    if (program_exists(engine)) return engine;
  }
  throw UserError("--image: there is neither podman nor docker in PATH (Debian: podman, or docker.io)");
}

std::string container_name(const LaunchRequest& request, int rank) {
  return fmt::format("mlbench-{}-{}", folder_on_hosts(request, {}).filename().string(), rank);
}

std::span<const char* const> openmpi_variables() {
  static constexpr std::array<const char*, 4> kNames = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                                        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
  return kNames;
}

std::vector<std::string> container_command(const ContainerOptions& options, const LaunchRequest& request,
                                           const std::string& launcher, const std::vector<std::string>& command) {
  if (request.by_mpirun && !options.below_mpirun) {
    throw UserError(
        "--image with --backend mpi: on other hosts, ranks in containers do not find their mpirun; use gloo, or the "
        "executor local, slurm or kubernetes");
  }
  if (options.below_mpirun && options.engine != "podman") {
    throw UserError(
        "--image with --backend mpi: docker gives ranks no variables but those named, and mpirun names its own; "
        "install podman, or use gloo");
  }
  check_utf8(request, options.engine);
  std::vector<std::string> words = {options.engine, "run", "--rm"};
  const auto add = [&](const char* flag, const std::string& value) { words.insert(words.end(), {flag, value}); };
  if (!options.name.empty()) add("--name", options.name);
  add("--network", "host");
  add("--ipc", "host");
  add("--user", fmt::format("{}:{}", geteuid(), getegid()));
  // A process of Open MPI takes shared memory for its own where a process with its number made it. With process numbers
  // of its own in each container, each rank would be the same process.
  if (options.below_mpirun) add("--pid", "host");
  // Without root, podman would give the user another number in the container.
  if (options.engine == "podman" && geteuid() != 0) add("--userns", "keep-id");
  // Labels of SELinux keep containers from the folders below.
  add("--security-opt", "label=disable");
  if (options.engine == "docker" && !options.cores.empty()) add("--cpuset-cpus", core_list(options.cores));
  if (options.cpus > 0) add("--cpus", fmt::format("{:.7g}", options.cpus));
  if (options.memory_bytes > 0) add("--memory", std::to_string(options.memory_bytes));
  add_gpus(words, options);
  add("--volume", volume({request.guard, false}));
  for (const SharedFolder& folder : options.folders) add("--volume", volume(folder));
  for (const std::string& variable : options.variables) add("--env", variable);
  if (options.below_mpirun) {
    for (const char* prefix : {"OMPI_*", "PMIX_*"}) add("--env", prefix);
  }
  if (!request.working_directory.empty()) add("--workdir", request.working_directory.string());
  add("--entrypoint", request.guard.string());
  words.insert(words.end(), {options.image, launcher});
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::unique_ptr<Start> start_in_image(ContainerOptions options, const LaunchRequest& request, LaunchInImage launch) {
  return std::make_unique<ContainerStart>(std::move(options), request, std::move(launch));
}

}  // namespace mlbench::exec
