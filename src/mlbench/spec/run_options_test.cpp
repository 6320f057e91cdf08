#include "mlbench/spec/run_options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_error.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::spec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

RunOptions plain(bool custom) {
  RunOptions options;
  options.name = "r";
  options.workers = {"1"};
  if (custom) {
    options.command = {"true"};
  } else {
    options.task = "t";
  }
  return options;
}

RunOptions parsed(const Json& request) { return run_options_from_json(request, catalog::run_options()); }
Json properties_of_request() { return run_request_properties(catalog::run_options()); }

bool takes_commands(const RunOption& option) { return option.applies == AppliesTo::kCommands; }

RunOptions with(const RunOption& option, const std::string& value) {
  RunOptions options = plain(takes_commands(option));
  if (option.of_executor()) {
    Json& given = options.engine[std::string(option.name)];
    given = option.kind == OptionKind::kTexts  ? Json::array({value})
            : option.kind == OptionKind::kFlag ? Json(true)
                                               : Json(value);
    return options;
  }
  if (const auto* text = std::get_if<std::string RunOptions::*>(&option.member)) options.** text = value;
  if (const auto* list = std::get_if<std::vector<std::string> RunOptions::*>(&option.member)) options.** list = {value};
  if (const auto* flag = std::get_if<bool RunOptions::*>(&option.member)) options.** flag = true;
  if (const auto* object = std::get_if<Json RunOptions::*>(&option.member)) {
    options.** object = Json::object();
    options.task.clear();
  }
  return options;
}

std::string refusal(const RunOptions& options) {
  return error_of([&] { check_run_options(options, catalog::run_options()); });
}

bool is_number(const RunOption& option) {
  return option.kind != OptionKind::kText && option.kind != OptionKind::kTexts && option.kind != OptionKind::kFlag &&
         option.kind != OptionKind::kObject;
}

bool is_real(const RunOption& option) {
  return option.kind == OptionKind::kReal || option.kind == OptionKind::kCpus || option.kind == OptionKind::kDuration;
}

TEST(RunOptions, EveryRowIsComplete) {
  std::set<std::string_view> names;
  for (const RunOption& option : catalog::run_options()) {
    SCOPED_TRACE(option.name);
    EXPECT_TRUE(names.insert(option.name).second);
    if (!option.of_executor()) {
      EXPECT_EQ(run_option(option.member).name, option.name) << "one row per member";
    }
    EXPECT_EQ(option.help.empty(), option.flags.empty());
    if (option.kind == OptionKind::kSeed || !is_number(option)) continue;
    EXPECT_LT(option.range.least, option.range.most);
    EXPECT_LE(option.range.most, std::pow(2, 53));
    if (!is_real(option)) {
      EXPECT_EQ(option.range.least, std::floor(option.range.least));
      EXPECT_EQ(option.range.most, std::floor(option.range.most));
    }
  }
}

TEST(RunOptions, AFormerNameOfTheFrameworkIsRefusedWithThePresentOne) {
  RunOptions options;
  options.task = "1a";
  options.framework = "onednn";
  EXPECT_THAT([&] { check_run_options(options, catalog::run_options()); },
              testing::ThrowsMessage<UserError>(HasSubstr("unknown framework 'onednn': it is called 'native'")));
}

TEST(RunOptions, TheEndsOfEachRangeAreTakenAndNothingBeyond) {
  for (const RunOption& option : catalog::run_options()) {
    if (!is_number(option)) continue;
    std::vector<std::string> wrong = {"abc",   " ",      "1 ",    "+1",  "-1",    "0x1",  "nan", "inf",
                                      "1e308", "1e308h", "1e999", "1,5", "1e18h", "9e18", "--1", "9e18s"};
    if (option.kind == OptionKind::kSeed) {
      for (const char* right : {"0", "42", "18446744073709551615"}) EXPECT_EQ(refusal(with(option, right)), "no error");
      wrong.insert(wrong.end(), {"18446744073709551616", "1.5", "-0", "1e3"});
    } else {
      const bool real = is_real(option);
      const auto text = [&](double value) { return real ? fmt::format("{}", value) : fmt::format("{:.0f}", value); };
      const auto beyond = [&](double end, double way) {
        return text(real ? std::nextafter(end, way * std::numeric_limits<double>::infinity()) : end + way);
      };
      for (const double end : {option.range.least, option.range.most}) {
        EXPECT_EQ(refusal(with(option, text(end))), "no error");
      }
      wrong.insert(wrong.end(), {beyond(option.range.least, -1), beyond(option.range.most, 1), "1e18", "-0",
                                 "9223372036854775807", "9223372036854775808", "18446744073709551616"});
      if (!real) wrong.insert(wrong.end(), {"1e3", "1.0", "1s"});
    }
    for (const std::string& value : wrong) {
      EXPECT_THAT(refusal(with(option, value)), AllOf(HasSubstr(label_of(option) + " '"), HasSubstr("from ")))
          << option.name << " " << value;
    }
  }
}

