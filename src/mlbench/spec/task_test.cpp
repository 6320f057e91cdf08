#include "mlbench/spec/task.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_error.h"
#include "mlbench/spec/batch_scaling.h"
#include "mlbench/spec/task_hash.h"

namespace mlbench::spec {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A complete task file, with a variant and every kind of value.
constexpr std::string_view kText = R"(name = "toy"
title = "A toy"
rules = "2021"
variants = ["small", "large"]
workers = [1, 2, 4]
loss = "cross_entropy"
batch_size = 32
epochs = 10

[data]
name = "toys"
sample_shape = [3, 8, 8]
classes = 5
mean = [0.5, 0.5, 0.5]
stddev = [0.25, 0.25, 0.25]

[model]
name = "mlp"
depth = 3
dropout = 0.5

[optimizer]
name = "centralized_sgd"
lr = 0.1
momentum = 0.9
nesterov = true

[schedule]
scaling = "linear"
decay = "plateau"
factor = 0.5
patience = 2
threshold = 0.01
floor = 1e-3

[evaluation]
metrics = ["Prec@1", "loss"]

[goal]
metric = "Prec@1"
target = 80
light_target = 70

[variant.large]
batch_size = 16
[variant.large.model]
depth = 30
[variant.large.schedule]
lr_by_workers = { 1 = 0.1 }
)";

FrozenTask parse(std::string_view text, const std::vector<Override>& overrides = {}, const std::string& variant = "") {
  return parse_task({"toy.toml", text}, variant, overrides);
}

// kText with one piece replaced.
std::string with(const std::string& piece, const std::string& replacement) {
  std::string text(kText);
  const size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), replacement);
}

TEST(Task, EmbeddedTasksAreValidInEveryVariant) {
  ASSERT_FALSE(embedded_tasks().empty());
  for (const TaskSource& source : embedded_tasks()) {
    const FrozenTask task = parse_task(source, "", {});
    for (const std::string& variant : task.task.variants) {
      EXPECT_EQ(parse_task(source, variant, {}).task.variant, variant);
    }
    EXPECT_EQ(to_json(task_from_json(task.canonical)), task.canonical) << source.name;
  }
}

TEST(Task, FashionMnistIsTask5a) {
  const FrozenTask frozen = find_task("fashion-mnist", "", "", {});
  const TaskSpec& task = frozen.task;
  EXPECT_EQ(task.rules, "");
  EXPECT_THAT(task.workers, ElementsAre(1, 2, 4, 8, 16));
  EXPECT_EQ(task.data.name, "fashion-mnist");
  EXPECT_THAT(task.data.sample_shape, ElementsAre(1, 28, 28));
  EXPECT_EQ(task.data.classes, 10);
  EXPECT_THAT(task.data.train_transform, ElementsAre("scale_255"));
  EXPECT_THAT(task.data.eval_transform, ElementsAre("scale_255"));
  EXPECT_EQ(task.model.name, "mnist-cnn");
  EXPECT_EQ(task.model.options, (Json{{"dropout", 0.4}}));
  EXPECT_EQ(task.loss, "cross_entropy");
  EXPECT_EQ(task.batch_size, 100);
  EXPECT_EQ(task.epochs, 40);
  EXPECT_EQ(task.precision, "float32");
  EXPECT_EQ(task.optimizer.name, "centralized_sgd");
  EXPECT_EQ(task.optimizer.lr, 0.05);
  EXPECT_EQ(task.optimizer.options, (Json{{"momentum", 0.9}}));
  EXPECT_EQ(task.schedule.scaling, "linear");
  EXPECT_EQ(task.schedule.warmup, "epochs");
  EXPECT_EQ(task.schedule.warmup_epochs, 5);
  EXPECT_EQ(task.schedule.decay, "constant");
  EXPECT_TRUE(task.evaluation.every_epoch);
  EXPECT_EQ(task.evaluation.every_samples, 15000);
  EXPECT_THAT(task.evaluation.metrics, ElementsAre("Prec@1", "loss"));
  EXPECT_EQ(task.goal.metric, "Prec@1");
  EXPECT_EQ(task.goal.split, "test");
  EXPECT_EQ(task.goal.target, 91.5);
  EXPECT_EQ(task.goal.light_target, 85);
  EXPECT_TRUE(task.goal.higher_is_better);
  EXPECT_FALSE(frozen.open);
}

