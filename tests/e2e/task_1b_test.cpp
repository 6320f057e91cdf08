// Needs <cstdio> and <cstdlib>.
#include "mlbench/image/images_test.h"

// Task 1b by `mlbench run`, and images in an object store: real ranks, on made JPEG files.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <thread>

#include "mlbench/base/json.h"
#include "mlbench/image/index/tar_test.h"
#include "mlbench/objects/fake_store_test.h"
#include "tests/support/processes.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kData = "tiny-imagenet-10-tar";
constexpr int kClasses = 10, kOfAShard = 250;
constexpr image::Size kSize{64, 64};

// Calls put(name, content) with the shards of the data set: images of every kind.
template <typename Put>
void make_shards(const Put& put) {
  std::vector<std::string> images;
  for (const image::test::JpegKind& kind : image::test::jpeg_kinds()) {
    images.push_back(image::test::encode_jpeg(kind, kSize, image::test::pattern(kSize, kind.components), 20));
  }
  for (const auto& [split, samples] : {std::pair{"train", 5000}, {"val", 500}}) {
    for (int begin = 0; begin < samples; begin += kOfAShard) {
      std::vector<image::FileInTar> members;
      for (int number = begin; number < begin + kOfAShard; ++number) {
        members.push_back({fmt::format("{:04}.jpg", number), images[static_cast<size_t>(number) % images.size()]});
        members.push_back({fmt::format("{:04}.cls", number), std::to_string(number % kClasses)});
      }
      put(fmt::format("{}/{}/{}-{:04}.tar", kData, split, split, begin), image::tar_of(members));
    }
  }
}

class MadeImages : public ::testing::Test {
 protected:
  ProcessOutput run(const std::string& name, const std::string& data_dir, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"run",    name,     "2",   "-c",         "1",     "--framework",
                                          "native", "--data", kData, "--data-dir", data_dir};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::mlbench(folder_, std::move(arguments));
  }
  fs::path run_folder(const std::string& name) const { return folder_ / "home/runs" / (name + "-2"); }

  static fs::path sources() { return environment_variable("MLBENCH_TEST_SOURCE_DIR").value(); }

  TemporaryFolder folder_;
};

TEST_F(MadeImages, Task1bTrainsAndEvaluatesFromShards) {
  make_shards([&](const std::string& name, const std::string& content) {
    const fs::path file = folder_ / "data" / name;
    fs::create_directories(file.parent_path());
    write_file_atomically(file, content);
  });
  const ProcessOutput output =
      run("b", (folder_ / "data").string(), {"--task", "1b-resnet50", "--variant", "b32", "--max-steps", "2"});
  ASSERT_EQ(output.end.code, 0) << output.standard_output << output.standard_error;
  const Json record = read_json_file(run_folder("b") / "run.json");
  EXPECT_THAT(read_file(sources() / "tasks/official_hashes.txt"),
              HasSubstr(record["task_hash"].get<std::string>() + " 1b-resnet50 - b32\n"));
  EXPECT_EQ(record["division"], "open") << "images of other size, and fewer classes";
  EXPECT_EQ(record["data"]["samples"], (Json{{"train", 5000}, {"test", 500}}));
  EXPECT_EQ(record["throughput"]["samples"], 2 * 2 * 32);
  const Json& storage = record["storage"];
  EXPECT_EQ(storage["endpoint"], nullptr);
  EXPECT_EQ(storage["objects"], nullptr);
  EXPECT_TRUE(storage["data"].is_string());
  ASSERT_EQ(record["waited_for_data_s"].size(), 2U);
  for (const Json& waited : record["waited_for_data_s"]) EXPECT_GT(waited.get<double>(), 0);
  ASSERT_EQ(record["evaluations"].size(), 1U);
  const Json& evaluation = record["evaluations"][0];
  EXPECT_EQ(evaluation["split"], "test");
  EXPECT_EQ(evaluation["step"], 2);
  for (const char* metric : {"Prec@1", "Prec@5", "loss"}) EXPECT_TRUE(evaluation["metrics"][metric].is_number());
  EXPECT_TRUE(record["weights_sha256"].is_string());

  ProcessOptions options;
  options.arguments = {environment_variable("MLBENCH_TEST_PYTHON").value(), (sources() / "tools/rederive.py").string(),
                       run_folder("b").string()};
  const ProcessOutput derived = run_process(options, test::kPatience);
  EXPECT_EQ(derived.end.code, 0) << derived.standard_output << derived.standard_error;
}

// ---- how steps are fed ---------------------------------------------------------------------------------------------

// An emulated accelerator takes batches of 125 images per worker: 20 an epoch.
constexpr int kBatches = 20, kOfABatch = 125;

