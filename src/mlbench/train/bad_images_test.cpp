#include "mlbench/train/bad_images.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <future>
#include <map>

#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/test_error.h"
#include "mlbench/data/shard.h"
#include "mlbench/data/transform.h"
#include "mlbench/image/image.h"
#include "mlbench/train/toy_test.h"

namespace mlbench::train::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// An image of three bytes: its value, its label, and whether it can be decoded.
std::string image_of(int64_t value, bool good = true) {
  return {static_cast<char>(value), static_cast<char>(value * 7 % 5), good ? '+' : '-'};
}

// Images of a split, one after the other in a file.
class Shard {
 public:
  Shard(const std::string& name, const std::vector<std::string>& images) {
    std::string file;
    for (const std::string& image : images) {
      shards_.push_back(0);
      offsets_.push_back(std::ssize(file));
      lengths_.push_back(std::ssize(image));
      labels_.push_back(image[1]);
      digests_ += sha256_hex(image);
      keys_ += std::to_string(shards_.size() - 1);
      key_offsets_.push_back(std::ssize(keys_));
      file += image;
    }
    write_file_atomically(folder_ / (name + ".tar"), file);
    const auto column = [](const char* title, const std::vector<int64_t>& values) {
      return dataset::FixedColumn{title, {}, const_view_of(std::span<const int64_t>(values))};
    };
    split_ = {name, std::ssize(images), {}, {folder_ / (name + ".tar")}};
    split_.columns = {column("shard", shards_),
                      column("offset", offsets_),
                      column("length", lengths_),
                      column("labels", labels_),
                      dataset::BytesColumn{"key", std::as_bytes(std::span(keys_)), key_offsets_},
                      dataset::FixedColumn{"sha256", {64}, {digests_.data(), std::ssize(digests_), DType::kUInt8}}};
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  const dataset::CachedSplit& split() const { return split_; }

 private:
  TemporaryFolder folder_;
  std::vector<int64_t> shards_, offsets_, lengths_, labels_, key_offsets_ = {0};
  std::string keys_, digests_;
  dataset::CachedSplit split_;
};

class DecodedValue final : public data::Transform {
 public:
  const std::vector<int64_t>& output_shape() const override { return shape_; }
  void apply(const data::Sample& sample, int64_t, std::span<float> out) const override {
    const auto* const bytes = static_cast<const char*>(sample.values.data);
    if (bytes[2] != '+') throw image::BadImage({{}, sample.file}, "no plus");
    out[0] = static_cast<float>(bytes[0]) / 8;
  }

 private:
  std::vector<int64_t> shape_ = {1};
};

// The loss is (w0 + w1 x - label)^2 / 2.
class Line final : public ToyFramework {
 public:
  Line() : ToyFramework(2) {}

 private:
  void compute(const BatchView& batch, framework::Mode) override {
    const auto values = tensor_of<float>(batch, "features");
    const auto labels = tensor_of<int64_t>(batch, "labels");
    for (size_t i = 0; i < labels.size(); ++i) {
      const double slope = add_square(w(0) + w(1) * values[i] - static_cast<double>(labels[i]));
      add_slope(0, slope);
      add_slope(1, slope * values[i]);
    }
  }
};

std::vector<std::string> good_images(int64_t first, int64_t count) {
  std::vector<std::string> images;
  for (int64_t i = 0; i < count; ++i) images.push_back(image_of(first + i));
  return images;
}

// Twelve images to train on and four to evaluate, in global batches of four, for three epochs.
class Images {
 public:
  // With images that cannot be decoded, or with copies of those that stand in for them.
  explicit Images(bool mended = false)
      : train_("train", images({{3, 5}, {4, 5}, {11, 0}}, 0, 12, mended)),
        test_("test", images({{1, 2}}, 20, 4, mended)),
        run_([](int) { return std::make_unique<Line>(); }, {train_.split(), test_.split()}) {
    run_.run.max_bad = 4;
    run_.run.task.task.loss = "squared_error";
    run_.run.task.task.optimizer.lr = 0.05;
    run_.make_workload = [this](int64_t workers) {
      const auto make_eval = [this](const data::EvalShard& shard) {
        return data::make_sample_eval_loader(test_.split(), std::make_unique<DecodedValue>(), shard, 2);
      };
      return data::make_planned_workload(data::make_sample_source(train_.split(), std::make_unique<DecodedValue>()),
                                         data::make_sample_plan(12, {.workers = workers, .batch_size = 4 / workers}),
                                         make_eval);
    };
  }
  ToyRun& run() { return run_; }

