#include "mlbench/report/archive/tensorboard.h"

#include <gmock/gmock.h>

#include <cstring>

#include "mlbench/report/tensorboard_event.pb.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

// Reads the events of a file. A test below compares the checksums with those that TensorBoard itself writes.
std::vector<tensorboard::Event> read_events(const std::string& file) {
  std::vector<tensorboard::Event> events;
  for (size_t at = 0; at < file.size();) {
    uint64_t length = 0;
    std::memcpy(&length, file.data() + at, sizeof length);
    EXPECT_LE(at + 16 + length, file.size());
    EXPECT_TRUE(events.emplace_back().ParseFromString(file.substr(at + 12, length)));
    at += 16 + length;
  }
  return events;
}

class TensorBoard : public testing::Test {
 protected:
  void SetUp() override {
    start_spool(run_.path(), 1, 1);
    append_step(run_.path(), 1, 1, make_step(0, 20, 0, 2.0, 1'000'000, 20'000'000));
    append_step(run_.path(), 1, 1, make_step(20, 20, 0, 1.0, 1'000'000, 1'040'000'000));
    append_event(run_.path(), 1, 1,
                 {{"event", "evaluation"},
                  {"split", "test"},
                  {"step", 30},
                  {"end_ns", 500'000'000},
                  {"metrics", {{"Prec@1", 85.25}}}});
  }
  TemporaryFolder run_;
  RecordJson record_ = make_record("r-2", 2, 40, 5400, true);
};

TEST_F(TensorBoard, FilesAreNamedAsTensorBoardFindsThem) {
  EXPECT_EQ(tensorboard_path(record_, 1), "rank-1/events.out.tfevents.1769860800.r-2");
  record_["name"] = "../../etc/x";
  EXPECT_EQ(tensorboard_path(record_, 0), "rank-0/events.out.tfevents.1769860800.x");
}

TEST_F(TensorBoard, BeginAsEveryEventFile) {
  const std::string file = tensorboard_events(run_.path(), record_, 1);
  // Length 24, its checksum, the tag of wall_time: the first 13 bytes of a file that TensorBoard writes.
  EXPECT_EQ(file.substr(0, 13), std::string("\x18\0\0\0\0\0\0\0\xa3\x7fK\"\t", 13));
  EXPECT_EQ(read_events(file)[0].file_version(), "brain.Event:2");
}

TEST_F(TensorBoard, HaveEveryPointInTheOrderOfSteps) {
  const std::vector<tensorboard::Event> events = read_events(tensorboard_events(run_.path(), record_, 1));
  std::vector<std::pair<int64_t, float>> losses;
  double before = 0;
  for (const tensorboard::Event& event : events) {
    EXPECT_GE(event.wall_time(), before);
    before = event.wall_time();
    for (const auto& value : event.summary().value()) {
      if (value.tag() == "train_loss") losses.emplace_back(event.step(), value.simple_value());
      if (value.tag() == "val_global_Prec@1") {
        EXPECT_EQ(value.simple_value(), 85.25F);
        EXPECT_EQ(event.step(), 30);
        EXPECT_EQ(event.wall_time(), 1769860800.5);
      }
    }
  }
  EXPECT_THAT(losses, testing::ElementsAre(std::pair(19, 2.0F), std::pair(39, 1.0F)));
  // Two records of loss, rate, speed, seconds and bytes of a step and seconds of its forward pass.
  EXPECT_EQ(events.size(), 1U + 2 * 6 + 1);
}

// The second segment's wall clock is an hour behind.
TEST_F(TensorBoard, StayInOrderWhereAClockWentBack) {
  start_spool(run_.path(), 2, 1, -3'600'000'000);
  append_step(run_.path(), 2, 1, make_step(40, 20, 1, 0.5, 1'000'000, 20'000'000));
  record_["segments"] = Json::array({Json::object(), Json::object()});
  std::vector<int64_t> steps;
  for (const tensorboard::Event& event : read_events(tensorboard_events(run_.path(), record_, 1))) {
    for (const auto& value : event.summary().value()) {
      if (value.tag() == "train_loss") steps.push_back(event.step());
    }
  }
  EXPECT_THAT(steps, testing::ElementsAre(19, 39, 59));
}

// TensorBoard leaves out a value of which nothing is written.
TEST_F(TensorBoard, SayThatAValueIsZero) {
  append_step(run_.path(), 1, 1, make_step(40, 1, 0, 0.0, 1'000'000, 1'050'000'000));
  bool said = false;
  for (const tensorboard::Event& event : read_events(tensorboard_events(run_.path(), record_, 1))) {
    for (const auto& value : event.summary().value()) {
      EXPECT_EQ(value.what_case(), tensorboard::Summary::Value::kSimpleValue);
      said = said || (value.tag() == "train_loss" && event.step() == 40);
    }
  }
  EXPECT_TRUE(said);
}

TEST_F(TensorBoard, OfARankWithoutRecordsIsTheVersionAlone) {
  EXPECT_EQ(read_events(tensorboard_events(run_.path(), record_, 0)).size(), 1U);
}

}  // namespace
}  // namespace mlbench::report
