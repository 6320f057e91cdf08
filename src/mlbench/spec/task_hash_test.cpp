#include "mlbench/spec/task_hash.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mlbench/base/sha256.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/spec/task.h"

namespace mlbench::spec {
namespace {

// Every embedded task in every variant.
std::vector<FrozenTask> embedded_variants() {
  std::vector<FrozenTask> all;
  for (const TaskSource& source : embedded_tasks()) {
    std::vector<std::string> variants = parse_task(source, "", {}).task.variants;
    if (variants.empty()) variants.emplace_back();
    for (const std::string& variant : variants) all.push_back(parse_task(source, variant, {}));
  }
  return all;
}

const OfficialTask* find(const std::string& hash) {
  for (const OfficialTask& one : official_tasks()) {
    if (one.hash == hash) return &one;
  }
  return nullptr;
}

TEST(OfficialTasks, EachEmbeddedTaskIsListed) {
  for (const FrozenTask& frozen : embedded_variants()) {
    const TaskSpec& task = frozen.task;
    const auto word = [](const std::string& text) { return text.empty() ? "-" : text; };
    const std::string line = fmt::format("{} {} {} {}", frozen.hash, task.name, word(task.rules), word(task.variant));
    const OfficialTask* listed = find(frozen.hash);
    if (listed == nullptr) {
      ADD_FAILURE() << "a task that is built in is not official. If its rules are meant to change, add to "
                       "tasks/official_hashes.txt:\n"
                    << line;
      continue;
    }
    EXPECT_EQ(listed->task, task.name);
    EXPECT_EQ(listed->rules, task.rules);
    EXPECT_EQ(listed->variant, task.variant);
    EXPECT_FALSE(listed->wrong_rule) << line;
    EXPECT_TRUE(is_official(frozen.hash));
  }
}

TEST(OfficialTasks, TheBenchmarkOfAllReduceIsListed) {
  RunSpec run;
  run.workers = 2;
  set_collectives(run, task_0a());
  const OfficialTask* listed = find(run.task.hash);
  ASSERT_NE(listed, nullptr) << run.task.hash;
  EXPECT_EQ(listed->task, kTask0a);
  EXPECT_EQ(task_names().front().name, kTask0a);
}

// The first files of 4a and 4b did not say what their sources say: hashes stay known, runs are not official.
TEST(OfficialTasks, HashesOfAWrongRuleStayListedAndAreNotOfficial) {
  std::vector<std::string> wrong;
  for (const OfficialTask& one : official_tasks()) {
    EXPECT_EQ(is_official(one.hash), !one.wrong_rule) << one.hash;
    if (one.wrong_rule) wrong.push_back(one.task + " " + one.hash);
  }
  EXPECT_THAT(wrong,
              testing::UnorderedElementsAre("4b 1e379f8536dab450288da6171309f0c695b4bd82122220f10a0ed607d376cabe",
                                            "4a dd02499c9041083cab68c3be30628f39d0a1ced3a6a38dc69c111664ba761530"));
  RunSpec run;
  run.workers = 2;
  run.task = find_task("4b", "", "", {});
  EXPECT_EQ(division_of(run), "closed");
  run.task.hash = "1e379f8536dab450288da6171309f0c695b4bd82122220f10a0ed607d376cabe";
  EXPECT_EQ(division_of(run), "own");
}

// Lines are only added at the end, none is ever removed, and only a mark may be added to a line. A change that adds
// lines may count them in here.
TEST(OfficialTasks, WhatWasListedOnceStays) {
  constexpr size_t kLines = 27;
  const std::string kPinned = "fa02b4e4d145385a31db7926d931de3aabad7183186a9eb95cd665ba5f0d0f2f";
  std::string text;
  std::set<std::string> hashes;
  for (const OfficialTask& one : official_tasks()) {
    EXPECT_EQ(one.hash.size(), 64U) << one.hash;
    EXPECT_TRUE(hashes.insert(one.hash).second) << one.hash << " is listed twice";
    if (hashes.size() <= kLines) text += fmt::format("{} {} {} {}\n", one.hash, one.task, one.rules, one.variant);
  }
  ASSERT_GE(hashes.size(), kLines);
  EXPECT_EQ(sha256_hex(text), kPinned);
}

TEST(TaskHash, ANewKeyCountsOnlyWhereItIsUsed) {
  const Json canonical = find_task("fashion-mnist", "", "", {}).canonical;
  const auto hash = [](const Json& form, const std::vector<LaterKey>& later) {
    return sha256_hex(canonical_json(hashed_form(form, later)));
  };
  std::vector<LaterKey> later = later_keys();
  const std::string before = hash(canonical, later);
  EXPECT_EQ(before, hash_of(canonical));
  // In a table that is there, in one of its own, and a table within a table.
  later.insert(later.end(), {{"evaluation.beam", 4}, {"clipping.norm", 0.25}, {"clipping.by.layer", false}});
  Json with_keys = canonical;
  with_keys["evaluation"]["beam"] = 4.0;
  with_keys["clipping"] = {{"norm", 0.25}};
  EXPECT_EQ(hash(canonical, later), before) << "a file from before the keys";
  EXPECT_EQ(hash(with_keys, later), before);
  EXPECT_NE(hash(with_keys, later_keys()), before) << "the list is what leaves them out";
  for (const auto& [pointer, value] :
       {std::pair("/evaluation/beam", Json(5)), std::pair("/clipping/norm", Json(0.5)),
        std::pair("/clipping/norm", Json("0.25")), std::pair("/evaluation/beam", Json(nullptr))}) {
    Json other = with_keys;
    other[Json::json_pointer(pointer)] = value;
    EXPECT_NE(hash(other, later), before) << pointer << " " << value;
  }
}

TEST(TaskHash, TheTimeOfARuleSetIsSuchAKey) {
  const FrozenTask plain = find_task("2a", "2021", "", {});
  EXPECT_EQ(plain.task.max_time_s, 0);
  EXPECT_FALSE(hashed_form(plain.canonical).contains("limits"));
  for (const char* name : {"1a", "2a"}) {
    const FrozenTask timed = find_task(name, "2018", "", {});
    EXPECT_EQ(timed.task.max_time_s, 7200);
    EXPECT_EQ(hashed_form(timed.canonical)["limits"]["max_time_s"], 7200);
  }
}

TEST(TaskHash, ScheduleKeysThatCameLaterCountWhereTheyAreSet) {
  const Json canonical = find_task("fashion-mnist", "", "", {}).canonical;
  const std::pair<const char*, Json> others[] = {{"warmup_steps", 200},
                                                 {"warmup_from", "zero"},
                                                 {"warmup_factor", 0.01},
                                                 {"fractions", {0.5}},
                                                 {"by_length", true}};
  Json before = canonical;
  for (const auto& [key, value] : others) {
    EXPECT_TRUE(canonical["schedule"].contains(key)) << key;
    EXPECT_FALSE(hashed_form(canonical)["schedule"].contains(key)) << key;
    Json with_key = canonical;
    with_key["schedule"][key] = value;
    EXPECT_NE(hash_of(with_key), hash_of(canonical)) << key;
    before["schedule"].erase(key);
  }
  EXPECT_EQ(hash_of(before), hash_of(canonical));
  EXPECT_EQ(to_json(task_from_json(before)), canonical);
}

// Another list of variants makes no other task: a variant may be added, as long as the others stay what they are.
TEST(TaskHash, TheListOfVariantsIsOutside) {
  Json canonical = find_task("1a", "2018", "v2-56", {}).canonical;
  const std::string hash = hash_of(canonical);
  canonical["variants"].push_back("one-more");
  EXPECT_EQ(hash_of(canonical), hash);
  canonical["variant"] = "one-more";
  EXPECT_NE(hash_of(canonical), hash);
}

}  // namespace
}  // namespace mlbench::spec
