#include "mlbench/record/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/test_spool.h"

namespace mlbench::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// Steps from `first`, whose exchanges took so long.
StepRecord exchanges(uint64_t first, const std::vector<int64_t>& ns) {
  StepRecord record = step_record(first, ns.size(), 1000);
  std::copy(ns.begin(), ns.end(), record.exchange_ns.begin());
  return record;
}

StepRecord exchanges(uint64_t first, const std::vector<int64_t>& ns, const std::vector<int64_t>& hidden_ns) {
  StepRecord record = exchanges(first, ns);
  std::copy(hidden_ns.begin(), hidden_ns.end(), record.hidden_ns.begin());
  return record;
}

class Exchange : public testing::Test {
 protected:
  Exchange() {
    spec_.workers = 2;
    spec_.run_dir = folder_.path();
  }
  void spool(int64_t rank, const std::vector<StepRecord>& steps, int64_t segment = 1) {
    write_spool(folder_.path(), segment, rank, steps, {});
  }
  ExchangeTimes derive(int64_t segments = 1) const { return derive_exchange(folder_.path(), spec_.workers, segments); }
  // `exchange` of the record.
  std::optional<record::Exchange> told(std::vector<std::string>* notes = nullptr, std::optional<bool> overlap = false,
                                       std::optional<int64_t> buckets = 1) {
    Effective effective;
    effective.one_collective = one_collective_;
    effective.overlap = overlap;
    effective.buckets = buckets;
    return exchange_of(spec_, 1, effective, notes);
  }

  TemporaryFolder folder_;
  spec::RunSpec spec_;
  std::optional<bool> one_collective_;
};

// By hand: the shortest of each step is 10, 20, 5, 7.
TEST_F(Exchange, TheShortestIsTheTransferAndTheRestWaits) {
  spec_.workers = 3;
  spool(0, {exchanges(0, {10, 30, 5}), exchanges(3, {9})});
  spool(1, {exchanges(0, {12}), exchanges(1, {20, 5, 7})});
  spool(2, {exchanges(0, {11, 21, 105, 8})});
  const ExchangeTimes times = derive();
  EXPECT_EQ(times.transfer_ns, 42);
  EXPECT_THAT(times.wait_ns, ElementsAre(10 + 2, 2, 1 + 1 + 100 + 1));
  EXPECT_EQ(times.steps, 4);
  EXPECT_TRUE(times.all_steps);
}

// Only steps that both ranks have count: the last step of rank 0 is left out.
TEST_F(Exchange, WhatRanBesideTheComputationIsHiddenAndTheRestIsExposed) {
  spool(0, {exchanges(0, {10, 30, 5}, {4, 30, 5})});
  spool(1, {exchanges(0, {12, 20}, {0, 19})});
  const ExchangeTimes times = derive();
  EXPECT_THAT(times.hidden_ns, ElementsAre(34, 19));
  EXPECT_THAT(times.exposed_ns, ElementsAre(6, 13));
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(times.hidden_ns[rank] + times.exposed_ns[rank], times.wait_ns[rank] + times.transfer_ns);
  }
  EXPECT_THAT(told()->hidden_s, ElementsAre(34e-9, 19e-9));
  EXPECT_THAT(told()->exposed_s, ElementsAre(6e-9, 13e-9));
}

TEST_F(Exchange, SegmentsAddUp) {
  for (int64_t rank = 0; rank < 2; ++rank) {
    spool(rank, {exchanges(0, {10, 10 + 5 * rank})});
    spool(rank, {exchanges(1, {3 - rank})}, 2);
  }
  const ExchangeTimes times = derive(3);  // a third that has no files
  EXPECT_EQ(times.transfer_ns, 22);
  EXPECT_THAT(times.wait_ns, ElementsAre(1, 5));
  EXPECT_EQ(times.steps, 3);
}