class FedSteps : public MadeImages {
 protected:
  // The record of two epochs with so long steps.
  Json train(const std::string& name, const std::string& data_dir, const std::string& step) const {
    const ProcessOutput output = run(
        name, data_dir,
        {"--task", (sources() / "bench/tasks/tiny-imagenet.toml").string(), "--set", "model.name=resnet-cifar", "--set",
         fmt::format("global_batch={}", 2 * kOfABatch), "--compute", "emulated=" + step, "--max-epochs", "2"});
    EXPECT_EQ(output.end.code, 0) << output.standard_output << output.standard_error;
    return read_json_file(run_folder(name) / "run.json");
  }
  void write_shards() const {
    make_shards([&](const std::string& name, const std::string& content) {
      const fs::path file = folder_ / "data" / name;
      fs::create_directories(file.parent_path());
      write_file_atomically(file, content);
    });
  }
};

TEST_F(FedSteps, WaitWhereImagesAreDecodedTooSlowlyAndNeverElse) {
  write_shards();
  const Json fed = train("fed", (folder_ / "data").string(), "300ms");
  ASSERT_EQ(fed["epochs"].size(), 2U);
  const Json &first = fed["epochs"][0], &second = fed["epochs"][1];
  EXPECT_EQ(first["ring"]["takes"], 2 * kBatches);
  EXPECT_EQ(first["ring"]["waits"], 2) << "each rank waits for the first batch";
  EXPECT_EQ(second["ring"]["waits"], 0);
  EXPECT_GE(second["ring"]["min_fill"], 1);
  EXPECT_GT(second["ring"]["mean_fill"], 2);
  EXPECT_GT(second["accelerator_utilisation"], 0.95);
  EXPECT_EQ(fed["ring"]["takes"], 2 * 2 * kBatches);
  EXPECT_EQ(fed["ring"]["waits"], 2);
  EXPECT_FALSE(second.contains("object_bytes"));

  const Json hungry = train("hungry", (folder_ / "data").string(), "0.01ms");
  // How often depends on what the exchange takes, in which rings fill again.
  EXPECT_GT(hungry["epochs"][1]["ring"]["waits"], 0) << "of 40";
  EXPECT_EQ(hungry["ring"]["min_fill"], 0);
  const ProcessOutput shown = test::mlbench(folder_, {"status", "hungry-2"});
  EXPECT_THAT(shown.standard_output, HasSubstr("How steps were fed, by epoch"));
  EXPECT_THAT(shown.standard_output, HasSubstr("3 batches; empty for "));
}

TEST_F(FedSteps, TellBytesOfStoreAndCacheAndTheCostOfChecksums) {
  objects::FakeStore store;
  store.options();  // sets the environment
  setenv("AWS_ENDPOINT_URL_S3", store.endpoint().c_str(), 1);
  make_shards([&](const std::string& name, std::string content) { store.put("data/" + name, std::move(content)); });
  const Json cold = train("cold", "s3://bucket/data", "0.01ms");
  // Batches are read ahead, so that an epoch may have some bytes of its neighbour.
  const auto bytes_of = [](const Json& epoch, const char* member) { return epoch[member].get<int64_t>(); };
  const int64_t read = bytes_of(cold["epochs"][0], "object_bytes") + bytes_of(cold["epochs"][1], "object_bytes");
  const Json checks = cold["storage"]["checks"];
  EXPECT_GT(bytes_of(cold["epochs"][0], "object_bytes"), 0);
  EXPECT_EQ(cold["epochs"][0]["object_cache_bytes"], 0);
  EXPECT_GT(checks["images"]["seconds"], 0.0);
  EXPECT_FALSE(checks.contains("cache_blocks"));
  EXPECT_FALSE(checks.contains("records")) << "tar files have none";
  EXPECT_LE(read, checks["images"]["bytes"]) << "each image is compared";
  EXPECT_GE(cold["storage"]["bytes"], checks["images"]["bytes"]);

  setenv("MLBENCH_OBJECT_CACHE", (folder_ / "objects").c_str(), 1);
  for (const char* name : {"filled", "warm"}) {
    const Json record = train(name, "s3://bucket/data", "0.01ms");
    const Json& second = record["epochs"][1];
    EXPECT_EQ(second["object_bytes"], 0) << name;
    EXPECT_GT(bytes_of(second, "object_cache_bytes"), 0) << name;
    EXPECT_GE(record["storage"]["cache_bytes"], second["object_cache_bytes"]);
    EXPECT_GT(record["storage"]["checks"]["cache_blocks"]["bytes"], 0);
  }
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "MLBENCH_OBJECT_CACHE"}) unsetenv(name);
}