TEST(RunOptions, AWordStandsForANumber) {
  EXPECT_EQ(refusal(with(run_option(&RunOptions::max_time), "official")), "no error");
  EXPECT_EQ(refusal(with(run_option(&RunOptions::checkpoint_every), "epoch")), "no error");
  EXPECT_THAT(refusal(with(run_option(&RunOptions::max_time), "epoch")), HasSubstr("--max-time 'epoch'"));
  EXPECT_THAT(refusal(with(run_option(&RunOptions::max_steps), "official")), HasSubstr("--max-steps 'official'"));
}

TEST(RunOptions, ATextMayHaveChoices) {
  EXPECT_EQ(refusal(with(run_option(&RunOptions::algorithm), "halving_doubling")), "no error");
  EXPECT_EQ(refusal(with(run_option(&RunOptions::algorithm), "rings")),
            "unknown --algorithm 'rings': did you mean 'ring'? valid: auto, ring, halving_doubling, bcube, library");
  EXPECT_THAT(refusal(with(run_option(&RunOptions::wire_dtype), "float32")), HasSubstr("valid: float16, bfloat16"));
}

TEST(RunOptions, TextsAreUtf8) {
  for (const RunOption& option : catalog::run_options()) {
    const bool text = option.kind == OptionKind::kText || option.kind == OptionKind::kTexts;
    if (!text || option.name == "name") continue;  // "name" has a rule of its own
    EXPECT_EQ(refusal(with(option, "\xff\u00FC")),
              fmt::format("{} '\\xff\u00FC' is no UTF-8, and the files of a run hold no other text", label_of(option)));
  }
}

TEST(RunOptions, SizesMayHaveUnits) {
  RunOptions options = plain(false);
  EXPECT_EQ(bytes_of(options, &RunOptions::socket_buffer, 7), 7);
  options.socket_buffer = "4M";
  EXPECT_EQ(refusal(options), "no error");
  EXPECT_EQ(bytes_of(options, &RunOptions::socket_buffer, 7), 4 << 20);
  options.socket_buffer = "8K";
  EXPECT_EQ(refusal(options), "--socket-buffer '8K' is not a size from 64K to 1G");
}

TEST(RunOptions, NothingIsTakenThatDoesNotApply) {
  for (const RunOption& option : catalog::run_options()) {
    if (option.applies == AppliesTo::kAll || option.name == "task" || option.name == "command") continue;
    const std::string value = is_number(option)        ? fmt::format("{}", option.range.most)
                              : option.choices.empty() ? "x"
                                                       : std::string(option.choices.front());
    RunOptions other = with(option, value);
    EXPECT_EQ(refusal(other), "no error") << option.name;
    if (takes_commands(option)) {
      other.command.clear();
      EXPECT_EQ(refusal(other), label_of(option) + " is an option of a command: give one behind --");
    } else {
      other.command = {"true"};
      other.task.clear();
      EXPECT_EQ(
          refusal(other),
          label_of(option) + (option.declares ? " belongs to a task: say which one the command trains, with --task TASK"
                                              : " is an option of tasks: give it to your command, behind --"));
    }
  }
}

TEST(RunOptions, ACommandDeclaresATaskItsDataAndItsGoal) {
  std::set<std::string_view> declaring;
  for (const RunOption& option : catalog::run_options()) {
    if (option.declares) declaring.insert(option.name);
  }
  EXPECT_THAT(declaring,
              testing::UnorderedElementsAre("task", "task_text", "rules", "variant", "data", "light", "goal"));
  RunOptions both = plain(true);
  both.task = "t";
  both.rules = both.variant = both.data = both.goal = "x";
  both.light = true;
  EXPECT_EQ(refusal(both), "no error");
  both.max_steps = "1";
  EXPECT_THAT(refusal(both), HasSubstr("--max-steps is an option of tasks"));
}

