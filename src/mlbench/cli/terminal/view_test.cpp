#include <gmock/gmock.h>

#include <algorithm>
#include <deque>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/cli/context.h"
#include "mlbench/cli/terminal/progress_view.h"
#include "mlbench/cli/terminal/prompt.h"
#include "mlbench/cli/verbs/schedule_plot.h"

namespace mlbench::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

spec::RunSpec make_spec() {
  spec::RunSpec run;
  run.name = "r-2";
  run.workers = 2;
  run.limits.light = true;
  spec::set_task(run, spec::find_task("fashion-mnist", "", "", {}), {});
  return run;
}

report::Progress make_progress() {
  report::Progress progress;
  progress.segment = 1;
  progress.prepared = progress.training = true;
  progress.steps_per_epoch = 300;
  progress.last_step = 12000;
  progress.steps_done = 375;
  progress.loss = 0.4321;
  progress.samples_per_s = 3000;
  progress.evaluation = Json{{"metrics", {{"Prec@1", 84.2}, {"loss", 0.44}}}};
  progress.evaluations = 1;
  return progress;
}

TEST(ProgressLine, SaysWhereTheRunIs) {
  EXPECT_EQ(progress_line(make_spec(), make_progress(), Phase::kStarted, 41.5),
            "r-2  epoch 1.25 of 40  step 375 of 12,000  loss 0.4321  6,000 samples/s  Prec@1 84.20 (goal 85)  0:41");
}

TEST(ProgressLine, ATaskOfTextTrainsOnTokens) {
  spec::RunSpec run = make_spec();
  spec::set_task(run, spec::find_task("4a", "", "", {}), {});
  EXPECT_THAT(progress_line(run, make_progress(), Phase::kStarted, 41.5), HasSubstr("  6,000 tokens/s  "));
}

TEST(ProgressLine, BeforeTraining) {
  report::Progress progress;
  EXPECT_EQ(progress_line(make_spec(), progress, Phase::kQueued, 0.4), "r-2  starting  0:00");
  EXPECT_EQ(progress_line(make_spec(), progress, Phase::kWaiting, 62, "waits for the cores: another run holds /x"),
            "r-2  waits for the cores  1:02");
  spec::RunSpec contained = make_spec();
  contained.engine["image"] = "team/image:1";
  EXPECT_EQ(progress_line(contained, progress, Phase::kQueued, 62), "r-2  starting containers of team/image:1  1:02");
  progress.segment = 1;
  EXPECT_EQ(progress_line(make_spec(), progress, Phase::kStarted, 3), "r-2  preparing data  0:03");
  progress.prepared = true;
  EXPECT_EQ(progress_line(make_spec(), progress, Phase::kStarted, 3), "r-2  building the model  0:03");
  progress = make_progress();
  progress.end = Json{{"reason", "goal"}};
  progress.steps_done = progress.last_step;
  EXPECT_EQ(progress_line(make_spec(), progress, Phase::kStarted, 3), "r-2  step 12,000 of 12,000  ending  0:03");
}

