// Task 1a by `mlbench run` with each framework over each back end, small and on made images: the weights are as
// docs/rules.md promises.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process.h"
#include "mlbench/record/spool.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

using testing::Contains;
using testing::Gt;
namespace fs = std::filesystem;

class Frameworks : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  static void SetUpTestSuite() { folder_ = std::make_unique<TemporaryFolder>(); }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    for (const auto& [kind, name] : {std::pair("frameworks", framework()), std::pair("backends", backend())}) {
      const std::string reason = test::why_absent(*folder_, kind, name);
      if (!reason.empty()) GTEST_SKIP() << "missing capability: " << reason;
    }
    if (backend() == "mpi" && !program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
  }

  static std::string framework() { return std::get<0>(GetParam()); }
  static std::string backend() { return std::get<1>(GetParam()); }

  // The record of the run of k ranks, all of which have told the weights that it holds.
  static Json record_of(const std::string& name, int k) {
    const fs::path run = *folder_ / "home/runs" / (name + "-" + std::to_string(k));
    const Json record = read_json_file(run / "run.json");
    EXPECT_EQ(record["state"], "finished") << record["failure"];
    EXPECT_EQ(record["framework"], framework());
    EXPECT_EQ(record["effective"]["name"], framework());
    EXPECT_EQ(record["throughput"]["samples"], 3 * k * 8);
    std::vector<Json> told;
    for (int rank = 0; rank < k; ++rank) {
      for (const Json& event : record::read_spool(run, 1, rank).events) {
        if (event["event"] == "end") told.push_back(event["weights_sha256"]);
      }
    }
    EXPECT_EQ(told, std::vector<Json>(static_cast<size_t>(k), record["weights_sha256"]));
    return record;
  }

  static Json train(const std::string& what, const std::string& backend, const std::vector<std::string>& more = {},
                    int k = 2) {
    const std::string name = framework() + "-" + backend + "-" + what;
    std::vector<std::string> words = {"run", name, std::to_string(k), "--framework", framework(), "--backend", backend};
    for (const char* word : {"--task=1a", "--set=model.depth=8", "--set=batch_size=8", "--set=optimizer.by_layer=true",
                             "--data=made-images", "--synthetic", "--set=data.mean=[0.5]", "--set=data.stddev=[0.25]",
                             "--max-steps=3", "--threads-per-worker=1", "--local"}) {
      words.emplace_back(word);
    }
    words.insert(words.end(), more.begin(), more.end());
    const ProcessOutput done = test::mlbench(*folder_, std::move(words));
    EXPECT_EQ(done.end.code, 0) << done.standard_output << done.standard_error;
    return record_of(name, k);
  }

  // The weights that the framework gives over Gloo, as the others are to be: computed once.
  static std::string reference() {
    std::string& weights = references_[framework()];
    if (weights.empty()) {
      weights = train("reference", "gloo")["weights_sha256"];
      EXPECT_NE(train("alone", "gloo", {}, 1)["weights_sha256"], weights) << "the other rank's gradients are in them";
    }
    return weights;
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static std::map<std::string, std::string> references_;
};

std::unique_ptr<TemporaryFolder> Frameworks::folder_;
std::map<std::string, std::string> Frameworks::references_;

INSTANTIATE_TEST_SUITE_P(OverBackEnds, Frameworks,
                         testing::Combine(testing::Values("torch", "native", "tensorflow"),
                                          testing::Values("gloo", "mpi", "shm")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

// Two numbers have one sum, whichever library adds them, and whenever.
TEST_P(Frameworks, TwoRanksGiveTheSameWeightsWithOverlapAndWithout) {
  const Json plain = train("plain", backend());
  EXPECT_EQ(plain["effective"]["overlap"], false);
  EXPECT_EQ(plain["weights_sha256"], reference());

  const Json overlapped = train("overlap", backend(), {"--overlap"});
  EXPECT_EQ(overlapped["effective"]["overlap"], true);
  EXPECT_THAT(overlapped["exchange"]["hidden_s"], Contains(Gt(0)))
      << "nothing travelled before the backward pass ended";
  EXPECT_EQ(overlapped["weights_sha256"], plain["weights_sha256"]);
}

}  // namespace
}  // namespace mlbench