  // "split number stand-in name reason" of each event, in their order; of all ranks.
  std::vector<std::string> told(int64_t segment = 1) const {
    std::vector<std::string> all;
    for (int64_t rank = 0; rank < run_.run.workers; ++rank) {
      for (const Json& event : record::read_spool(run_.run.run_dir, segment, rank).events) {
        if (event.at("event") != "bad_image") continue;
        all.push_back(event.at("split").get<std::string>() + " " + event.at("sample").dump() + " " +
                      event.at("stand_in").dump() + " " + event.at("image").get<std::string>() + " " +
                      event.at("message").get<std::string>());
      }
    }
    return all;
  }

 private:
  static std::vector<std::string> images(const std::map<int64_t, int64_t>& stand_ins, int64_t first, int64_t count,
                                         bool mended) {
    std::vector<std::string> all = good_images(first, count);
    for (const auto& [bad, stand_in] : stand_ins) {
      all[static_cast<size_t>(bad)] = mended ? image_of(first + stand_in) : image_of(first + bad, false);
    }
    return all;
  }

  Shard train_, test_;
  ToyRun run_;
};

const std::vector<std::string> kBad = {"test 1 2 test.tar/1 no plus", "train 11 0 train.tar/11 no plus",
                                       "train 3 5 train.tar/3 no plus", "train 4 5 train.tar/4 no plus"};

std::vector<std::string> distinct(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

TEST(BadImagesInTraining, WeightsAreThoseOfDataWithTheStandIns) {
  for (const int64_t workers : {1, 2}) {
    SCOPED_TRACE(workers);
    Images bad, mended(true);
    bad.run().run.workers = mended.run().run.workers = workers;
    const ToyOutcome with_bad = bad.run().start(), expected = mended.run().start();
    EXPECT_EQ(with_bad.parameters, expected.parameters);
    EXPECT_EQ(with_bad.weights_sha256, expected.weights_sha256);
    EXPECT_EQ(with_bad.evaluations, expected.evaluations);
    EXPECT_EQ(with_bad.epoch_losses, expected.epoch_losses);
    EXPECT_EQ(distinct(bad.told()), kBad);
    EXPECT_EQ(mended.told(), std::vector<std::string>());
  }
}

TEST(BadImagesInTraining, ARankSaysEachOnce) {
  Images images;
  images.run().start();
  EXPECT_EQ(images.told().size(), kBad.size()) << "in three epochs and evaluations";
}

// The first epoch has the order 10 1 7 4, 5 8 0 6, 9 3 11 2. So of two ranks, the first meets 3 (and 4, when it looks
// for a stand-in), the other 4 and 11. Neither alone meets three. The first evaluates image 1 of the other split.
TEST(BadImagesInTraining, OneTooManyEndsTheRun) {
  EXPECT_THAT(data::epoch_permutation(12, 42, 0), ElementsAre(10, 1, 7, 4, 5, 8, 0, 6, 9, 3, 11, 2));
  for (const int64_t workers : {1, 2}) {
    SCOPED_TRACE(workers);
    Images images;
    images.run().run.workers = workers;
    images.run().run.max_bad = 2;
    const std::string error = error_of([&] { images.run().start(); });
    EXPECT_THAT(error, AllOf(StartsWith("3 images cannot be decoded, at most 2 expected: "),
                             HasSubstr("sample 3 of split 'train' (train.tar/3)"),
                             HasSubstr("'mlbench data index --check' names all"), HasSubstr("--max-bad 3 or more")));
    EXPECT_EQ(distinct(images.told()).size(), 3U) << "the last one, too, is on record";
    images.run().run.max_bad = 3;
    EXPECT_THAT(error_of([&] { images.run().start(); }),
                AllOf(StartsWith("4 images cannot be decoded, at most 3 expected: "), HasSubstr("sample 11"),
                      testing::Not(HasSubstr("test.tar"))))
        << "the evaluation finds it; three are named";
  }
}

TEST(BadImagesInTraining, NoneIsAllowedWhereNobodySaysSo) {
  Images images;
  images.run().run.max_bad = 0;
  EXPECT_THAT(error_of([&] { images.run().start(); }),
              AllOf(StartsWith("sample "), HasSubstr("of split 'train': "), HasSubstr("train.tar/"),
                    HasSubstr(": no plus: mend or remove what cannot be decoded, or allow it by --max-bad 1")));
}

TEST(BadImagesInTraining, AResumedRunGoesOnCounting) {
  for (const int64_t workers : {1, 2}) {
    SCOPED_TRACE(workers);
    Images whole, parts;
    whole.run().run.workers = parts.run().run.workers = workers;
    const ToyOutcome expected = whole.run().start();
    parts.run().run.checkpoint.every_steps = 4;
    parts.run().cut_off = {.step = 5};
    EXPECT_THROW(parts.run().start(), std::exception);
    parts.run().cut_off = {};
    EXPECT_EQ(parts.run().start(4).weights_sha256, expected.weights_sha256);
    EXPECT_EQ(parts.told(2), std::vector<std::string>()) << "the checkpoint after the first epoch has all four";
  }
}

// ---- counting -------------------------------------------------------------------------------------------------------

class Counting : public testing::Test {
 protected:
  dataset::PreparedDataset data(int64_t training_images = 12) {
    train_ = std::make_unique<Shard>("train", good_images(0, training_images));
    dataset::DatasetDescription description;
    description.fingerprint = "known";
    return {description, nullptr, {train_->split(), test_.split()}, "made", ""};
  }
  static data::BadSample bad(const char* split, int64_t number) { return {split, number, number + 1, "no plus"}; }

  std::unique_ptr<Shard> train_;
  const Shard test_{"test", good_images(20, 4)};
};

TEST_F(Counting, EachImageOfEachSplitCountsOnce) {
  const dataset::PreparedDataset prepared = data();
  BadImages images(prepared, 2);
  EXPECT_EQ(images.most(), 2);
  EXPECT_TRUE(images.add(bad("train", 3)));
  EXPECT_FALSE(images.add(bad("train", 3)));
  EXPECT_TRUE(images.add(bad("test", 3)));
  EXPECT_EQ(images.count(), 2);
  EXPECT_EQ(images.name_of(bad("test", 3)), "test.tar/3");
  images.check_limit();
  EXPECT_TRUE(images.add(bad("train", 0)));
  EXPECT_EQ(
      error_of([&] { images.check_limit(); }),
      "3 images cannot be decoded, at most 2 expected: sample 0 of split 'train' (train.tar/0), sample 3 of split "
      "'train' (train.tar/3), sample 3 of split 'test' (test.tar/3); mend or remove them ('mlbench data index "
      "--check' names all), or allow them by --max-bad 3 or more");
}

// Calls the function on a thread for each rank.
std::vector<std::string> on_ranks(int size, const std::function<void(comm::Communicator&)>& work) {
  auto comms = comm::make_in_process_group(size, std::chrono::seconds(60));
  std::vector<std::future<std::string>> ranks;
  for (auto& comm : comms) {
    ranks.push_back(std::async(std::launch::async, [&] { return error_of([&] { work(*comm); }); }));
  }
  std::vector<std::string> errors;
  for (auto& rank : ranks) errors.push_back(rank.get());
  return errors;
}

TEST_F(Counting, RanksCountTogether) {
  const dataset::PreparedDataset prepared = data();
  const auto errors = on_ranks(3, [&](comm::Communicator& comm) {
    BadImages images(prepared, 3);
    if (comm.rank() < 2) images.add(bad("train", 1));
    if (comm.rank() == 1) images.add(bad("test", 2));
    images.share(comm);
    EXPECT_EQ(images.count(), 2);
    EXPECT_FALSE(images.add(bad("test", 2))) << "another rank has met it";
    images.share(comm);
    EXPECT_EQ(images.count(), 2);
    if (comm.rank() != 1) images.add(bad("train", 4 + comm.rank()));  // each rank alone knows three
    images.share(comm);
  });
  ASSERT_EQ(errors.size(), 3U);
  for (const std::string& error : errors) {
    EXPECT_EQ(error, errors[0]);
    EXPECT_THAT(error, StartsWith("4 images cannot be decoded, at most 3 expected: sample 1 of split 'train' "
                                  "(train.tar/1), sample 4 of split 'train' (train.tar/4), sample 6 of split 'train' "
                                  "(train.tar/6), ...; mend"));
  }
}

TEST_F(Counting, ACheckpointHasThemAsFarAsTheDataHaveThem) {
  const dataset::PreparedDataset prepared = data();
  BadImages images(prepared, 5);
  NamedState state;
  images.export_state(state);
  EXPECT_TRUE(state.tensors.empty()) << "as before there was a limit";
  for (const int64_t number : {11, 2}) images.add(bad("train", number));
  images.add(bad("test", 0));
  images.export_state(state);
  BadImages same(prepared, 5);
  same.import_state(state);
  EXPECT_EQ(same.count(), 3);
  EXPECT_FALSE(same.add(bad("train", 11)));
  const dataset::PreparedDataset shorter = data(11);
  BadImages other(shorter, 5);
  other.import_state(state);
  EXPECT_EQ(other.count(), 2) << "image 11 is gone";
  other.import_state({});
  EXPECT_EQ(other.count(), 2);
}

TEST_F(Counting, DataThatAreNotEncodedHaveNone) {
  std::vector<dataset::CachedSplit> splits(2);
  splits[0].name = "train";
  splits[1].name = "test";
  dataset::DatasetDescription description;
  description.fingerprint = "known";
  const dataset::PreparedDataset prepared(description, nullptr, splits, "made", "");
  EXPECT_EQ(BadImages(prepared, 5).most(), 0);
}

}  // namespace
}  // namespace mlbench::train::test
