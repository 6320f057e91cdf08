#include "mlbench/supervise/progress.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/exec/placement.h"
#include "mlbench/record/record_fields.h"

namespace mlbench::supervise {
namespace {

record::RunProgress complete_progress() {
  record::RunProgress progress;
  progress.state = record::RunState::kFailed;
  progress.started_at = "2026-01-31T12:00:00.000000Z";
  progress.finished_at = "2026-01-31T12:01:00.000000Z";
  progress.segments.push_back({.index = 1,
                               .start_step = 0,
                               .started_at = progress.started_at,
                               .finished_at = "2026-01-31T12:00:30.000000Z",
                               .lost_s = 0,
                               .exit_codes = {0, std::nullopt, 137}});
  progress.segments.push_back({.index = 2,
                               .start_step = 40,
                               .started_at = "2026-01-31T12:00:40.000000Z",
                               .finished_at = "",
                               .lost_s = 10.25,
                               .exit_codes = {}});
  progress.failure = record::Failure{.kind = "rank_died",
                                     .rank = 2,
                                     .host = "node1",
                                     .operation = "all_reduce",
                                     .sequence = 12,
                                     .message = "rank 2 died",
                                     .log_tail = {"line 1", "line 2"}};
  progress.placement =
      Json::array({{{"rank", 0}, {"host", "node1"}, {"local_rank", 0}, {"cores", "0-1"}, {"gpu", nullptr}}});
  progress.allocation = {{"engine", "slurm"}, {"job", "12"}};
  progress.hosts = Json::array({{{"name", "node1"}}});
  progress.environment = {{"git_describe", "v1"}};
  progress.notes = {"waited 2.0 s for the cores"};
  progress.queue_s = 2.25;
  progress.wall_s = 50.5;
  progress.oversubscribed = true;
  progress.utilisation = {{"cpu", 0.75}, {"gpu", nullptr}};
  progress.energy = {{"joules", 12.5}, {"to_goal_joules", 4.0}, {"hosts", Json::array()}};
  return progress;
}

TEST(Progress, ComesBackFromDisk) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_progress(folder.path()));
  const record::RunProgress written = complete_progress();
  write_progress(folder.path(), written);
  const auto read = read_progress(folder.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json(*read), to_json(written));
  EXPECT_EQ(read->segments[0].exit_codes, written.segments[0].exit_codes);
  EXPECT_EQ(read->failure->log_tail, written.failure->log_tail);
  EXPECT_EQ(read->state, record::RunState::kFailed);
}

// The longest names and the largest numbers that 10,000 peers may say, and all that hosts may say of themselves.
TEST(Progress, WhatTenThousandRanksSayFits) {
  constexpr int kRanks = 10'000;
  record::RunProgress progress = complete_progress();
  std::vector<exec::Placement> placement;
  record::Energy energy;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::string host = fmt::format("n{:04}", rank);
    host.resize(peer_words::kHost.most_bytes, 'x');
    placement.push_back({.host = host,
                         .rank = rank,
                         .local_rank = static_cast<int>(peer_words::kRank.most),
                         .cores = {},
                         .gpu = static_cast<int>(peer_words::kGpu.most)});
    energy.hosts.push_back({host, "", 1e9 / 7});
  }
  const Json said = std::string(peer_words::kMostCaptures, 'x');
  progress.placement = exec::to_json(placement);
  progress.hosts = exec::hosts_of(placement, std::vector{exec::HostCapture{placement.front().host, {}, said}}, {});
  for (Json& host : progress.hosts) host.emplace("environment", Json::object());
  progress.energy = record::written(energy);
  for (record::Segment& segment : progress.segments) segment.exit_codes.assign(kRanks, 255);
  progress.failure->message.assign(peer_words::kMessage.most_bytes, 'x');
  progress.failure->operation = std::string(peer_words::kOperation.most_bytes, 'x');
  const TemporaryFolder folder;
  write_progress(folder.path(), progress);
  const auto read = read_progress(folder.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->hosts.size(), size_t{kRanks});
  EXPECT_EQ(read->placement.size(), size_t{kRanks});
}

// JSON's numbers include some that fit no integer.
TEST(Progress, NumbersThatAreNoIntegersAreDamage) {
  for (const char* place : {"/segments/0/index", "/segments/0/start_step", "/segments/0/exit_codes/0", "/failure/rank",
                            "/failure/sequence"}) {
    for (const Json& number : {Json(1e308), Json(0.5), Json(uint64_t{1} << 63), Json("1")}) {
      Json json = to_json(complete_progress());
      json[Json::json_pointer(place)] = number;
      EXPECT_THROW(progress_from_json(json), UserError) << place << " " << number;
    }
  }
}

TEST(Progress, EmptyOneComesBack) {
  EXPECT_EQ(to_json(progress_from_json(to_json(record::RunProgress()))), to_json(record::RunProgress()));
}

TEST(Progress, NamesWhatIsMissing) {
  const Json complete = to_json(complete_progress());
  for (const char* table : {"", "/segments/0", "/failure"}) {
    for (const auto& [key, value] : complete.at(Json::json_pointer(table)).items()) {
      Json json = complete;
      json.at(Json::json_pointer(table)).erase(key);
      EXPECT_THAT([&] { progress_from_json(json); }, testing::ThrowsMessage<UserError>(testing::HasSubstr(key)));
    }
  }
  Json json = complete;
  json.erase("queue_s");
  EXPECT_THAT([&] { progress_from_json(json); },
              testing::ThrowsMessage<UserError>(testing::MatchesRegex(
                  "progress.json: missing key 'queue_s': use the mlbench that wrote it, or make it anew")));
  json = complete;
  json["placement"] = "node1";
  EXPECT_THROW(progress_from_json(json), UserError);
  json = complete;
  json["queue_s"] = "long";
  EXPECT_THROW(progress_from_json(json), UserError);
  json = complete;
  json["state"] = "dreaming";
  EXPECT_THROW(progress_from_json(json), UserError);
}

}  // namespace
}  // namespace mlbench::supervise
