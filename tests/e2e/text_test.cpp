// The tasks over text as a user has them: both programs, tiny models, small made files, real rank processes. What two
// workers make equals what one makes where nothing is drawn per rank; evaluation of what was stored.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/checkpoint/checkpoint.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

struct Result {
  int code = 0;
  std::string out, err;
  Json json() const { return Json::parse(out); }
};

struct TextTask {
  const char* name;  // of the task
  const char* metric;
  std::vector<std::string> smaller;  // sizes, batches; without dropout
  int64_t samples;                   // of the evaluation
};

// A line of some of 60 made words.
std::string sentence(std::mt19937& random, const char* ending) {
  std::string line;
  const auto words = 2 + random() % 9;
  for (size_t i = 0; i < words; ++i) {
    const auto word = std::min(random() % 60, random() % 60);
    line += fmt::format("{}w{}{}", i == 0 ? "" : " ", static_cast<char>('a' + word % 26), word) + ending;
  }
  return line;
}

void write_lines(const fs::path& path, size_t lines, const char* ending, unsigned seed) {
  fs::create_directories(path.parent_path());
  std::mt19937 random(seed);
  std::ofstream out(path);
  for (size_t i = 0; i < lines; ++i) out << sentence(random, ending) << "\n";
}

// As tensor2tensor's: single characters, all of the escapes among them, and made words up to 33,708 entries.
void write_dictionary(const fs::path& path) {
  std::ofstream out(path);
  out << "'<pad>_'\n'<EOS>_'\n'<bypass_unk>'\n'<lua_index_compat>'\n";
  size_t entries = 4;
  for (const char c : std::string("\\_;.0123456789abcdefghijklmnopqrstuvwxyz ")) {
    out << "'" << c << "'\n";
    ++entries;
  }
  for (size_t i = 0; entries < 33'708; ++i, ++entries)
    out << fmt::format("'w{}{}_'\n", static_cast<char>('a' + i % 26), i);
}

class Text : public testing::TestWithParam<TextTask> {
 protected:
  // One home and one data folder for all.
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const fs::path data = *folder_ / "data";
    for (const auto& [name, lines] : std::map<std::string, size_t>{{"train", 400}, {"valid", 80}, {"test", 20}}) {
      write_lines(data / "wikitext-2" / (name + ".txt"), lines, "", static_cast<unsigned>(lines));
    }
    for (const char* year : {"wmt16", "wmt17"}) {
      const std::string news = std::string(year) == "wmt16" ? "news-commentary-v11.de-en" : "news-commentary-v12.de-en";
      for (const auto& [name, lines] : std::map<std::string, size_t>{
               {"europarl-v7.de-en", 120}, {"commoncrawl.de-en", 40}, {news, 20}, {"newstest2014", 30}}) {
        // The target says the same in other words.
        write_lines(data / year / (name + ".en"), lines, "", static_cast<unsigned>(lines));
        write_lines(data / year / (name + ".de"), lines, "n", static_cast<unsigned>(lines));
      }
    }
    write_dictionary(data / "wmt17/reference_dictionary.ende.txt");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static fs::path home() { return *folder_ / "home"; }

  static Result mlbench(std::vector<std::string> arguments) {
    ProcessOutput output = test::mlbench(*folder_, std::move(arguments), {{"MLBENCH_DATA_DIR", *folder_ / "data"}});
    return {output.end.code, std::move(output.standard_output), std::move(output.standard_error)};
  }

  static std::vector<std::string> task_words(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--task",          GetParam().name,        "--set",
                                      "model.size=tiny", "--threads-per-worker", "1"};
    for (const std::string& setting : GetParam().smaller) words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // The records of NAME-K for each K.
  static Json train(const std::string& name, const std::vector<std::string>& workers,
                    const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run", run_name(name)};
    arguments.insert(arguments.end(), workers.begin(), workers.end());
    const std::vector<std::string> words = task_words(more);
    arguments.insert(arguments.end(), words.begin(), words.end());
    arguments.insert(arguments.end(), {"--local", "--json"});
    const Result result = mlbench(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? result.json() : Json::array();
  }

  static std::string run_name(const std::string& name) { return fmt::format("{}-{}", GetParam().name, name); }
  static fs::path run_folder(const std::string& name, int64_t workers) {
    return home() / "runs" / fmt::format("{}-{}", run_name(name), workers);
  }
  static fs::path checkpoint(const std::string& name, int64_t workers, int64_t step) {
    return run_folder(name, workers) / fmt::format("checkpoints/step-{:09}", step);
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> Text::folder_;

// Without what makes the tasks large, and what is drawn or set by rank: dropout masks, 3a's rate. A large
// epsilon: Adam divides a gradient that is nothing but rounding by its own size.
const std::vector<std::string> kLanguage = {
    "batch_size=4",           "data.evaluation_batch=4", "model.output_dropout=0",
    "model.hidden_dropout=0", "model.input_dropout=0",   "model.embedding_dropout=0",
    "model.weight_dropout=0", "schedule.scaling=none",   "optimizer.lr=2"};
const std::vector<std::string> kGnmt = {"batch_size=7",       "global_batch=60",   "model.dropout=0",
                                        "optimizer.eps=1e-3", "precision=float32", "loss_divisor=weight"};
const std::vector<std::string> kTransformer = {
    "batch_size=64",        "global_batch=512",   "model.dropout=0",  "model.attention_dropout=0",
    "model.relu_dropout=0", "optimizer.eps=1e-3", "precision=float32"};

const TextTask k3a{"3a", "Perplexity", kLanguage, 1}, k4a{"4a", "BLEU-intl-lc", kGnmt, 30},
    k4b{"4b", "BLEU-intl-lc", kTransformer, 30};
std::string name_of(const testing::TestParamInfo<TextTask>& one) { return std::string("task") + one.param.name; }

class Dictionary : public Text {};
INSTANTIATE_TEST_SUITE_P(Tasks, Text, testing::Values(k3a, k4a, k4b), name_of);
INSTANTIATE_TEST_SUITE_P(Tasks, Dictionary, testing::Values(k4b), name_of);

// The difference of two tensors, relative to the larger of them: sums of the same float32 numbers in other orders.
double distance(const HostTensor& one, const HostTensor& other) {
  const auto values = [](const HostTensor& tensor) {
    return std::span(reinterpret_cast<const float*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(float));
  };
  const auto a = values(one), b = values(other);
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(difference / std::max(norm, 1e-12));
}

TEST_P(Text, TwoWorkersTrainWhatOneTrains) {
  constexpr double kTolerance = 1e-4;
  // 3a's columns are those of all workers together: as many of one as of two.
  const bool columns = std::string(GetParam().name) == "3a";
  const std::vector<std::string> more = {"--max-steps", "5"};
  const Json one = columns ? train("k", {"1"}, {"--max-steps", "5", "--set", "batch_size=8"}) : train("k", {"1"}, more);
  const Json two = train("k", {"2"}, more);
  ASSERT_EQ(one.size(), 1U);
  ASSERT_EQ(two.size(), 1U);
  const Json &first = one[0]["evaluations"].back()["metrics"], &second = two[0]["evaluations"].back()["metrics"];
  for (const char* metric : {"loss", "Perplexity"}) {
    EXPECT_NEAR(first[metric].get<double>(), second[metric].get<double>(), kTolerance * first[metric].get<double>());
  }
  const NamedState before = checkpoint::read_checkpoint(checkpoint("k", 1, 5));
  const NamedState after = checkpoint::read_checkpoint(checkpoint("k", 2, 5));
  EXPECT_EQ(one[0]["data"]["fingerprint"], two[0]["data"]["fingerprint"]);
  EXPECT_EQ(one[0]["data"]["official"], false);
  int64_t compared = 0;
  for (const auto& [name, tensor] : before.tensors) {
    if (name.find('/') != std::string::npos) continue;  // of the optimizer
    ++compared;
    ASSERT_TRUE(after.tensors.contains(name)) << name;
    EXPECT_LE(distance(tensor, after.tensors.at(name)), kTolerance) << name;
  }
  EXPECT_GT(compared, 4);
}

TEST_P(Text, EvaluatesWhatItStored) {
  const Json records = train("stored", {"2"}, {"--max-steps", "3", "--seed", "5"});
  ASSERT_EQ(records.size(), 1U);
  const Json& metrics = records[0]["evaluations"].back()["metrics"];
  EXPECT_TRUE(metrics[GetParam().metric].is_number()) << metrics.dump();
  const Result stored = mlbench({"evaluate", checkpoint("stored", 2, 3), "--json"});
  ASSERT_EQ(stored.code, 0) << stored.err;
  EXPECT_EQ(stored.json()["metrics"], metrics);
  EXPECT_EQ(stored.json()["weights_sha256"], records[0]["weights_sha256"]);
  EXPECT_EQ(stored.json()["samples"], GetParam().samples);

  // The same tensors are evaluated as another program leaves them, and in one shard.
  std::vector<std::string> words = {"evaluate", checkpoint("stored", 2, 3) / "model.safetensors", "--json"};
  const std::vector<std::string> task = task_words({});
  words.insert(words.end(), task.begin(), task.end());
  const Result weights = mlbench(words);
  ASSERT_EQ(weights.code, 0) << weights.err;
  EXPECT_EQ(weights.json()["kind"], "weights");
  EXPECT_EQ(weights.json()["weights_sha256"], records[0]["weights_sha256"]);
  for (const auto& [name, value] : metrics.items()) {
    EXPECT_NEAR(weights.json()["metrics"][name].get<double>(), value.get<double>(), 1e-5 * value.get<double>()) << name;
  }
  EXPECT_EQ(weights.json()["goal"]["metric"], GetParam().metric);
  EXPECT_EQ(weights.json()["goal"]["reached"], false);
}

// A dictionary has 33,708 entries, and its ids are padded to a multiple of 8.
TEST_P(Dictionary, IsReadAndPadded) {
  const Json records = train("padded", {"1"}, {"--max-steps", "1"});
  ASSERT_EQ(records.size(), 1U);
  const NamedState state = checkpoint::read_checkpoint(checkpoint("padded", 1, 1));
  EXPECT_EQ(state.tensors.at("embedding.weight").shape.front(), 33'712);
  std::vector<fs::path> vocabularies;
  for (const auto& entry : fs::directory_iterator(home() / "cache")) {
    if (entry.path().filename().string().starts_with("wmt17-text-") && entry.is_directory()) {
      vocabularies.push_back(entry.path() / "vocabulary.txt");
    }
  }
  ASSERT_EQ(vocabularies.size(), 1U);
  const std::string text = read_file(vocabularies[0]);
  const Json head = Json::parse(text.substr(0, text.find('\n')));
  EXPECT_EQ(head["size"], 33'712);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1 + 33'708) << "a line of what it is, and the entries";
}

// ---- predictions of other solvers -----------------------------------------------------------------------------------

// evaluate() reads predictions from a file with these lines.
class Predictions : public Text {
 protected:
  static Result evaluate(const std::vector<Json>& lines) {
    const fs::path file = *folder_ / "p.jsonl";
    std::ofstream out(file);
    for (const Json& line : lines) out << line.dump() << "\n";
    out.close();
    std::vector<std::string> words = {"evaluate", file, "--json"};
    const std::vector<std::string> task = task_words({});
    words.insert(words.end(), task.begin(), task.end());
    return mlbench(words);
  }
};
class PredictionsOfAText : public Predictions {};
class PredictionsOfPairs : public Predictions {};
INSTANTIATE_TEST_SUITE_P(Tasks, PredictionsOfAText, testing::Values(k3a), name_of);
INSTANTIATE_TEST_SUITE_P(Tasks, PredictionsOfPairs, testing::Values(k4a, k4b), name_of);

TEST_P(PredictionsOfAText, GiveThePerplexityAndItsGoal) {
  // The words and their ends.
  const std::string text = read_file(*folder_ / "data/wikitext-2/valid.txt");
  const int64_t tokens = std::ranges::count(text, ' ') + 2 * std::ranges::count(text, '\n');
  const Result result =
      evaluate({{{"index", 0}, {"nll", 4.0 * 100}, {"tokens", 100}},
                {{"index", 1}, {"nll", 4.0 * static_cast<double>(tokens - 101)}, {"tokens", tokens - 101}}});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NEAR(result.json()["metrics"]["Perplexity"].get<double>(), std::exp(4.0), 1e-9);
  EXPECT_EQ(result.json()["goal"]["reached"], true) << "70";
  EXPECT_TRUE(result.json()["metrics"]["loss"].is_null());
  const Result few = evaluate({{{"index", 0}, {"nll", 1.0}, {"tokens", 10}}});
  EXPECT_EQ(few.code, 2);
  EXPECT_THAT(few.err, AllOf(HasSubstr("10 tokens are predicted"), HasSubstr(std::to_string(tokens))));
  EXPECT_THAT(evaluate({{{"index", 0}, {"label", 1}}}).err, HasSubstr("loss of this task is over tokens"));
}

TEST_P(PredictionsOfPairs, GiveBleuAndItsGoal) {
  const std::string year = std::string(GetParam().name) == "4a" ? "wmt16" : "wmt17";
  std::ifstream references(*folder_ / "data" / year / "newstest2014.de");
  std::vector<Json> lines;
  for (std::string line; std::getline(references, line);) lines.push_back({{"index", lines.size()}, {"text", line}});
  std::ranges::reverse(lines);
  const Result right = evaluate(lines);
  ASSERT_EQ(right.code, 0) << right.err;
  EXPECT_NEAR(right.json()["metrics"][GetParam().metric].get<double>(), 100, 1e-9);
  EXPECT_EQ(right.json()["goal"]["reached"], true);
  EXPECT_TRUE(right.json()["metrics"]["Perplexity"].is_null());
  for (Json& line : lines) line["text"] = "anders";
  EXPECT_EQ(evaluate(lines).json()["goal"]["reached"], false);
  for (Json& line : lines) line.erase("text"), line["label"] = 1;
  const Result labels = evaluate(lines);
  EXPECT_EQ(labels.code, 2);
  EXPECT_THAT(labels.err, HasSubstr("give \"text\", or \"nll\" and \"tokens\""));
}

}  // namespace
}  // namespace mlbench