TEST(Task, LogisticRegressionIsTask2aInBothRuleSets) {
  for (const std::string rules : {"2018", "2021"}) {
    SCOPED_TRACE(rules);
    const TaskSpec task = find_task("2a", rules, "", {}).task;
    EXPECT_EQ(task.rules, rules);
    EXPECT_EQ(task.data.name, "epsilon");
    EXPECT_THAT(task.data.sample_shape, ElementsAre(2000));
    EXPECT_EQ(task.data.classes, 2);
    EXPECT_TRUE(task.data.train_transform.empty() && task.data.eval_transform.empty());
    EXPECT_EQ(task.model.name, "logistic_regression");
    EXPECT_EQ(task.model.options, (Json{{"l2", 2.5e-6}}));
    EXPECT_EQ(task.loss, "binary_cross_entropy");
    EXPECT_EQ(task.optimizer.name, "centralized_sgd");
    EXPECT_EQ(task.optimizer.options.at("momentum"), 0);
    EXPECT_EQ(task.optimizer.options.at("nesterov"), false);
    EXPECT_EQ(task.schedule.warmup, "none");
    EXPECT_TRUE(task.evaluation.every_epoch);
    EXPECT_THAT(task.evaluation.metrics, ElementsAre("Prec@1", "F1-Score", "Dice Coefficient", "loss"));
    EXPECT_EQ(task.goal.metric, "Prec@1");
    EXPECT_EQ(task.goal.split, "test");
    EXPECT_EQ(task.goal.target, 89);
    EXPECT_EQ(task.goal.light_target, 80);
  }
  const TaskSpec old = find_task("2a", "2018", "", {}).task;
  EXPECT_THAT(old.workers, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_EQ(old.batch_size, 100);
  EXPECT_EQ(old.schedule.scaling, "table");
  EXPECT_EQ(old.schedule.lr_by_workers,
            (std::map<int64_t, double>{{1, 200}, {2, 400}, {4, 600}, {8, 700}, {16, 800}, {32, 800}, {64, 800}}));
  EXPECT_EQ(old.schedule.decay, "inverse_sqrt");
  EXPECT_GE(old.epochs, 1e6);

  const TaskSpec task = find_task("2a", "", "", {}).task;
  EXPECT_EQ(task, find_task("2a", "2021", "", {}).task);
  EXPECT_THAT(task.workers, ElementsAre(1, 2, 4, 8, 16));
  EXPECT_EQ(task.batch_size, 128);
  EXPECT_EQ(task.epochs, 164);
  EXPECT_EQ(task.optimizer.lr, 4);
  EXPECT_EQ(task.schedule.scaling, "linear");
  EXPECT_EQ(task.schedule.decay, "plateau");
  EXPECT_EQ(task.schedule.factor, 0.5);
  EXPECT_EQ(task.schedule.patience, 2);
  EXPECT_EQ(task.schedule.threshold, 0.01);
  EXPECT_EQ(task.schedule.floor, 1e-3);
}

// MLBench's text 001 counts test and training accuracy; its text 003 has one model for 1a.
TEST(Task, OfficialVariantsAreThoseOfTheTexts) {
  const auto variants = [](const char* name, const char* rules) {
    return find_task(name, rules, "", {}).task.variants;
  };
  EXPECT_THAT(variants("1a", "2018"),
              ElementsAre("v1-20", "v1-32", "v1-44", "v1-56", "v2-20", "v2-32", "v2-44", "v2-56", "train-goal"));
  EXPECT_THAT(variants("1a", "2021"), ElementsAre("v1-20"));
  EXPECT_THAT(variants("2a", "2018"),
              ElementsAre("test-goal", "train-goal", "local-sgd-8", "top-k-1", "ef-sign", "qsgd-4"));
  for (const char* name : {"1a", "2a"}) {
    TaskSpec usual = find_task(name, "2018", "", {}).task;
    const TaskSpec train = find_task(name, "2018", "train-goal", {}).task;
    usual.goal.split = "train";
    usual.variant = train.variant;
    EXPECT_EQ(usual, train) << "they differ in the split alone";
  }
  for (const char* rules : {"2018", "2021"}) {
    const FrozenTask today = find_task("1a", rules, "", {{"model.version", "v2-mlbench"}});
    EXPECT_EQ(today.task.model.options.at("version"), "v2-mlbench");
    EXPECT_TRUE(today.open);
  }
}

TEST(Task, CanonicalFormHoldsEveryKeyAndIsExactlyInvertible) {
  const FrozenTask frozen = parse(kText);
  EXPECT_EQ(frozen.canonical["precision"], "float32");
  EXPECT_EQ(frozen.canonical["goal"]["split"], "test");
  EXPECT_EQ(frozen.canonical["variant"], "small");
  const TaskSpec back = task_from_json(Json::parse(frozen.canonical.dump()));
  EXPECT_EQ(back, frozen.task);
  EXPECT_EQ(to_json(back), frozen.canonical);
}

TEST(Task, HashIgnoresHowTheFileIsWritten) {
  const std::string hash = parse(kText).hash;
  EXPECT_EQ(hash, hash_of(parse(kText).canonical));
  EXPECT_EQ(parse(with("epochs = 10", "epochs = 10.0  # ten")).hash, hash);
  EXPECT_EQ(parse(with("[goal]\n", "[goal]\nsplit = \"test\"\n")).hash, hash);  // the default, spelt out
  EXPECT_EQ(parse(with("name = \"toy\"\ntitle = \"A toy\"\n", "title = \"A toy\"\nname = \"toy\"\n")).hash, hash);
  EXPECT_EQ(parse("\xEF\xBB\xBF" + std::string(kText)).hash, hash);
  EXPECT_NE(parse(with("epochs = 10", "epochs = 11")).hash, hash);
}

TEST(Task, HashHoldsTheVariantButNotTheOverrides) {
  const FrozenTask small = parse(kText);
  const FrozenTask large = parse(kText, {}, "large");
  EXPECT_NE(small.hash, large.hash);
  EXPECT_FALSE(large.open);
  const FrozenTask open = parse(kText, {{"epochs", "3"}});
  EXPECT_EQ(open.hash, small.hash);
  EXPECT_NE(open.canonical, small.canonical);
  EXPECT_TRUE(open.open);
}

TEST(Task, HowTheGradientTravelsIsOutsideTheHash) {
  const FrozenTask plain = parse(kText);
  const FrozenTask file =
      parse(with("momentum = 0.9", "momentum = 0.9\nby_layer = true\nbucket_mb = 25\noverlap = true"));
  EXPECT_EQ(file.hash, plain.hash);
  EXPECT_EQ(file.task.optimizer.options["bucket_mb"], 25);

  const FrozenTask set = parse(kText, {{"optimizer.bucket_mb", "0.5"}, {"optimizer.by_layer", "false"}});
  EXPECT_EQ(set.hash, plain.hash);
  EXPECT_FALSE(set.open);
  EXPECT_EQ(set.task.optimizer.options["bucket_mb"], 0.5);
  EXPECT_EQ(set.task.optimizer.options["by_layer"], false);
  EXPECT_EQ(set.canonical["optimizer"]["bucket_mb"], 0.5);
  const FrozenTask overlapped = parse(kText, {{"optimizer.overlap", "true"}});
  EXPECT_EQ(overlapped.hash, plain.hash);
  EXPECT_FALSE(overlapped.open);
  EXPECT_EQ(overlapped.task.optimizer.options["overlap"], true);
  EXPECT_TRUE(parse(kText, {{"optimizer.bucket_mb", "1"}, {"optimizer.momentum", "0.5"}}).open);
  EXPECT_THAT(error_of([] { parse(kText, {{"optimizer.bucket", "1"}}); }), HasSubstr("unknown key 'bucket'"));
}

TEST(Task, ATargetLossIsDrawnAndDecidesNothing) {
  const FrozenTask plain = parse(kText);
  EXPECT_FALSE(plain.canonical["goal"].contains("target_loss"));
  const FrozenTask file = parse(with("light_target = 70", "light_target = 70\ntarget_loss = 0.3"));
  EXPECT_EQ(file.task.goal.target_loss, 0.3);
  EXPECT_EQ(file.canonical["goal"]["target_loss"], 0.3);
  EXPECT_EQ(file.hash, plain.hash);
  EXPECT_EQ(task_from_json(file.canonical), file.task);
  EXPECT_FALSE(parse(kText, {{"goal.target_loss", "0.4"}}).open);
  EXPECT_THAT(error_of([] { parse(with("light_target = 70", "light_target = 70\ntarget_loss = -1")); }),
              HasSubstr("toy.toml:43:15: 'goal.target_loss' is -1"));
  for (const char* rules : {"2018", "2021"}) {
    EXPECT_EQ(find_task("2a", rules, "", {}).task.goal.target_loss, 0.2828);
  }
}

// kText with a table [decoding] that has these keys.
std::string with_decoding(const std::string& keys) { return with("[goal]", "[decoding]\n" + keys + "\n\n[goal]"); }

TEST(Task, DecodingStandsInTasksThatTranslate) {
  const FrozenTask plain = parse(kText);
  EXPECT_FALSE(plain.canonical.contains("decoding"));
  const FrozenTask file =
      parse(with_decoding("beam = 4\nlength_penalty = \"power\"\nlength_exponent = 0.6\nlength_extra = 50"));
  EXPECT_EQ(file.task.decoding.beam, 4);
  EXPECT_EQ(file.task.decoding.length_penalty, "power");
  EXPECT_EQ(file.task.decoding.n_best, 1);
  EXPECT_NE(file.hash, plain.hash);
  EXPECT_EQ(task_from_json(file.canonical), file.task);
  const std::string translates = with_decoding("beam = 4\nlength_extra = 50");
  EXPECT_TRUE(parse(translates, {{"decoding.beam", "5"}}).open);
  // The number of translations that are written does not open a run.
  EXPECT_FALSE(parse(translates, {{"decoding.n_best", "4"}}).open);
  EXPECT_EQ(parse(with_decoding("beam = 4\nlength_extra = 50\nn_best = 3")).hash, parse(translates).hash);
  // min_length is a later key: a task that does not use it keeps its hash.
  EXPECT_EQ(file.task.decoding.min_length, 0);
  EXPECT_EQ(parse(with_decoding("beam = 4\nlength_extra = 50\nmin_length = 0")).hash, parse(translates).hash);
  const FrozenTask longer = parse(with_decoding("beam = 4\nlength_extra = 50\nmin_length = 1"));
  EXPECT_EQ(longer.task.decoding.min_length, 1);
  EXPECT_NE(longer.hash, parse(translates).hash);
  EXPECT_EQ(task_from_json(longer.canonical), longer.task);
}

TEST(Task, DecodingIsComplete) {
  EXPECT_THAT(error_of([] { parse(with_decoding("beam = 4")); }), HasSubstr("'decoding.length_extra' and"));
  EXPECT_THAT(error_of([] { parse(with_decoding("beam = 4\nlength_extra = 5\nn_best = 5")); }),
              HasSubstr("'decoding.n_best' is 5; expected at most 'decoding.beam', 4"));
  EXPECT_THAT(error_of([] { parse(with_decoding("coverage_penalty = 0.1")); }), HasSubstr("'decoding.beam' is 0"));
  EXPECT_THAT(error_of([] { parse(with_decoding("beam = 4\nlength_extra = 5\nlength_penalty = \"none\"")); }),
              HasSubstr("; valid: wu, power"));
}

TEST(Task, AwdLstmIsTask3a) {
  const TaskSpec task = find_task("3a", "", "", {}).task;
  EXPECT_THAT(task.workers, ElementsAre(1, 2, 4, 8, 16, 32));
  EXPECT_EQ(task.data.name, "wikitext2");
  EXPECT_EQ(task.data.classes, 33278);
  EXPECT_EQ(task.data.batching, "columns");
  EXPECT_EQ(task.data.bptt, 70);
  EXPECT_EQ(task.data.bptt_deviation, 5);
  EXPECT_EQ(task.data.short_probability, 0.05);
  EXPECT_EQ(task.data.evaluation_batch, 10);
  EXPECT_EQ(task.batch_size, 80);
  EXPECT_EQ(task.epochs, 750);
  EXPECT_EQ(task.loss, "token_cross_entropy");
  EXPECT_EQ(task.model.options, Json::parse(R"({"activation_regularisation": 2, "embedding_dropout": 0.1,
      "hidden_dropout": 0.2, "input_dropout": 0.65, "output_dropout": 0.4, "size": "full",
      "temporal_regularisation": 1, "weight_dropout": 0.5})"));
  EXPECT_EQ(task.optimizer.lr, 30);
  EXPECT_EQ(task.optimizer.options, (Json{{"averaging_patience", 5}, {"clip_norm", 0.25}, {"weight_decay", 1.2e-6}}));
  EXPECT_EQ(task.schedule.scaling, "sqrt");
  EXPECT_EQ(task.schedule.warmup, "worker_epochs");
  EXPECT_EQ(task.schedule.warmup_epochs, 3);
  EXPECT_TRUE(task.schedule.by_length);
  EXPECT_EQ(task.goal.metric, "Perplexity");
  EXPECT_EQ(task.goal.target, 70);
  EXPECT_EQ(task.goal.light_target, 90);
  EXPECT_FALSE(task.goal.higher_is_better);
  EXPECT_EQ(task.decoding, DecodingSpec{});
}

TEST(Task, GnmtIsTask4a) {
  const TaskSpec task = find_task("4a", "", "", {}).task;
  EXPECT_EQ(task.data.classes, 32320);
  EXPECT_EQ(task.data.batching, "sentences");
  EXPECT_EQ(task.data.max_length, 75);
  EXPECT_EQ(task.data.evaluation_max_length, 150);
  EXPECT_EQ(task.batch_size, 128);
  EXPECT_EQ(task.global_batch, 2048);
  EXPECT_EQ(task.loss_divisor, "local_samples");
  EXPECT_EQ(task.precision, "fp16");
  EXPECT_EQ(task.label_smoothing, 0.1);
  EXPECT_EQ(task.epochs, 8);
  EXPECT_EQ(task.optimizer.lr, 2e-3);
  const Json& options = task.optimizer.options;
  EXPECT_EQ(options["betas"], Json({0.9, 0.999}));
  EXPECT_EQ(options["eps"], 1e-8);
  EXPECT_EQ(options["clip_norm"], 5);
  EXPECT_EQ(options["reduce"], "sum");
  EXPECT_EQ(options["loss_scale"], 1 << 10);
  EXPECT_EQ(options["loss_scale_interval"], 128);
  EXPECT_EQ(options["loss_scale_maximum"], 1 << 13);
  EXPECT_EQ(task.schedule.warmup_steps, 200);
  EXPECT_EQ(task.schedule.warmup_factor, 0.01);
  EXPECT_THAT(task.schedule.fractions, ElementsAre(0.4, 0.45, 0.5, 0.55));
  EXPECT_EQ(task.schedule.factor, 0.5);
  EXPECT_EQ(task.evaluation.every_fraction, 0.3);
  EXPECT_EQ(task.decoding.beam, 5);
  EXPECT_EQ(task.decoding.length_penalty, "wu");
  EXPECT_EQ(task.decoding.length_exponent, 0.6);
  EXPECT_EQ(task.decoding.coverage_penalty, 0.1);
  EXPECT_EQ(task.decoding.min_length, 0);
  EXPECT_EQ(task.model.options["initial_bound"], 0.1);
  EXPECT_EQ(task.goal.metric, "BLEU-intl-lc");
  EXPECT_EQ(task.goal.target, 24);
  EXPECT_EQ(task.goal.light_target, 20);
}

TEST(Task, TransformerIsTask4b) {
  const TaskSpec task = find_task("4b", "", "", {}).task;
  EXPECT_EQ(task.data.classes, 33712);
  EXPECT_EQ(task.data.batching, "tokens");
  EXPECT_EQ(task.data.length_multiple, 8);
  EXPECT_EQ(task.data.max_length, 80);
  EXPECT_EQ(task.batch_size, 1 << 13);
  EXPECT_EQ(task.global_batch, 1 << 17);
  EXPECT_EQ(task.loss_divisor, "weight_after_sum");
  EXPECT_EQ(task.label_smoothing, 0.1);
  EXPECT_EQ(task.epochs, 10);
  EXPECT_EQ(task.optimizer.lr, 1.976e-3);
  EXPECT_EQ(task.optimizer.options["betas"], Json({0.9, 0.98}));
  EXPECT_EQ(task.optimizer.options["eps"], 1e-9);
  EXPECT_EQ(task.optimizer.options["loss_scale"], 1 << 7);
  EXPECT_EQ(task.optimizer.options["loss_scale_interval"], 2000);
  EXPECT_FALSE(task.optimizer.options.contains("clip_norm"));
  EXPECT_EQ(task.schedule.warmup, "linear_steps");
  EXPECT_EQ(task.schedule.warmup_steps, 1000);
  EXPECT_EQ(task.schedule.warmup_from, "zero");
  EXPECT_EQ(task.schedule.decay, "inverse_sqrt_after_warmup");
  EXPECT_EQ(task.decoding.beam, 4);
  EXPECT_EQ(task.decoding.length_penalty, "wu");
  EXPECT_EQ(task.decoding.length_exponent, 0.6);
  EXPECT_EQ(task.decoding.min_length, 1);
  EXPECT_EQ(task.goal.metric, "BLEU-intl-lc");
  EXPECT_EQ(task.goal.target, 25);
  EXPECT_EQ(task.goal.light_target, 20);
}

TEST(Task, MnistIsTask5aWithAdam) {
  const FrozenTask frozen = find_task("mnist", "", "", {});
  TaskSpec task = frozen.task;
  EXPECT_EQ(task.data.name, "mnist");
  EXPECT_EQ(task.optimizer.name, "centralized_adam");
  EXPECT_EQ(task.optimizer.lr, 1e-4);
  EXPECT_EQ(task.optimizer.options, Json::object());
  EXPECT_TRUE(task.evaluation.every_epoch);
  EXPECT_EQ(task.evaluation.every_samples, 0);
  EXPECT_EQ(task.goal.target, 99.2);
  EXPECT_EQ(task.goal.light_target, 98);
  // The rest is that of fashion-mnist.
  const TaskSpec fashion = find_task("fashion-mnist", "", "", {}).task;
  task.name = fashion.name;
  task.title = fashion.title;
  task.data.name = fashion.data.name;
  task.optimizer = fashion.optimizer;
  task.evaluation.every_samples = fashion.evaluation.every_samples;
  task.goal.target = fashion.goal.target;
  task.goal.light_target = fashion.goal.light_target;
  EXPECT_EQ(task, fashion);
}

TEST(Task, VariantChangesWhatItsTableSays) {
  const FrozenTask small = parse(kText, {}, "small");
  const FrozenTask large = parse(kText, {}, "large");
  EXPECT_EQ(small.task.batch_size, 32);
  EXPECT_EQ(large.task.batch_size, 16);
  EXPECT_EQ(large.task.model.options, (Json{{"depth", 30}, {"dropout", 0.5}}));
  EXPECT_EQ(large.task.schedule.lr_by_workers, (std::map<int64_t, double>{{1, 0.1}}));
  EXPECT_EQ(large.task.schedule.factor, 0.5);
  EXPECT_EQ(error_of([] { parse(kText, {}, "huge"); }), "toy.toml: unknown variant 'huge'; valid: small, large");
  EXPECT_EQ(error_of([] { parse(kText, {}, "larg"); }),
            "toy.toml: unknown variant 'larg': did you mean 'large'? valid: small, large");
  EXPECT_EQ(error_of([] { find_task("fashion-mnist", "", "x", {}); }),
            "fashion-mnist.toml: unknown variant 'x'; there is none");
  EXPECT_THAT(error_of([] { parse(with("[variant.large]", "[variant.lage]")); }),
              StartsWith("toy.toml:44:10: unknown variant 'lage': did you mean 'large'?"));
  EXPECT_THAT(error_of([] { parse(with("depth = 30", "depth = [[1]]"), {}, "large"); }),
              StartsWith("toy.toml:47:9: 'model.depth' is [[1]]; expected a number, text, true or false"));
}

struct Wrong {
  const char *piece, *replacement, *error;
};

class TaskError : public testing::TestWithParam<Wrong> {};

TEST_P(TaskError, NamesPlaceGivenAndExpected) {
  EXPECT_THAT(error_of([] { parse(with(GetParam().piece, GetParam().replacement)); }), StartsWith(GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Table, TaskError,
    testing::Values(
        Wrong{"epochs = 10", "epochs = ", "toy.toml:8:10: "},
        Wrong{"epochs = 10", "epochs = 10\nepochs = 11",
              "toy.toml:9:10: Error while parsing key-value pair: cannot redefine"},
        Wrong{"epochs = 10", "epoch = 10",
              "toy.toml:8:1: unknown key 'epoch': did you mean 'epochs'? valid: batch_scaling, batch_size, data, "
              "decoding, epochs, evaluation, framework, global_batch, goal, label_smoothing, limits, loss, "
              "loss_divisor, model, name, optimizer, precision, rules, schedule, title, variant, variants, workers"},
        Wrong{"factor = 0.5", "  faktor = 0.5",
              "toy.toml:31:3: unknown key 'schedule.faktor': did you mean 'factor' or 'factors'? "},
        Wrong{"epochs = 10\n", "", "toy.toml:1:1: missing key 'epochs'"},
        Wrong{"target = 80\nlight_target = 70\n", "", "toy.toml:39:2: missing keys 'goal.target', 'goal.light_target'"},
        Wrong{"epochs = 10", "epochs = \"ten\"", "toy.toml:8:10: 'epochs' is \"ten\"; expected a finite number"},
        Wrong{"epochs = 10", "epochs = 0", "toy.toml:8:10: 'epochs' is 0; expected a number from 1e-06 to 10000000"},
        Wrong{"epochs = 10", "epochs = inf", "toy.toml:8:10: 'epochs' is inf; expected a finite number"},
        Wrong{"epochs = 10", "epochs = 2026-01-31", "toy.toml:8:10: 'epochs' is a date or time; expected a number"},
        Wrong{"batch_size = 32", "batch_size = 32.5", "toy.toml:7:14: 'batch_size' is 32.5; expected an integer"},
        Wrong{"loss = \"cross_entropy\"", "loss = 1", "toy.toml:6:8: 'loss' is 1; expected a text"},
        Wrong{"workers = [1, 2, 4]", "workers = [1, true]", "toy.toml:5:15: 'workers.1' is true; expected an integer"},
        Wrong{"workers = [1, 2, 4]", "workers = 4", "toy.toml:5:11: 'workers' is 4; expected a list"},
        Wrong{"workers = [1, 2, 4]", "workers = []", "toy.toml:5:11: 'workers' must list the official numbers"},
        Wrong{"[model]\nname = \"mlp\"\ndepth = 3\ndropout = 0.5\n", "", "toy.toml:1:1: missing key 'model.name'"},
        Wrong{"dropout = 0.5", "dropout = nan", "toy.toml:20:11: 'model.dropout' is nan; expected a number"},
        Wrong{"dropout = 0.5", "dropout = { p = 1 }", "toy.toml:20:11: 'model.dropout' is a table; expected a number"},
        Wrong{"scaling = \"linear\"", "scaling = \"cubic\"",
              "toy.toml:29:11: 'schedule.scaling' is \"cubic\"; valid: none, linear, sqrt, table"},
        Wrong{"scaling = \"linear\"", "scaling = \"table\"", "toy.toml:28:1: 'schedule.lr_by_workers' is missing"},
        Wrong{"scaling = \"linear\"", "lr_by_workers = { two = 1 }",
              "toy.toml:29:19: key 'two' of 'schedule.lr_by_workers' is not an integer"},
        Wrong{"decay = \"plateau\"", "decay = \"multistep\"",
              "toy.toml:28:1: 'schedule.milestones' must list epochs in strictly rising order"},
        Wrong{"decay = \"plateau\"", "decay = \"multistep\"\nmilestones = [109, 82]",
              "toy.toml:31:14: 'schedule.milestones' must list epochs in strictly rising order"},
        Wrong{"decay = \"plateau\"", "decay = \"multistep\"\nmilestone_unit = \"steps_of_workers\"",
              "toy.toml:28:1: 'schedule.milestones' must list steps in strictly rising order"},
        Wrong{"decay = \"plateau\"", "decay = \"multistep\"\nmilestone_unit = \"steps\"",
              "toy.toml:31:18: 'schedule.milestone_unit' is \"steps\": did you mean 'steps_of_workers'? valid: epochs, "
              "steps_of_workers"},
        Wrong{"decay = \"plateau\"", "decay = \"fractions\"\nfractions = [0.5, 0.4]",
              "toy.toml:31:13: 'schedule.fractions' must list fractions of all steps in strictly rising order"},
        Wrong{"decay = \"plateau\"", "warmup = \"none\"\ndecay = \"inverse_sqrt_after_warmup\"",
              "toy.toml:30:10: 'schedule.warmup' is \"none\": 'schedule.decay' is \"inverse_sqrt_after_warmup\""},
        Wrong{"scaling = \"linear\"", "warmup = \"worker_epochs\"",
              "toy.toml:28:1: 'schedule.warmup_epochs' must be positive: 'schedule.warmup' is \"worker_epochs\""},
        Wrong{"scaling = \"linear\"", "warmup = \"linear_steps\"",
              "toy.toml:28:1: 'schedule.warmup_steps' must be positive: 'schedule.warmup' is \"linear_steps\""},
        Wrong{"scaling = \"linear\"", "warmup = \"exponential\"\nwarmup_steps = 200",
              "toy.toml:28:1: 'schedule.warmup_factor' is 0; expected a number between 0 and 1"},
        Wrong{"scaling = \"linear\"", "warmup_from = \"one\"",
              "toy.toml:29:15: 'schedule.warmup_from' is \"one\"; valid: lr, zero"},
        Wrong{"factor = 0.5", "factor = 1.5",
              "toy.toml:31:10: 'schedule.factor' is 1.5; expected a number from 0 to 1"},
        Wrong{"patience = 2\n", "", "toy.toml:28:1: 'schedule.patience' must be at least 1"},
        Wrong{"stddev = [0.25, 0.25, 0.25]", "stddev = [0.25]", "toy.toml:15:10: 'data.stddev' has 1 values"},
        Wrong{"metrics = [\"Prec@1\", \"loss\"]", "metrics = [\"loss\"]",
              "toy.toml:40:10: 'goal.metric' is \"Prec@1\"; valid: loss"},
        Wrong{"metrics = [\"Prec@1\", \"loss\"]", "metrics = [\"Prec@1\"]\nevery_epoch = false",
              "toy.toml:38:15: 'evaluation.every_epoch' is false, and neither"},
        Wrong{
            "light_target = 70", "light_target = 70\nhigher_is_better = false",
            "toy.toml:43:20: 'goal.higher_is_better' is false; expected true: of 'Prec@1' the higher value is better"},
        Wrong{"metric = \"Prec@1\"", "metric = \"loss\"",
              "toy.toml:39:1: 'goal.higher_is_better' is true; expected false: of 'loss' the lower value is better"},
        Wrong{"light_target = 70", "light_target = 90", "toy.toml:42:16: 'goal.light_target' is 90: harder to reach"},
        Wrong{"target = 80", "split = \"validation\"\ntarget = 80",
              "toy.toml:41:9: 'goal.split' is \"validation\"; valid: test, train"}));

TEST(TaskOverride, SetsTypedValuesByPath) {
  const FrozenTask frozen = parse(kText, {{"optimizer.lr", "0.5"},
                                          {"optimizer.nesterov", "false"},
                                          {"optimizer.momentum", "0"},
                                          {"schedule.decay", "constant"},  // a bare word
                                          {"data.train_transform", "[\"normalise\"]"},
                                          {"evaluation.every_samples", "100"},
                                          {"precision", "bf16"},
                                          {"schedule.lr_by_workers.3", "7"}});
  EXPECT_EQ(frozen.task.optimizer.lr, 0.5);
  EXPECT_EQ(frozen.task.optimizer.options, (Json{{"momentum", 0}, {"nesterov", false}}));
  EXPECT_EQ(frozen.task.schedule.decay, "constant");
  EXPECT_THAT(frozen.task.data.train_transform, ElementsAre("normalise"));
  EXPECT_EQ(frozen.task.evaluation.every_samples, 100);
  EXPECT_EQ(frozen.task.precision, "bf16");
  EXPECT_EQ(frozen.task.schedule.lr_by_workers.at(3), 7);
  EXPECT_TRUE(frozen.open);
  EXPECT_EQ(to_json(task_from_json(frozen.canonical)), frozen.canonical);
}

TEST(TaskOverride, AnotherOptimizerDropsTheOldOnesOptions) {
  const FrozenTask frozen = parse(kText, {{"optimizer.eps", "1e-8"}, {"optimizer.name", "centralized_adam"}});
  EXPECT_EQ(frozen.task.optimizer.name, "centralized_adam");
  EXPECT_EQ(frozen.task.optimizer.lr, 0.1);
  EXPECT_EQ(frozen.task.optimizer.options, (Json{{"eps", 1e-8}}));
}

TEST(TaskOverride, ErrorsNameTheOverrideAndTheValidKeys) {
  const auto error_with = [](const std::string& key, const std::string& value) {
    return error_of([&] { parse(kText, {{key, value}}); });
  };
  EXPECT_EQ(error_with("optimizer.lrr", "1"),
            "--set optimizer.lrr=1: unknown key 'lrr' of 'optimizer': did you mean 'lr'? valid: bucket_mb, by_layer, "
            "compression, lr, momentum, name, nesterov, overlap, pattern, rule");
  EXPECT_THAT(error_with("optimizer.compresion", "top_k"), HasSubstr("did you mean 'compression'?"));
  EXPECT_EQ(error_with("optimiser.lr", "1"),
            "--set optimiser.lr=1: unknown key 'optimiser' of the task: did you mean 'optimizer'? valid: "
            "batch_scaling, batch_size, data, epochs, evaluation, global_batch, goal, label_smoothing, loss, "
            "loss_divisor, model, optimizer, precision, schedule");
  EXPECT_EQ(error_with("epochs.x", "1"), "--set epochs.x=1: 'epochs' is 10, not a table");
  EXPECT_THAT(error_with("", "1"), HasSubstr("unknown key ''"));
  EXPECT_THAT(error_with("optimizer.", "1"), HasSubstr("unknown key '' of 'optimizer'"));
  EXPECT_EQ(error_with("optimizer.lr", "fast"),
            "--set optimizer.lr=fast: 'optimizer.lr' is \"fast\"; expected the same type as the task's value, 0.1");
  EXPECT_EQ(error_with("optimizer.lr", "-1"),
            "--set optimizer.lr=-1: 'optimizer.lr' is -1; expected a number from 1e-12 to 1000000");
  EXPECT_THAT(error_with("precision", "float16"), StartsWith("--set precision=float16: 'precision' is \"float16\": did "
                                                             "you mean 'float32'? valid: float32, tf32, bf16, fp16"));
  EXPECT_THAT(error_with("optimizer.nesterov", "1"), HasSubstr("expected the same type as the task's value, true"));
  EXPECT_THAT(error_with("data.train_transform", "[\"a\""), HasSubstr("not a TOML value"));
  EXPECT_THAT(error_with("variant", "large"), HasSubstr("choose with --variant"));
  EXPECT_THAT(error_with("limits.max_time_s", "60"), HasSubstr("choose with --max-time"));
  EXPECT_THAT(error_with("workers", "[3]"), HasSubstr("'workers' identifies the task and cannot be set"));
  // The file is right; the override of one key makes another one wrong.
  EXPECT_THAT(error_with("schedule.warmup", "epochs"),
              AllOf(StartsWith("toy.toml:28:1 (with --set schedule.warmup=epochs): "),
                    HasSubstr("'schedule.warmup_epochs' must be positive")));
}

// Every number of a task but the options of its model and optimizer, which the code of the model and optimizer checks.
TEST(TaskOverride, NoNumberIsTakenBeyondItsRange) {
  const Json canonical = parse(kText).canonical;
  std::vector<std::pair<std::string, bool>> keys = {{"schedule.lr_by_workers.3", false}, {"goal.target_loss", false}};
  const auto collect = [&](const std::string& path, const Json& value) {
    const bool list = value.is_array() && (value.empty() || value.front().is_number());
    if (value.is_number() || list) keys.emplace_back(path, list);
  };
  for (const auto& [name, value] : canonical.items()) {
    if (name == "model" || name == "workers" || name == "variants") continue;
    collect(name, value);
    if (!value.is_object()) continue;
    for (const auto& [key, inner] : value.items()) {
      const bool option = name == "optimizer" && key != "lr";
      if (!option && !key.ends_with("_transform")) collect(std::string(name).append(".").append(key), inner);
    }
  }
  EXPECT_GE(keys.size(), 18U);
  for (const auto& [key, list] : keys) {
    for (const char* value : {"1e308", "-1e308", "9000000000000000000", "nan", "inf", "-inf"}) {
      const std::string text = list ? fmt::format("[{}]", value) : value;
      EXPECT_THAT(error_of([&, path = key] {
                    parse(kText, {{path, text}});
                  }),
                  StartsWith(fmt::format("--set {}={}: ", key, text)));
    }
  }
  EXPECT_THAT(error_of([] { parse(with("workers = [1, 2, 4]", "workers = [1, 10001]")); }),
              HasSubstr("'workers.1' is 10001; expected a number from 1 to 10000"));
  EXPECT_THAT(error_of([] {
                parse(kText, {{"data.sample_shape", "[100000, 100000]"}});
              }),
              HasSubstr("is a sample of 1e+10 values; expected at most 1e+09"));
}

// A task over text, made by overrides from one over images.
TEST(Task, BatchesOfTextSayHowTheyAreMade) {
  const std::vector<Override> columns = {{"data.sample_shape", "[]"},
                                         {"data.batching", "columns"},
                                         {"data.bptt", "70"},
                                         {"data.short_probability", "0.05"}};
  const TaskSpec task = parse(kText, columns).task;
  EXPECT_EQ(task.data.bptt, 70);
  EXPECT_EQ(task_from_json(to_json(task)), task);

  const auto error_with = [&](const std::string& key, const std::string& value) {
    std::vector<Override> settings = columns;
    settings.push_back({key, value});
    return error_of([&] { parse(kText, settings); });
  };
  EXPECT_THAT(error_with("data.batching", "pages"), HasSubstr("; valid: samples, columns, sentences, tokens"));
  EXPECT_THAT(error_with("data.batching", "samples"), HasSubstr("must list the extents of a sample"));
  EXPECT_THAT(error_with("data.sample_shape", "[3]"), HasSubstr("must be empty: 'data.batching' is \"columns\""));
  EXPECT_THAT(error_with("data.bptt", "4"), HasSubstr("is 4; expected at least 5 positions"));
  EXPECT_THAT(error_with("global_batch", "64"), HasSubstr("is 64; expected 0, batch_size * workers"));
  EXPECT_THAT(error_with("data.pad", "-1"), HasSubstr("'data.pad' is -1"));
  EXPECT_EQ(find_task("3a", "", "", {{"data.holdout", "0.2"}}).task.data.holdout, 0.2);
  EXPECT_THAT(error_with("data.holdout", "0.95"), HasSubstr("'data.holdout' is 0.95"));
  EXPECT_THAT(error_with("loss_divisor", "local_samples"), HasSubstr("is \"local_samples\"; expected \"weight\""));
  EXPECT_THAT(error_of([&] {
                parse(kText, {{"data.sample_shape", "[]"}, {"data.batching", "tokens"}, {"global_batch", "31"}});
              }),
              HasSubstr("is 31 tokens, less than the 32 of one micro-batch, 'batch_size'"));
}

TEST(Overrides, ChoicesOfAnOptimizerFreeItsOptions) {
  const auto options_with = [](const std::vector<Override>& overrides) {
    return parse(kText, overrides).task.optimizer.options;
  };
  const Json before = options_with({});
  ASSERT_TRUE(before.contains("momentum"));
  Json with_coder = before;
  with_coder["compression"] = "top_k";
  with_coder["share"] = 0.1;
  EXPECT_EQ(options_with({{"optimizer.compression", "top_k"}, {"optimizer.share", "0.1"}}), with_coder);
  EXPECT_EQ(options_with({{"optimizer.rule", "lion"}, {"optimizer.pattern", "local"}, {"optimizer.every", "4"}}),
            (Json{{"rule", "lion"}, {"pattern", "local"}, {"every", 4}}))
      << "another rule has other options";
  EXPECT_THROW(options_with({{"optimizer.share", "0.1"}}), UserError) << "none of the task's";
}

TEST(Task, TheTensorFlowImagesTaskSaysWhatItsCodeDid) {
  const FrozenTask frozen = find_task("1a-tf", "", "", {});
  const TaskSpec& task = frozen.task;
  EXPECT_EQ(task.framework, "tensorflow");
  // 128 images times k, from each of k workers.
  EXPECT_EQ(worker_batch_of(task, 4), 512);
  EXPECT_EQ(global_batch_of(task, 4), 2048);
  // (x / 255 - mean) / stddev is (x / 256 - m) / s with task 1a's m and s.
  const TaskSpec of_1a = find_task("1a", "2021", "", {}).task;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(task.data.mean[i] * 255 / 256, of_1a.data.mean[i], 1e-9);
    EXPECT_NEAR(task.data.stddev[i] * 255 / 256, of_1a.data.stddev[i], 1e-9);
  }
  EXPECT_EQ(task.model.options, (Json{{"depth", 20}, {"l2", 2e-4}, {"version", "v2-tensorflow"}}));
  EXPECT_EQ(task.optimizer.options, (Json{{"momentum", 0.9}, {"nesterov", true}, {"pattern", "server"}}));
  EXPECT_EQ(task.schedule.milestone_unit, "steps_of_workers");
  EXPECT_THAT(task.schedule.milestones, ElementsAre(32000, 48000));
  // The framework is no part of what is asked for.
  Json other = frozen.canonical;
  other["framework"] = "torch";
  EXPECT_EQ(hash_of(other), frozen.hash);
}

TEST(Task, BatchScalingMakesWorkersBatchesAndEpochsGrow) {
  const auto numbers = [](const TaskSpec& task, int64_t workers) {
    return std::tuple(worker_batch_of(task, workers), global_batch_of(task, workers), epochs_of(task, workers));
  };
  const TaskSpec plain = parse(kText).task;
  EXPECT_EQ(numbers(plain, 4), std::tuple(32, 128, 10.0));
  const FrozenTask scaled = parse(kText, {{"batch_scaling", "linear"}});
  EXPECT_EQ(numbers(scaled.task, 1), std::tuple(32, 32, 10.0));
  EXPECT_EQ(numbers(scaled.task, 4), std::tuple(128, 512, 40.0));
  EXPECT_EQ(task_from_json(scaled.canonical), scaled.task);
  EXPECT_NE(parse(with("batch_size = 32", "batch_size = 32\nbatch_scaling = \"linear\"")).hash, parse(kText).hash);
  EXPECT_EQ(parse(with("batch_size = 32", "batch_size = 32\nbatch_scaling = \"none\"")).hash, parse(kText).hash);

  const TaskSpec fixed = parse(kText, {{"global_batch", "100"}}).task;
  EXPECT_EQ(numbers(fixed, 4), std::tuple(32, 100, 10.0));
  EXPECT_THAT(error_of([] {
                parse(kText, {{"batch_scaling", "linear"}, {"global_batch", "100"}});
              }),
              HasSubstr("'batch_scaling' is \"linear\"; expected \"none\": 'data.batching' is \"samples\", and "
                        "'global_batch' is 100"));
  EXPECT_THAT(error_of([] {
                parse(kText, {{"batch_scaling", "linear"}, {"epochs", "1001"}});
              }),
              HasSubstr("'epochs' is 1001; expected at most 1000: they grow with the workers"));
}

TEST(TaskOverride, IsSplitAtTheFirstEqualsSign) {
  const Override setting = parse_override("model.name=a=b");
  EXPECT_EQ(setting.key, "model.name");
  EXPECT_EQ(setting.value, "a=b");
  for (const char* wrong : {"model", "=1", ""}) EXPECT_THROW(parse_override(wrong), UserError) << wrong;
}

TEST(Task, UnknownNameAndRulesListTheValidOnes) {
  EXPECT_THAT(error_of([] { find_task("fashion-mist", "", "", {}); }),
              StartsWith("unknown task 'fashion-mist': did you mean 'fashion-mnist'? valid: "));
  EXPECT_THAT(error_of([] { find_task("cifar", "", "", {}); }),
              testing::EndsWith("; with data cifar...: 1a, 1a-ddp, 1a-horovod, 1a-tf"));
  EXPECT_EQ(error_of([] { find_task("fashion-mnist", "2018", "", {}); }),
            "task 'fashion-mnist': unknown rules '2018'; there is none");
}

TEST(Task, DamagedCanonicalFormIsAnError) {
  Json canonical = parse(kText).canonical;
  canonical["goal"].erase("target");
  EXPECT_EQ(error_of([&] { task_from_json(canonical); }), "task: missing key 'goal.target'");
}

// However a text is cut or garbled, the result is a task or a UserError.
TEST(Task, EveryTruncationIsATaskOrAUserError) {
  int errors = 0;
  for (size_t length = 0; length < kText.size(); ++length) {
    try {
      parse(kText.substr(0, length));
    } catch (const UserError& error) {
      ++errors;
      EXPECT_THAT(error.what(), StartsWith("toy.toml:"));
    }
  }
  EXPECT_GT(errors, 500);
}

}  // namespace
}  // namespace mlbench::spec
