#include "mlbench/record/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"

namespace mlbench::record {
namespace {

using testing::HasSubstr;

const MemberRow& row_of_member(std::string_view name) {
  for (const MemberRow& row : event_members()) {
    if (row.name == name) return row;
  }
  throw InternalError("no row for " + std::string(name));
}

Json schema_of(const MemberRow& row) {
  Json schema;
  switch (row.type) {
    case MemberType::kText:
      schema["type"] = "string";
      break;
    case MemberType::kInteger:
      schema["type"] = "integer";
      break;
    case MemberType::kNumber:
      schema["type"] = {"number", "null"};
      break;
    case MemberType::kBoolean:
      schema["type"] = "boolean";
      break;
    case MemberType::kObject:
      schema["type"] = "object";
      break;
    case MemberType::kList:
      schema["type"] = "array";
      break;
  }
  if (!row.unit.empty()) schema["unit"] = row.unit;
  if (!row.meaning.empty()) schema["description"] = row.meaning;
  return schema;
}

// What api/event.schema.json is to be.
Json schema_of_the_list() {
  Json kinds = Json::array();
  for (const EventRow& row : event_types()) {
    Json members = {{"event", {{"const", row.name}}}};
    Json required = {"event", "sequence", "end_ns"};
    for (const char* name : {"sequence", "end_ns"}) members[name] = schema_of(row_of_member(name));
    for (const std::string_view name : row.always) required.push_back(name);
    for (const auto& names : {row.always, row.sometimes}) {
      for (const std::string_view name : names) members[std::string(name)] = schema_of(row_of_member(name));
    }
    kinds.push_back({{"title", row.name},
                     {"description", row.meaning},
                     {"type", "object"},
                     {"properties", members},
                     {"required", required},
                     {"additionalProperties", false}});
  }
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "A line of RUN/spool/rank-R.seg-S.events: what a rank says beside its steps"},
          {"oneOf", kinds}};
}

TEST(Events, TheSchemaIsTheList) {
  const auto file =
      std::filesystem::path(environment_variable("MLBENCH_TEST_SOURCE_DIR").value()) / "api/event.schema.json";
  const std::string expected = schema_of_the_list().dump(2) + "\n";
  EXPECT_EQ(read_file(file), expected) << "the schema is to be:\n" << expected;
}

TEST(Events, EachMemberHasARowAndBelongsToAnEvent) {
  std::set<std::string_view> used = {"sequence", "end_ns"};
  for (const EventRow& row : event_types()) {
    for (const auto& names : {row.always, row.sometimes}) {
      for (const std::string_view name : names) {
        EXPECT_NO_THROW(row_of_member(name)) << name;
        used.insert(name);
      }
    }
  }
  for (const MemberRow& row : event_members()) EXPECT_TRUE(used.contains(row.name)) << row.name;
  // What C++ calls a member is in the list, with its type.
  const auto check = [](const auto& member, MemberType type) { EXPECT_EQ(row_of_member(member.name).type, type); };
  for (const auto& one : {member::kSequence, member::kEndNs, member::kStep, member::kTrainNs, member::kDurationNs,
                          member::kSamples, member::kPeakRss, member::kStartStep, member::kLastStep,
                          member::kStepsPerEpoch, member::kSamplesBefore, member::kParameters, member::kSample,
                          member::kStandIn, member::kSequenceNumber, member::kClippedSteps, member::kSkippedSteps}) {
    check(one, MemberType::kInteger);
  }
  for (const auto& one : {member::kEpoch, member::kTrainLoss, member::kPrepareS, member::kTarget, member::kValue,
                          member::kGradientNorm, member::kLossScale}) {
    check(one, MemberType::kNumber);
  }
  for (const auto& one :
       {member::kSplit, member::kCommStack, member::kMetric, member::kImage, member::kPath, member::kReason,
        member::kWeightsSha256, member::kKind, member::kOperation, member::kMessage}) {
    check(one, MemberType::kText);
  }
  for (const auto& one : {member::kMetrics, member::kData, member::kEffective, member::kVersions, member::kStorage}) {
    check(one, MemberType::kObject);
  }
  check(member::kCadence, MemberType::kBoolean);
  check(member::kOperationCosts, MemberType::kList);
}

TEST(Events, AreMadeByTheList) {
  const Json event = make_event(EventKind::kCheckpoint, {member::kStep(20), member::kPath("step-20")});
  EXPECT_EQ(event, Json({{"event", "checkpoint"}, {"step", 20}, {"path", "step-20"}}));
  EXPECT_TRUE(is(event, EventKind::kCheckpoint));
  EXPECT_THROW(make_event(EventKind::kCheckpoint, {member::kStep(20), member::kValue(1)}), InternalError);
  try {
    make_event(EventKind::kEnd, {member::kStep(20)});
    ADD_FAILURE() << "an end without its reason";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("event 'end' without its member 'reason'"));
  }
}

TEST(Events, ReadersGetTheTypeTheyAskForOrNothing) {
  const auto event = parse_event(R"({"event": "evaluation", "step": 7, "epoch": null, "metrics": {"loss": null}})");
  ASSERT_TRUE(event);
  EXPECT_EQ(kind_of(*event), EventKind::kEvaluation);
  EXPECT_EQ(get(*event, member::kStep), 7);
  EXPECT_EQ(find(*event, member::kEpoch), std::nullopt);
  EXPECT_EQ(get(*event, member::kEpoch, 0.5), 0.5);
  EXPECT_EQ(find(*event, member::kSplit), std::nullopt);
  EXPECT_EQ(get(*event, member::kMetrics), Json({{"loss", nullptr}}));
  EXPECT_EQ(find(Json(3), member::kStep), std::nullopt);
  EXPECT_EQ(find(Json{{"step", "7"}}, member::kStep), std::nullopt);
}

TEST(Events, AnEventOfALaterProgramIsKeptAndHasNoKind) {
  const auto event = parse_event(R"({"event": "pause", "step": 7, "why": [1]})");
  ASSERT_TRUE(event);
  EXPECT_EQ(kind_of(*event), std::nullopt);
  EXPECT_EQ(get(*event, member::kStep), 7);
}

}  // namespace
}  // namespace mlbench::record