// ---- secrets --------------------------------------------------------------------------------------------------------

constexpr const char* kToken = "FwoGZXIvYXdzEB/+a==";
// Parts of access key, secret key and session token that no encoding changes.
constexpr const char* kSecrets[] = {"AKIDEXAMPLE", "K7MDENG", "FwoGZXIvYXdzEB"};

bool holds_a_secret(const std::string& text) {
  return std::ranges::any_of(kSecrets, [&](const char* secret) { return text.find(secret) != std::string::npos; });
}

// Looks at the command lines of all processes until it is destroyed.
class CommandLines {
 public:
  ~CommandLines() { stop(); }
  void stop() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // After stop().
  const std::set<std::string>& with_secrets() const { return with_secrets_; }
  bool saw_workers() const { return saw_workers_; }

 private:
  void look() {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const std::string words = test::read_proc(entry.path() / "cmdline");
      saw_workers_ |= words.find("mlbench-worker") != std::string::npos;
      if (holds_a_secret(words)) with_secrets_.insert(words);
    }
  }

  std::atomic<bool> ended_{false};
  bool saw_workers_ = false;
  std::set<std::string> with_secrets_;
  std::thread thread_{[this] {
    while (!ended_) {
      look();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }};
};

class Credentials : public MadeImages {
 protected:
  Credentials() {
    store_.session_token = kToken;
    store_.options();  // sets the environment
    setenv("AWS_ENDPOINT_URL_S3", store_.endpoint().c_str(), 1);
    make_shards([&](const std::string& name, std::string content) { store_.put("data/" + name, std::move(content)); });
  }
  ~Credentials() override {
    for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"}) unsetenv(name);
  }

  // A run of three steps and an evaluation, which leaves no secret behind.
  void train(const std::string& name, int code, const std::string& says) {
    CommandLines lines;
    const ProcessOutput output =
        run(name, "s3://bucket/data",
            {"--task", (sources() / "bench/tasks/tiny-imagenet.toml").string(), "--set", "model.name=resnet-cifar",
             "--set", "batch_size=8", "--set", "global_batch=16", "--max-steps", "3"});
    lines.stop();
    const std::string said = output.standard_output + output.standard_error;
    EXPECT_EQ(output.end.code, code) << said;
    EXPECT_THAT(said, HasSubstr(says));
    EXPECT_FALSE(holds_a_secret(said)) << said;
    EXPECT_TRUE(lines.saw_workers());
    EXPECT_THAT(lines.with_secrets(), IsEmpty());
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file() || entry.path() == profile_) continue;
      files.push_back(entry.path());
      EXPECT_FALSE(holds_a_secret(read_file(entry.path()))) << entry.path();
    }
    for (const char* file : {"run.json", "spec.json", "logs/rank-0.seg-1.err", "spool/rank-1.seg-1.events"}) {
      EXPECT_THAT(files, ::testing::Contains(run_folder(name) / file));
    }
  }
  Json storage(const std::string& name) const { return read_json_file(run_folder(name) / "run.json")["storage"]; }

  objects::FakeStore store_;
  const fs::path profile_ = folder_ / "credentials";
};

TEST_F(Credentials, OfTheEnvironmentAreNowhere) {
  train("good", 0, "good-2");
  EXPECT_EQ(storage("good")["endpoint"], store_.endpoint());
  EXPECT_EQ(storage("good")["objects"], 22);

  // The store repeats them where it refuses.
  store_.faults = [](int, const net::http::Request& request) {
    if (request.header("Range").empty()) return objects::FakeStore::Fault();
    return objects::FakeStore::Fault{
        .status = 403,
        .body = fmt::format("<Error><Code>AccessDenied</Code><Message>{} {} {}</Message></Error>",
                            objects::FakeStore::kAccess, objects::FakeStore::kSecret, kToken)};
  };
  train("refused", 5, "403 AccessDenied: *** *** ***");
}

TEST_F(Credentials, OfAProfileAreNowhere) {
  write_file_atomically(profile_, fmt::format("[lab]\naws_access_key_id = {}\naws_secret_access_key = {}\n"
                                              "aws_session_token = {}\n",
                                              objects::FakeStore::kAccess, objects::FakeStore::kSecret, kToken));
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}) unsetenv(name);
  setenv("AWS_SHARED_CREDENTIALS_FILE", profile_.c_str(), 1);
  setenv("AWS_PROFILE", "lab", 1);
  train("lab", 0, "lab-2");
  EXPECT_GT(storage("lab")["requests"].get<int64_t>(), 500) << "each image of the evaluation is one";
}

}  // namespace
}  // namespace mlbench
