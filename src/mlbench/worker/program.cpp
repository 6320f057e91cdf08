#include "mlbench/worker/program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/heap.h"
#include "mlbench/base/log.h"
#include "mlbench/base/program_start.h"
#include "mlbench/base/signals.h"
#include "mlbench/worker/bfloat16.h"
#include "mlbench/worker/evaluate.h"

namespace mlbench::worker {
namespace {

struct Options {
  RankOptions rank;
  std::string evaluate;  // path of a stored model to evaluate, instead of running a rank
  int64_t average = 1;   // number of checkpoints
  bool catalog = false;
  std::string bfloat16_speed;  // a framework
};

Options parse(int argc, char** argv, const std::string& name, const RankOptions& rank) {
  Options options;
  options.rank = rank;
  CLI::App app(
      "One rank of one run; `mlbench run` starts it. By hand: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
      "(or another launcher's variables) say who it is.",
      name);
  app.add_flag("--catalog", options.catalog, "print what this worker can do as JSON, and exit");
  app.add_option("--bfloat16-speed", options.bfloat16_speed,
                 "measure how fast this framework computes in bfloat16 beside float32, print it as JSON, and exit");
  app.add_option("--run-dir", options.rank.run_dir, "folder of the run");
  app.add_option(
      "--spec", options.rank.spec_file,
      "frozen run specification (default: spec.json of the run folder), as `mlbench run ... --dry-run --json` "
      "prints it");
  app.add_option("--segment", options.rank.segment, "number of this start of the run, from 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  app.add_option("--resume-step", options.rank.resume_step, "checkpoint to start from")->check(CLI::NonNegativeNumber);
  app.add_option("--evaluate", options.evaluate,
                 "evaluate this checkpoint folder or .safetensors file by --spec, print the metrics as JSON, and exit");
  app.add_option("--average", options.average, "evaluate the mean of that checkpoint and the N - 1 before it")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    std::exit(app.exit(done));
  } catch (const CLI::ParseError& error) {
    throw UserError(std::string(error.what()) + "; see " + name + " --help");
  }
  if (!options.evaluate.empty() && options.rank.spec_file.empty())
    throw UserError("--evaluate needs --spec FILE; see " + name + " --help");
  const bool answers = options.catalog || !options.bfloat16_speed.empty();
  if (!answers && options.evaluate.empty() && options.rank.run_dir.empty())
    throw UserError("--run-dir DIR is missing; see " + name + " --help");
  return options;
}

}  // namespace

int run_program(int argc, char** argv, const catalog::WorkerProgram& program, const RankOptions& given) {
  set_up_logging("worker");
  try {
    // This comes before any thread exists, so that all threads leave the signals that end the program to the session's
    // own thread.
    begin_program({.held = end_signals(), .launched = true});
    keep_freed_memory();
    const Options options = parse(argc, argv, program.name, given);
    const bool measures = !options.bfloat16_speed.empty();
    if (options.catalog || measures || !options.evaluate.empty()) release_end_signals();
    if (options.catalog || measures) {
      const Json answer = measures ? measure_bfloat16(program, options.bfloat16_speed) : catalog::describe(program);
      std::puts(answer.dump(2).c_str());
      return 0;
    }
    return options.evaluate.empty() ? run_rank(program, options.rank)
                                    : evaluate(program, options.evaluate, options.average, options.rank.spec_file);
  } catch (const std::exception& error) {
    spdlog::error("{}: {}", program.name, error.what());
    return static_cast<int>(exit_code_of(error));
  }
}

}  // namespace mlbench::worker
