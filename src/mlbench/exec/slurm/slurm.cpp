#include "mlbench/exec/slurm/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/options.h"
#include "mlbench/base/process.h"
#include "mlbench/exec/engine_group.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/obstacles.h"
#include "mlbench/exec/question.h"
#include "mlbench/exec/slurm/answers.h"
#include "mlbench/exec/slurm/job.h"
#include "mlbench/exec/slurm/script.h"
#include "mlbench/net/sockets.h"

namespace mlbench::exec::slurm {
namespace {

using std::chrono::seconds;

// The limit for sbatch, which tries again for a while when the controller is busy.
constexpr seconds kSubmitPatience{60};
constexpr seconds kNodesPatience{15};
// The limit for each answer about a job that nobody waits for any more.
constexpr seconds kWithdrawPatience{10};

std::vector<std::string> submission(const LaunchRequest& request) {
  return slurm_command({"sbatch", "--parsable", script_path(request).string()});
}

// The address of this host as the nodes reach it: the one towards the first node that is not this host alone.
std::string address_for_nodes() {
  const Answer answer = ask(slurm_command({"sinfo", "--noheader", "--Node", "--format=%o"}), kNodesPatience);
  if (!answer.good()) {
    throw IoError(fmt::format("Slurm does not say what nodes it has: sinfo: {}",
                              answer.errors.empty() ? "it failed without a word" : answer.errors));
  }
  std::optional<std::string> own;
  std::string reason;
  std::istringstream nodes(answer.output);
  for (std::string node; nodes >> node;) {
    try {
      const std::string address = net::address_towards(node);
      if (!address.starts_with("127.") && address != "::1") return address;
      own = address;
    } catch (const std::runtime_error& error) {
      reason = error.what();
    }
  }
  if (own) return *own;  // all nodes are this host
  throw IoError(fmt::format("no node of Slurm can be reached from this host{}{}", reason.empty() ? "" : ": ", reason));
}

class SlurmExecutor final : public Executor {
 public:
  explicit SlurmExecutor(const Json& engine) : engine_(read_options(engine)) {}

  std::string name() const override { return "slurm"; }
  ExecutorFacts facts() const override { return kFacts; }
  bool limits_cpus() const override { return is_of_apptainer(engine_.image); }  // pyxis has no option for that

  std::string obstacle(const LaunchRequest& request) const override {
    if (const Availability here = available(); !here.available) return "executor slurm: " + here.reason;
    try {
      rendezvous(request);
      return "";
    } catch (const IoError& error) {
      return fmt::format("executor slurm: {}", error.what());
    }
  }

  Rendezvous rendezvous(const LaunchRequest& /*request*/) const override {
    if (!address_) address_ = address_for_nodes();
    return {*address_, *address_};
  }

  ClusterNodes nodes() const override {
    const Answer answer = ask(slurm_command({"scontrol", "show", "nodes", "--oneliner"}), kNodesPatience);
    if (answer.good()) return {.nodes = parse_nodes(answer.output)};
    return {.nodes = {},
            .problem = fmt::format("Slurm does not say what nodes it has: scontrol: {}",
                                   answer.errors.empty() ? "it failed without a word" : answer.errors)};
  }

  std::unique_ptr<Start> start(const LaunchRequest& request) override {
    const LaunchRequest theirs = on_hosts(request, engine_);
    write_file_atomically(script_path(request), batch_script(theirs, engine_));
    ProcessOptions options;
    options.arguments = submission(request);
    options.environment = theirs.environment;
    options.environment.merge(guard_environment(theirs, folder_on_hosts(request, engine_.scratch)));
    // The links are made before the job: no guard may come earlier.
    std::unique_ptr<Start> links = start_linked(request, {}, files_for_guards(request));
    const ProcessOutput said = submit(options);
    const auto name = parse_submission(said.standard_output);
    if (said.end.code != 0 || !name) {
      throw IoError(fmt::format("Slurm refuses the job ({}): {}", script_path(request).string(),
                                said.standard_error.empty() ? "sbatch named none" : said.standard_error));
    }
    auto start = std::make_unique<EngineStart>(std::make_unique<Job>(*name, log_path(request)), std::move(links));
    if (request.note_job) request.note_job(identity_of(*name));
    return start;
  }

  bool withdraw(const std::string& run_name, const Json& job) override {
    const auto name = job_of(job);
    if (!name) return false;
    const auto insist = [&](const std::vector<std::string>& command) -> std::optional<Answer> {
      Answer answer = ask(command, kWithdrawPatience);
      if (answer.good()) return answer;
      if (job_is_unknown(answer.errors)) return std::nullopt;
      throw IoError(fmt::format("Slurm job {}: {}", name->id, answer.errors.empty() ? "no answer" : answer.errors));
    };
    const auto shown = insist(show_command(*name));
    const auto info = shown ? parse_job(shown->output) : std::nullopt;
    // Slurm gives a number again: this may be another run's job.
    if (!info || info->field("JobName") != job_name(run_name) || info->phase() == JobPhase::kEnded) return false;
    return insist(cancel_command(*name)).has_value();
  }

  // The command of sbatch, and the script behind it.
  std::vector<std::string> describe(const LaunchRequest& request) const override {
    const LaunchRequest theirs = on_hosts(request, engine_);
    return {command_line(theirs.environment, submission(request)) + "\n" + batch_script(theirs, engine_)};
  }

 private:
  static ProcessOutput submit(const ProcessOptions& options) {
    try {
      ProcessOutput said = run_process(options, kSubmitPatience);
      while (said.standard_error.ends_with('\n')) said.standard_error.pop_back();
      return said;
    } catch (const CommTimeout& error) {
      throw IoError(fmt::format("{}; a job that was submitted nevertheless ends when it starts, as nobody answers it",
                                error.what()));
    }
  }

  const Options engine_;
  mutable std::optional<std::string> address_;  // found once
};

}  // namespace

Availability available() {
  static constexpr const char* kCommands[] = {"sbatch", "scancel", "scontrol", "sinfo"};
  const std::string reason = missing_program(kCommands, "slurm-client");
  return {reason.empty(), reason};
}

Options read_options(const Json& engine) {
  OptionReader reader("executor 'slurm'", engine);
  Options options;
  options.ranks_per_host = reader.integer("ranks_per_host", 0, spec::kRanksPerHost);
  options.slurm = reader.texts("slurm");
  options.setup = reader.text("setup", "");
  options.scratch = reader.text("scratch", "");
  options.image = reader.text("image", "");
  reader.integer("requeue", 0, kRequeues);  // the supervisor acts on it
  reader.finish();
  for (const std::string& option : options.slurm) option_line(option);
  const auto of_image = [](const std::string& option) { return option.starts_with("container-image"); };
  if (!options.image.empty() && std::ranges::any_of(options.slurm, of_image)) {
    throw UserError("--image and --slurm-option container-image are given: leave out one");
  }
  return options;
}

std::unique_ptr<Executor> make(const Json& engine) { return std::make_unique<SlurmExecutor>(engine); }

}  // namespace mlbench::exec::slurm