// What a view writes to a stream while `body` runs. `terminal` says whether the view takes the stream for a terminal.
std::string written(bool terminal, const std::function<void(ProgressView&)>& body) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  {
    ProgressView view(stream, terminal, std::chrono::seconds(10));
    body(view);
  }
  std::fclose(stream);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(ProgressView, WritesALinePerEvaluationAndNowAndThen) {
  const std::string text = written(false, [](ProgressView& view) {
    report::Progress progress = make_progress();
    view.show(make_spec(), progress, Phase::kStarted, 1);
    view.show(make_spec(), progress, Phase::kStarted, 2);   // nothing new
    view.show(make_spec(), progress, Phase::kStarted, 11);  // 10 s later
    ++progress.evaluations;
    view.show(make_spec(), progress, Phase::kStarted, 12);
    view.note("done");
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, HasSubstr("0:01\nr-2"));
  EXPECT_THAT(text, HasSubstr("0:12\ndone\n"));
}

TEST(ProgressView, RedrawsOneLineOnATerminal) {
  const std::string text = written(true, [](ProgressView& view) {
    view.show(make_spec(), make_progress(), Phase::kStarted, 1);
    view.show(make_spec(), make_progress(), Phase::kStarted, 2);
    view.note("done");
  });
  EXPECT_THAT(text, testing::StartsWith("\r\x1b[Kr-2  epoch"));
  EXPECT_THAT(text, testing::EndsWith("\r\x1b[Kdone\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

// ---- prompts --------------------------------------------------------------------------------------------------------

struct Answers {
  std::deque<std::string> lines;
  std::optional<std::string> operator()() {
    if (lines.empty()) return std::nullopt;
    std::string line = lines.front();
    lines.pop_front();
    return line;
  }
};

std::string asked(std::deque<std::string> lines, const std::string& preset, std::string* shown = nullptr) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  std::string answer;
  try {
    answer = ask("Benchmark", {{"fashion-mnist", "CNN"}, {"mnist", "CNN"}}, preset, stream, Answers{std::move(lines)});
  } catch (const UserError& error) {
    answer = error.what();
  }
  std::fclose(stream);
  if (shown != nullptr) *shown = std::string(text, size);
  std::free(text);
  return answer;
}

TEST(Prompt, TakesNumbersNamesAndTheDefault) {
  std::string shown;
  EXPECT_EQ(asked({"1"}, "", &shown), "mnist");
  EXPECT_EQ(shown,
            "Benchmark:\n"
            "  0  fashion-mnist  CNN\n"
            "  1  mnist          CNN\n"
            "Benchmark [fashion-mnist]: ");
  EXPECT_EQ(asked({"mnist"}, ""), "mnist");
  EXPECT_EQ(asked({""}, ""), "fashion-mnist");
  EXPECT_EQ(asked({""}, "mnist"), "mnist");
  EXPECT_EQ(asked({""}, "gone"), "fashion-mnist");
}

TEST(Prompt, AsksAgainAndEndsWithTheInput) {
  std::string shown;
  EXPECT_EQ(asked({"7", "x", "0"}, "", &shown), "fashion-mnist");
  EXPECT_THAT(shown, HasSubstr("'7' is none of these: a number from 0 to 1, or a name\n"));
  EXPECT_THAT(asked({}, ""), HasSubstr("no answer to 'Benchmark'"));
}

TEST(Prompt, TextIsTakenOnceItIsGood) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  const auto complaint = [](const std::string& line) { return line == "good" ? "" : "expected 'good'"; };
  EXPECT_EQ(ask_text("Word", "", stream, Answers{{"", "bad", "good"}}, complaint), "good");
  EXPECT_EQ(ask_text("Word", "good", stream, Answers{{""}}, complaint), "good");
  EXPECT_THROW(ask_text("Word", "good", stream, Answers{{"bad"}}, complaint), UserError);
  std::fclose(stream);
  EXPECT_EQ(std::string(text, size),
            "Word: expected 'good'\nWord: expected 'good'\nWord: Word [good]: Word [good]: expected 'good'\n"
            "Word [good]: ");
  std::free(text);
}

TEST(Prompt, LastAnswersAreKept) {
  const TemporaryFolder home;
  EXPECT_EQ(load_answers(home.path()), LastAnswers());
  const LastAnswers answers = {.task = "custom",
                               .image = "lab/train:1",
                               .command = "python3 'a b'",
                               .backend = "custom",
                               .own_backend = "own-net",
                               .all_nodes = "no"};
  save_answers(home.path(), answers);
  EXPECT_EQ(load_answers(home.path()), answers);
}

// ---- schedule plot --------------------------------------------------------------------------------------------------

TEST(SchedulePlot, CurveOfALinearWarmUp) {
  const spec::TaskSpec task = spec::find_task("fashion-mnist", "", "", {}).task;
  const plan::Curve curve = plan::lr_curve(task, 4, 60000, 1000);
  EXPECT_EQ(curve.steps_per_epoch, 150);
  ASSERT_EQ(curve.lr.size(), 1000U);
  EXPECT_DOUBLE_EQ(curve.epochs.front(), 0);
  EXPECT_NEAR(curve.epochs.back(), 40, 0.01);
  EXPECT_NEAR(curve.lr.back(), 4 * task.optimizer.lr, 1e-12) << "linear scaling after the warm-up";
  EXPECT_LT(curve.lr.front(), curve.lr.back());
  EXPECT_EQ(plan::lr_curve(task, 1, 60000, 10).lr, std::vector<double>(10, task.optimizer.lr));
}

TEST(SchedulePlot, StepsOfTextsAreExpectedFromTheDescription) {
  spec::TaskSpec task;
  task.data.batching = "columns";
  task.data.bptt = 70;
  task.data.short_probability = 0.05;
  task.batch_size = 80;
  EXPECT_EQ(plan::expected_steps_per_epoch(task, 1, 2'088'628), 383);  // 26,107 positions in steps of 68.25
  EXPECT_EQ(plan::expected_steps_per_epoch(task, 4, 2'088'628), 96);
  task.data.batching = "sentences";
  task.global_batch = 2048;
  EXPECT_EQ(plan::expected_steps_per_epoch(task, 16, 4'068'191), 1987);
  task.data.batching = "tokens";
  task.data.max_length = 80;
  task.global_batch = 131'072;
  EXPECT_EQ(plan::expected_steps_per_epoch(task, 16, 4'590'101), 1401);
}

// In 1a-tf a step of k workers has 128 k^2 images, there are 164 k epochs, and the rate falls at 32000 / k steps.
TEST(SchedulePlot, BatchesAndEpochsGrowWithTheWorkersWhereTheTaskSaysSo) {
  const spec::TaskSpec task = spec::find_task("1a-tf", "", "", {}).task;
  struct Case {
    int64_t workers, steps_per_epoch;
  };
  for (const Case& one : {Case{1, 391}, {2, 98}, {4, 25}}) {
    const auto steps = static_cast<double>(164 * one.workers * one.steps_per_epoch);
    const plan::Curve curve = plan::lr_curve(task, one.workers, 50000, 1000);
    EXPECT_EQ(curve.steps_per_epoch, one.steps_per_epoch);
    EXPECT_NEAR(curve.epochs.back(), 164.0 * static_cast<double>(one.workers), 0.1);
    const auto fallen = static_cast<double>(std::ranges::count_if(curve.lr, [](double lr) { return lr < 0.05; }));
    EXPECT_NEAR(1 - fallen / 1000, 32000.0 / static_cast<double>(one.workers) / steps, 2e-3);
  }
}

TEST(SchedulePlot, ChartHasALinePerCurve) {
  const plan::Curve one{.workers = 1, .epochs = {0, 1}, .lr = {0.1, 0.2}},
      two{.workers = 2, .epochs = {0}, .lr = {0.3}};
  const report::Chart chart = chart_of("a task", {one, two});
  EXPECT_EQ(chart.title, "a task");
  EXPECT_EQ(chart.x_label, "epoch");
  ASSERT_EQ(chart.series.size(), 2U);
  EXPECT_EQ(chart.series[0].name, "1 worker");
  EXPECT_EQ(chart.series[0].points[1].x, 1);
  EXPECT_EQ(chart.series[0].points[1].y, 0.2);
  EXPECT_EQ(chart.series[1].name, "2 workers");
  EXPECT_EQ(chart.series[1].points.size(), 1U);
}

}  // namespace
}  // namespace mlbench::cli
