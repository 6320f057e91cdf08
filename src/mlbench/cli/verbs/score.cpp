#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/verbs/verbs.h"
#include "mlbench/report/draw/gnuplot.h"
#include "mlbench/report/study/score.h"
#include "mlbench/report/study/submissions.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

struct ScoreOptions {
  std::vector<fs::path> folders;
  std::string reference, targets, plot;
};

// An image of the profiles: PNG or SVG by the name's end.
void draw_profile(const report::Scores& scores, const fs::path& path) {
  const std::string extension = path.extension();
  if (extension != ".png" && extension != ".svg") {
    throw UserError("--plot " + path.string() + ": expected a file that ends in .png or .svg");
  }
  const auto format = extension == ".png" ? report::ImageFormat::kPng : report::ImageFormat::kSvg;
  const UserUmask named;
  write_file_atomically(path, report::draw(report::profile_chart(scores), format));
}

ExitCode score(const Context& context, const ScoreOptions& options) {
  report::Submissions submissions = report::read_submissions(options.folders, options.targets);
  report::Scores scores = report::score(submissions.list, options.reference, submissions.held_out);
  scores.notes.insert(scores.notes.end(), submissions.notes.begin(), submissions.notes.end());
  if (!options.plot.empty()) draw_profile(scores, options.plot);
  if (context.json) {
    print_json(report::to_json(scores));
  } else {
    print(report::scores_text(scores));
  }
  return ExitCode::kOk;
}

}  // namespace

void add_score(CLI::App& app, Program& program) {
  CLI::App* verb = add_verb(app, program, "score", "Algorithms scored over tasks, by performance profiles");
  auto options = std::make_shared<ScoreOptions>();
  verb->add_option("FOLDER", options->folders, "one per algorithm: runs of mlbench, or AlgoPerf's study_N folders")
      ->required();
  verb->add_option("--reference", options->reference, "the folder's name whose times are pinned as denominators")
      ->type_name("NAME");
  verb->add_option("--targets", options->targets, "AlgoPerf's workload_targets.json (default: in or beside a folder)")
      ->type_name("FILE");
  verb->add_option("--plot", options->plot, "draw the profiles as FILE.png or FILE.svg")->type_name("FILE");
  act(*verb, program, [options](const Context& context) { return score(context, *options); });
}

}  // namespace mlbench::cli
