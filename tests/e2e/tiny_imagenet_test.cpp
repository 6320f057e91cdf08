// Needs <cstdio> and <cstdlib>.
#include "mlbench/image/images_test.h"

// Training from JPEG files by `mlbench run`, with real ranks, on ten classes of Tiny ImageNet as they are published.

#include <gmock/gmock.h>

#include "mlbench/base/json.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using ::testing::HasSubstr;

class TinyImagenet : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!image::test::tiny_imagenet(folder_.path())) GTEST_SKIP() << image::test::kNoTinyImagenet;
  }

  ProcessOutput mlbench(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--data-dir", folder_.path().string()});
    return test::mlbench(folder_, std::move(arguments));
  }

  // The record of a run of three steps with a small network.
  Json train(const std::string& workers, const std::string& decoding_threads) {
    const auto sources = std::filesystem::path(environment_variable("MLBENCH_TEST_SOURCE_DIR").value());
    const std::string name = "d" + decoding_threads;
    std::vector<std::string> arguments = {"run",
                                          name,
                                          workers,
                                          "--decoding-threads",
                                          decoding_threads,
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
    const ProcessOutput output = mlbench(arguments);
    EXPECT_EQ(output.end.code, 0) << output.standard_output << output.standard_error;
    return read_json_file(std::filesystem::path(folder_ / "home") / "runs" / (name + "-" + workers) / "run.json");
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

}  // namespace
}  // namespace mlbench