TEST_F(Exchange, StepsThatARankLacksAreLeftOut) {
  spool(0, {exchanges(0, {10, 10, 10, 10})});
  spool(1, {exchanges(0, {8}), exchanges(2, {13})});
  const ExchangeTimes times = derive();
  EXPECT_EQ(times.transfer_ns, 18);
  EXPECT_THAT(times.wait_ns, ElementsAre(2, 3));
  EXPECT_EQ(times.steps, 2);
  EXPECT_FALSE(times.all_steps);

  std::vector<std::string> notes;
  const auto exchange = told(&notes).value();
  EXPECT_THAT(exchange.wait_s, ElementsAre(2e-9, 3e-9));
  EXPECT_THAT(exchange.transfer_s, ElementsAre(18e-9, 18e-9));
  EXPECT_THAT(exchange.exposed_s, ElementsAre(20e-9, 21e-9));
  EXPECT_THAT(exchange.hidden_s, ElementsAre(0.0, 0.0));
  EXPECT_TRUE(exchange.exact);
  EXPECT_EQ(exchange.steps, 2);
  EXPECT_THAT(notes, ElementsAre("wait and transfer are of the 2 steps that all ranks recorded"));
}

TEST_F(Exchange, IsExactForOneBlockingCollectivePerStep) {
  for (int64_t rank = 0; rank < 2; ++rank) spool(rank, {exchanges(0, {10})});
  EXPECT_TRUE(told()->exact);
  EXPECT_FALSE(told(nullptr, false, 2)->exact);
  EXPECT_FALSE(told(nullptr, true, 1)->exact);
  EXPECT_FALSE(told(nullptr, std::nullopt, std::nullopt)->exact);
  spec_.task.task.optimizer.options = {{"compression", "signs"}};
  EXPECT_FALSE(told()->exact);
}

// Programs that tell it know better than the settings: a coder may have one round, and gossip has no collective.
TEST_F(Exchange, IsExactWhereThePatternSaysSo) {
  for (int64_t rank = 0; rank < 2; ++rank) spool(rank, {exchanges(0, {10})});
  one_collective_ = false;
  EXPECT_FALSE(told()->exact);
  one_collective_ = true;
  spec_.task.task.optimizer.options = {{"compression", "top_k"}};
  EXPECT_TRUE(told()->exact);
}

TEST_F(Exchange, IsNotKnownWithoutASpoolOfEachRank) {
  spool(0, {exchanges(0, {10})});
  EXPECT_THAT([&] { derive(); }, ThrowsMessage<UserError>(HasSubstr("rank-1.seg-1.steps is lost")));
  std::vector<std::string> notes;
  EXPECT_FALSE(told(&notes));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("wait and transfer are not known: ")));

  std::ofstream(steps_path(folder_.path(), 1, 1)) << std::string(1000, 'x');
  EXPECT_THAT([&] { derive(); }, ThrowsMessage<UserError>(HasSubstr("not a spool")));
}

TEST_F(Exchange, OfNothingThereIsNone) {
  std::vector<std::string> notes;
  EXPECT_FALSE(told(&notes));
  spool(0, {exchanges(0, {10})});
  spool(1, {});
  EXPECT_FALSE(told(&notes)) << "no step that both recorded";
  spec_.workers = 1;
  EXPECT_FALSE(told(&notes));
  spec_.workers = 2;
  spool(1, {exchanges(0, {10})});
  spec_.workload = spec::Command{{"train.py"}};
  EXPECT_FALSE(told(&notes));
  EXPECT_THAT(notes, IsEmpty());
}

TEST_F(Exchange, SumsDoNotOverflow) {
  std::vector<StepRecord> steps;
  for (uint64_t i = 0; i < 400; ++i) steps.push_back(exchanges(i, {30'000'000'000'000'000}));  // a year each
  for (int64_t rank = 0; rank < 2; ++rank) spool(rank, steps);
  EXPECT_THAT([&] { derive(); }, ThrowsMessage<UserError>(HasSubstr("is damaged")));
}

}  // namespace
}  // namespace mlbench::record
