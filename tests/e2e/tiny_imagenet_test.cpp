// Needs <cstdio> and <cstdlib>.
#include "mlbench/image/images_test.h"

// Training from JPEG files by `mlbench run`, with real ranks, on ten classes of Tiny ImageNet as they are published.

#include <gmock/gmock.h>

#include <algorithm>

#include "mlbench/base/json.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TinyImagenet : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!image::test::tiny_imagenet(folder_.path())) GTEST_SKIP() << image::test::kNoTinyImagenet;
  }

  ProcessOutput mlbench(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--data-dir", folder_.path().string()});
    return test::mlbench(folder_, std::move(arguments));
  }

  // Runs three steps with a small network, and an evaluation.
  ProcessOutput run(const std::string& name, const std::string& workers, const std::vector<std::string>& more) {
    const auto sources = std::filesystem::path(environment_variable("MLBENCH_TEST_SOURCE_DIR").value());
    std::vector<std::string> arguments = {"run",
                                          name,
                                          workers,
                                          "-c",
                                          "1",
                                          "--max-steps",
                                          "3",
                                          "--framework",
                                          "native",
                                          "--task",
                                          (sources / "bench/tasks/tiny-imagenet.toml").string()};
    for (const std::string setting : {"model.name=resnet-cifar", "batch_size=8", "global_batch=8"}) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlbench(arguments);
  }

  Json record_of(const std::string& run) const {
    return read_json_file(std::filesystem::path(folder_ / "home") / "runs" / run / "run.json");
  }

  Json train(const std::string& workers, const std::string& decoding_threads) {
    const ProcessOutput output = run("d" + decoding_threads, workers, {"--decoding-threads", decoding_threads});
    EXPECT_EQ(output.end.code, 0) << output.standard_output << output.standard_error;
    return record_of("d" + decoding_threads + "-" + workers);
  }

  TemporaryFolder folder_;
};

TEST_F(TinyImagenet, WeightsAreTheSameForAnyNumberOfDecodingThreads) {
  const ProcessOutput prepared = mlbench({"data", "prepare", "tiny-imagenet-10"});
  ASSERT_EQ(prepared.end.code, 0) << prepared.standard_error;
  EXPECT_THAT(prepared.standard_output, HasSubstr("tiny-imagenet-10  official"));
  EXPECT_THAT(prepared.standard_error, HasSubstr("hashed 5000 of 5000 images of split 'train'"));
  EXPECT_EQ(mlbench({"data", "prepare", "tiny-imagenet-10"}).standard_error, "") << "nothing is hashed again";

  const Json one = train("1", "1"), two = train("1", "2");
  EXPECT_EQ(one["data"]["official"], true);
  EXPECT_EQ(one["data"]["samples"], (Json{{"train", 5000}, {"test", 500}}));
  EXPECT_EQ(one["effective"]["decoding_threads"], 1);
  EXPECT_EQ(two["effective"]["decoding_threads"], 2);
  ASSERT_TRUE(one["weights_sha256"].is_string());
  EXPECT_EQ(one["weights_sha256"], two["weights_sha256"]);
}

// The images of the evaluation, each of which every run decodes.
TEST_F(TinyImagenet, OthersStandInForBadImagesUpToALimit) {
  std::vector<std::filesystem::path> images;
  const auto folder = std::filesystem::path(folder_.path()) / "tiny-imagenet-10/val/images";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) images.push_back(entry.path());
  ASSERT_GT(images.size(), 2U);
  std::sort(images.begin(), images.end());
  for (const size_t number : {0, 1}) {
    const std::string good = read_file(images[number]);
    write_file_atomically(images[number], good.substr(0, good.size() - 2));
  }

  const ProcessOutput refused = run("none", "1", {});
  EXPECT_EQ(refused.end.code, 5) << refused.standard_output << refused.standard_error;
  EXPECT_THAT(refused.standard_output + refused.standard_error,
              AllOf(HasSubstr(" of split 'test': "), HasSubstr("the file is truncated"), HasSubstr("--max-bad 1")));
  const ProcessOutput one_too_many = run("one", "2", {"--max-bad", "1"});
  EXPECT_EQ(one_too_many.end.code, 5) << one_too_many.standard_output << one_too_many.standard_error;
  EXPECT_THAT(one_too_many.standard_output + one_too_many.standard_error, HasSubstr("--max-bad 2"));

  std::vector<Json> named;
  for (const std::string workers : {"1", "2"}) {
    const ProcessOutput output = run("two", workers, {"--max-bad", "2"});
    ASSERT_EQ(output.end.code, 0) << output.standard_output << output.standard_error;
    EXPECT_THAT(output.standard_output, HasSubstr("2 bad images"));
    const Json record = record_of("two-" + workers);
    const Json& bad = record["data"]["bad_images"];
    EXPECT_EQ(bad["allowed"], 2);
    EXPECT_EQ(bad["count"], 2);
    ASSERT_EQ(bad["first"].size(), 2U);
    EXPECT_EQ(bad["first"][0]["split"], "test");
    EXPECT_THAT(bad["first"][0]["image"].get<std::string>(), StartsWith("images/"));
    EXPECT_THAT(bad["first"][0]["message"].get<std::string>(), HasSubstr("the file is truncated"));
    named.push_back(bad["first"]);
  }
  EXPECT_EQ(named[0], named[1]) << "whatever the number of workers";
}

}  // namespace
}  // namespace mlbench