TEST(RunOptions, WhatTrainsNothingTakesNoOptionsOfTraining) {
  for (const RunOption& option : catalog::run_options()) {
    if (option.applies != AppliesTo::kTraining) continue;
    RunOptions measured = with(option, is_number(option) ? fmt::format("{}", option.range.most) : "x");
    measured.task = "0a";
    EXPECT_EQ(refusal(measured),
              label_of(option) + " is an option of tasks that train, and task 0a trains nothing: leave it out");
    measured.task.clear();
    measured.collectives = Json::object();
    EXPECT_THAT(refusal(measured), HasSubstr("and a benchmark of collectives trains nothing"));
  }
  RunOptions measured = plain(false);
  measured.task = "0a";
  measured.comm_timeout = "5s";
  measured.backend = "mpi";
  EXPECT_EQ(refusal(measured), "no error");
  measured.collectives = Json::object();
  EXPECT_THAT(refusal(measured), HasSubstr("collectives is given and task, too"));
}

TEST(RunOptions, OneRequestMakesSoManyRuns) {
  RunOptions options = plain(false);
  options.repeat = "1000";
  EXPECT_EQ(refusal(options), "no error");
  options.workers = {"1", "2"};
  EXPECT_EQ(refusal(options), "2 worker counts with 1000 repeats are 2000 runs; one request makes at most 1000");
  options.repeat = "500";
  EXPECT_EQ(refusal(options), "no error");
  options.repeat.clear();
  options.workers.clear();
  EXPECT_THAT(refusal(options), HasSubstr("no worker count"));
  for (int i = 1; i <= 1000; ++i) options.workers.push_back(std::to_string(i));
  EXPECT_EQ(refusal(options), "no error");
  options.workers.emplace_back("1001");
  EXPECT_EQ(refusal(options), "1001 worker counts; one request makes at most 1000 runs");
  options.workers = {"2", "02"};
  EXPECT_EQ(refusal(options), "worker count 2 is given twice: for repeats use --repeat N");
}

TEST(RunOptions, ListsAndSeedsEnd) {
  RunOptions options = plain(false);
  options.overrides.assign(1000, "epochs=1");
  EXPECT_EQ(refusal(options), "no error");
  options.overrides.emplace_back("epochs=1");
  EXPECT_EQ(refusal(options), "--set has 1001 values; expected at most 1000");
  options = plain(false);
  options.seed = "18446744073709551615";
  EXPECT_EQ(refusal(options), "no error");
  options.repeat = "2";
  EXPECT_THAT(refusal(options), HasSubstr("the last one's seed would be above 18446744073709551615"));
}

TEST(RunOptions, ValuesAreReadInTheirUnits) {
  RunOptions options = plain(false);
  EXPECT_EQ(seconds_of(options, &RunOptions::max_time, 0), 0);
  EXPECT_EQ(seed_of(options, 42), 42U);
  options.max_time = "1.5h";
  options.max_epochs = "2.5";
  options.max_steps = "10";
  options.seed = "7";
  EXPECT_EQ(seconds_of(options, &RunOptions::max_time, 0), 5400);
  EXPECT_EQ(real_of(options, &RunOptions::max_epochs, 0), 2.5);
  EXPECT_EQ(count_of(options, &RunOptions::max_steps, 0), 10);
  EXPECT_EQ(seed_of(options, 42), 7U);
}

TEST(RunOptions, AFractionOfACpuIsALimitOfContainers) {
  RunOptions options = plain(false);
  const auto given = [&](const char* text) {
    options.threads_per_worker = text;
    const CpuShare share = cpus_of(options, 7);
    return std::pair(share.threads, share.limit);
  };
  EXPECT_EQ(given(""), std::pair(int64_t{7}, 0.0));
  EXPECT_EQ(given("2"), std::pair(int64_t{2}, 0.0));
  EXPECT_EQ(given("2.0"), std::pair(int64_t{2}, 0.0));
  EXPECT_EQ(given("2.5"), std::pair(int64_t{2}, 2.5));
  EXPECT_EQ(given("0.25"), std::pair(int64_t{1}, 0.25));
  EXPECT_EQ(given("1023.125"), std::pair(int64_t{1023}, 1023.125));
  options.threads_per_worker = "2.0005";
  EXPECT_EQ(refusal(options),
            "--threads-per-worker '2.0005' has more than three digits behind its point: give thousandths, as in 2.125");
  const Json schema = properties_of_request()["threads_per_worker"];
  EXPECT_EQ(schema["type"], Json({"string", "number"}));
  EXPECT_EQ(schema["minimum"], 0.1);
  EXPECT_EQ(schema["maximum"], 1024);
  EXPECT_EQ(parsed({{"threads_per_worker", 2.5}}).threads_per_worker, "2.5");
}

TEST(RunOptions, DefaultsAreThoseOfARun) {
  const Json properties = properties_of_request();
  const RunSpec spec;
  EXPECT_EQ(properties["seed"]["default"], spec.seed);
  EXPECT_EQ(properties["repeat"]["default"], spec.repeat);
  EXPECT_EQ(properties["comm_timeout"]["default"], spec.comm_timeout_s);
  EXPECT_EQ(properties["executor"]["default"], spec.executor);
  EXPECT_EQ(RunOptions().executor, spec.executor);
}

TEST(RunOptions, ARequestIsExactlyInvertible) {
  RunOptions options;
  for (const RunOption& option : catalog::run_options()) {
    const std::string value = fmt::format("the {}", option.name);
    if (option.of_executor()) options.engine.update(with(option, value).engine);
    if (option.of_executor()) continue;
    if (const auto* text = std::get_if<std::string RunOptions::*>(&option.member)) options.** text = value;
    if (const auto* list = std::get_if<std::vector<std::string> RunOptions::*>(&option.member))
      options.** list = {value, "more"};
    if (const auto* flag = std::get_if<bool RunOptions::*>(&option.member)) options.** flag = true;
    if (const auto* object = std::get_if<Json RunOptions::*>(&option.member)) options.** object = Json::object();
  }
  const Json request = to_json(options);
  EXPECT_EQ(request.size(), catalog::run_options().size());
  EXPECT_EQ(to_json(parsed(request)), request);
  EXPECT_EQ(to_json(RunOptions()), Json({{"executor", "local"}}));
}

TEST(RunOptions, ARequestMayHoldNumbers) {
  const RunOptions options =
      parsed({{"workers", {1, "2"}}, {"seed", 18446744073709551615U}, {"max_time", 0.5}, {"repeat", nullptr}});
  EXPECT_THAT(options.workers, testing::ElementsAre("1", "2"));
  EXPECT_EQ(options.seed, "18446744073709551615");
  EXPECT_EQ(options.max_time, "0.5");
  EXPECT_EQ(options.repeat, "");
}

TEST(RunOptions, WrongFieldsOfARequestAreNamed) {
  const auto refused = [](const Json& request) { return error_of([&] { parsed(request); }); };
  EXPECT_THAT(refused({{"wrokers", 1}}), HasSubstr("unknown field 'wrokers': did you mean 'workers'? valid: "));
  EXPECT_EQ(refused({{"command", "true"}}), "command is \"true\"; expected a list");
  EXPECT_EQ(refused({{"light", 1}}), "light is 1; expected true or false");
  EXPECT_EQ(refused({{"repeat", true}}), "repeat is true; expected a number, or text");
  EXPECT_EQ(refused({{"task", 5}}), "task is 5; expected text");
  EXPECT_EQ(refused({{"set", {1}}}), "set is 1; expected text");
  EXPECT_EQ(refused({{"collectives", "all_reduce"}}), "collectives is \"all_reduce\"; expected an object");
}

TEST(RunOptions, OptionsOfExecutorsAreToldInTheirForms) {
  const auto told = [](const Json& request) { return engine_of(parsed(request), catalog::run_options()); };
  const auto refused = [&](const Json& request) { return error_of([&] { told(request); }); };
  EXPECT_EQ(told({{"task", "t"}, {"hosts", ""}, {"slurm", Json::array()}, {"host_network", false}}), Json::object());
  const Json given = {{"hosts", "h1:2,h2"},
                      {"ranks_per_host", "3"},
                      {"ssh_config", "/etc/ssh/other"},
                      {"slurm", {"exclusive"}},
                      {"setup", "module load mpi\n"},
                      {"scratch", "/scratch"},
                      {"image", "worker:1"},
                      {"kube_context", "lab"},
                      {"host_network", true},
                      {"requeue", 2}};
  Json expected = given;
  expected["hosts"] = "h1:2,h2:1";
  expected["ranks_per_host"] = 3;
  EXPECT_EQ(canonical_json(told(given)), canonical_json(expected));
  EXPECT_EQ(refused({{"scratch", "scratch"}}), "--scratch 'scratch' is no absolute path");
  EXPECT_EQ(refused({{"ssh_config", "config"}}), "--ssh-config 'config' is no absolute path");
  const std::string longest(64 * 1024, ' ');
  EXPECT_EQ(refused({{"setup", longest + " "}}), "--setup has 65537 bytes; expected at most 65536");
  EXPECT_EQ(refused({{"setup", std::string("a\0b", 3)}}), "--setup holds a zero byte: it is no text");
  EXPECT_EQ(refused({{"pod_overlay", longest + " "}}), "--pod-overlay has 65537 bytes; expected at most 65536");
  for (const char* wrong : {"-v/:/host", "--privileged", "a\nb", "a\tb"}) {
    EXPECT_THAT(refused({{"image", wrong}}), HasSubstr("--image")) << wrong;
  }
}

}  // namespace
}  // namespace mlbench::spec
